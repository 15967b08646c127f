"""A folder exported for CTranslate2 at work: the same search as Dragoman's, computed by CTranslate2."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch

from dragoman.checkpoint import Direction
from dragoman.config import EOS, ConfigError, DragomanError, ModelConfig, SearchConfig
from dragoman.exported import read_description
from dragoman.inference.rules import LengthPenalty, length_limits
from dragoman.inference.search import Hypothesis
from dragoman.inference.workers import available_cores
from dragoman.runtime.optional_imports import import_optional
from dragoman.text.subwords import SPECIALS, Vocabulary

MODEL_FILE = "model.bin"
EngineName = Literal["auto", "torch", "ctranslate2"]
_BATCH_TOKENS = 1024  # of CTranslate2's own batches, which it cuts from what it is given
_BATCHES_AT_ONCE = 4  # for each worker: Ctrl-C has to wait until CTranslate2 has finished them
CPU = torch.device("cpu")
_NEVER_WRITTEN = [[piece] for piece in SPECIALS[:3]]


class CTranslate2Engine:
    """A model that searches and scores; it has no attention weights to show. Methods as those of Engine."""

    def __init__(
        self,
        folder: Path,
        vocabulary: Vocabulary,
        config: ModelConfig,
        workers: int = 1,
        threads: int = 1,
        device: torch.device = CPU,
    ) -> None:
        """Load a folder with a model.bin, to compute with this many workers at the same time and threads for each.

        Raises:
            DragomanError: CTranslate2 is not installed, or can't read the folder.
        """
        library = import_optional("ctranslate2", "ctranslate2")
        self.config = config
        self._vocabulary = vocabulary
        self._version, self._workers = library.__version__, workers
        try:
            self._translator = library.Translator(
                str(folder),
                device=device.type,
                device_index=device.index or 0,
                inter_threads=workers,
                intra_threads=threads,
            )
        except (RuntimeError, ValueError) as error:
            raise DragomanError(f"{folder}: CTranslate2 can't read it ({error})") from None

    @property
    def computing(self) -> str:
        """Library, precision and device, for people."""
        return f"ctranslate2 {self._version}, {self._translator.compute_type} on {self._translator.device}"

    def search(self, sources: list[list[int]], config: SearchConfig) -> list[list[Hypothesis]]:
        """The best hypotheses for each source, best first.

        Without a length penalty the best one is the one that Engine.search finds. With one, CTranslate2 searches
        without it until as many hypotheses as the beam have finished and the best candidate of a step was an end;
        those then compete by Dragoman's penalty. CTranslate2's own way, to stop at the first so many endings, would
        take hopeless ones if the model is sure of a longer translation. Arguments and errors are those of
        Engine.search.
        """
        limits = length_limits(sources, config, self.config.max_length)
        most = max(limits)
        found = self.hypotheses(sources, config, most)
        # A call has one limit for all sentences. If all hypotheses ended before their own, that made no difference.
        beyond = [i for i, some in enumerate(found) if most > limits[i] <= max(len(one.tokens) for one in some)]
        for limit in {limits[i] for i in beyond}:
            places = [i for i in beyond if limits[i] == limit]
            again = self.hypotheses([sources[i] for i in places], config, limit)
            for place, some in zip(places, again, strict=True):
                found[place] = some
        return [some[: config.n_best] for some in found]

    def hypotheses(self, sources: list[list[int]], config: SearchConfig, limit: int) -> list[list[Hypothesis]]:
        """All hypotheses that CTranslate2 returns for translations of at most limit subwords."""
        found = self._translate(sources, config, limit)
        # To forbid the symbols that are never written changes all probabilities: CTranslate2 normalises the rest. So
        # they are forbidden only if one was written after all.
        wrong = [i for i, some in enumerate(found) if any(token < EOS for one in some for token in one.tokens)]
        cut = [i for i, some in enumerate(found) if i not in wrong and any(len(one.tokens) >= limit for one in some)]
        # Once their end is counted, or the symbols are gone, another hypothesis of the beam may be the best.
        whole_beam = replace(config, n_best=config.beam)
        few = [i for i in cut if len(found[i]) < config.beam]
        for places, suppressed in ((wrong, _NEVER_WRITTEN), (few, None)):
            again = self._translate([sources[i] for i in places], whole_beam, limit, suppressed)
            for place, some in zip(places, again, strict=True):
                found[place] = some
        return self._rescored(sources, found, config, range(len(found)) if config.min_length else {*wrong, *cut})

    def _rescored(
        self, sources: list[list[int]], found: list[list[Hypothesis]], config: SearchConfig, places: Collection[int]
    ) -> list[list[Hypothesis]]:
        """The hypotheses, those in these places with the probability that the model gives them and their end.

        CTranslate2's own numbers are too high if something was forbidden, because it normalises the rest, or if a
        translation reached the limit, because the end is not counted.
        """
        pairs = [(place, one.tokens) for place in places for one in found[place]]
        log_probs = self.score([sources[place] for place, _ in pairs], [[*tokens, EOS] for _, tokens in pairs])
        rescored = [[] if place in places else some for place, some in enumerate(found)]
        for (place, tokens), log_prob in zip(pairs, log_probs, strict=True):
            rescored[place].append(_competing(tokens, log_prob, config))
        return [_best_first(some) for some in rescored]

    def _translate(
        self, sources: list[list[int]], config: SearchConfig, limit: int, suppressed: list[list[str]] | None = None
    ) -> list[list[Hypothesis]]:
        found = self._translator.translate_batch(
            [self._source(ids) for ids in sources],
            max_batch_size=_BATCH_TOKENS,
            batch_type="tokens",
            beam_size=config.beam,
            num_hypotheses=config.beam if config.length_penalty or config.min_length else config.n_best,
            length_penalty=0,
            max_input_length=0,
            max_decoding_length=limit,
            min_decoding_length=config.min_length,
            suppress_sequences=suppressed,
            return_scores=True,
            return_end_token=True,
        )
        return [self._hypotheses(result, config) for result in found]

    def score(self, sources: list[list[int]], targets: list[list[int]]) -> list[float]:
        """The log-probability of each target given its source; ids, each ending in EOS."""
        return [sum(log_probs) for log_probs in self.token_scores(sources, targets)]

    def token_scores(self, sources: list[list[int]], targets: list[list[int]]) -> list[list[float]]:
        """The log-probability of each subword of each target; ids, each ending in EOS."""
        found = self._translator.score_batch(
            [self._source(ids) for ids in sources],
            [self._vocabulary.target.pieces(ids[:-1]) for ids in targets],
            max_batch_size=_BATCH_TOKENS,
            batch_type="tokens",
            max_input_length=0,
        )
        return [list(result.log_probs) for result in found]

    def batch_tokens(self, config: SearchConfig) -> int:
        """Budget of one call: enough for all workers, to which CTranslate2 gives batches of its own."""
        return _BATCHES_AT_ONCE * self._workers * _BATCH_TOKENS

    def _source(self, ids: list[int]) -> list[str]:
        return self._vocabulary.source.pieces(ids[:-1])  # CTranslate2 adds the end itself (add_source_eos)

    def _hypotheses(self, result: Any, config: SearchConfig) -> list[Hypothesis]:
        found = []
        for pieces, log_prob in zip(result.hypotheses, result.scores, strict=True):
            ids = self._vocabulary.target.ids(pieces)
            tokens = ids[:-1] if ids and ids[-1] == EOS else ids  # without an end if it reached the limit
            found.append(_competing(tokens, log_prob, config))
        return _best_first(found)


def _competing(tokens: list[int], log_prob: float, config: SearchConfig) -> Hypothesis:
    return Hypothesis(tokens, log_prob, log_prob / LengthPenalty(config.length_penalty)(len(tokens) + 1))


def _best_first(some: list[Hypothesis]) -> list[Hypothesis]:
    return sorted(some, key=lambda hypothesis: -hypothesis.score)


def choose_engine(folder: Path, asked: EngineName) -> EngineName:
    """torch or ctranslate2: the one asked for, or the one that the folder is for.

    Raises:
        ConfigError: the folder is not for the engine asked for.
    """
    exported = (folder / MODEL_FILE).is_file()
    if asked == "ctranslate2" and not exported:
        cure = f"dragoman export {folder} --to ctranslate2 --out …"
        raise ConfigError(f"{folder}: not a CTranslate2 folder (it has no {MODEL_FILE}); make one with {cure}")
    if asked == "torch" and exported:
        raise ConfigError(f"{folder}: a CTranslate2 folder, which PyTorch can't read; leave --engine at auto")
    return "ctranslate2" if exported else "torch"


def load_exported(
    folder: Path, device: torch.device, workers: int = 1
) -> tuple[CTranslate2Engine, Vocabulary, Direction]:
    """Load a folder that Dragoman exported for CTranslate2.

    Args:
        folder: the folder.
        device: CUDA's, or the CPU; for any other, CTranslate2 computes on the CPU.
        workers: batches computed at the same time, at most one for each core; on a CPU they share its threads, and 0
            is one for each.

    Raises:
        DragomanError: part of it is missing or damaged, or CTranslate2 is not installed.
    """
    description = read_description(folder, verify=True)
    vocabulary = Vocabulary.load(folder)
    device = device if device.type == "cuda" else CPU
    threads = torch.get_num_threads() if device.type == "cpu" else 1
    workers = min(workers or threads, available_cores())
    engine = CTranslate2Engine(folder, vocabulary, description.config, workers, max(1, threads // workers), device)
    return engine, vocabulary, description.direction
