"""A folder exported for CTranslate2 at work: the same search as Dragoman's, computed by CTranslate2."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import torch

from dragoman.checkpoint import Direction
from dragoman.config import EOS, ConfigError, DragomanError, ModelConfig, SearchConfig
from dragoman.exported import read_description
from dragoman.inference.batching import available_cores
from dragoman.inference.rules import length_limits, length_penalty
from dragoman.inference.search import Hypothesis
from dragoman.runtime.console import command
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
        """Load a folder with a model.bin, to compute with this many workers at the same time and threads for each."""
        library = import_optional("ctranslate2", "ctranslate2")
        self.config, self._vocabulary = config, vocabulary
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
        those then compete by Dragoman's penalty.
        """
        limits = length_limits(sources, config, self.config.max_length)
        return [some[: config.n_best] for some in self.hypotheses(sources, config, limits)]

    def hypotheses(self, sources: list[list[int]], config: SearchConfig, limits: list[int]) -> list[list[Hypothesis]]:
        """All hypotheses that CTranslate2 returns for translations of at most so many subwords each, best first.

        A call of CTranslate2 has one limit for all sentences and does not count the end of a translation that reaches
        it. What it forbids changes all probabilities, because it normalises the rest. So a sentence is translated again
        by itself if its translation is too long or has a symbol that is never written, and scored again if something
        was forbidden or cut off.
        """
        found = self._translate(sources, config, max(limits))
        whole_beam = replace(config, n_best=config.beam)  # another hypothesis may be the best once ends are counted
        for place, (source, limit) in enumerate(zip(sources, limits, strict=True)):
            wrong = any(token < EOS for one in found[place] for token in one.tokens)
            cut = any(len(one.tokens) >= limit for one in found[place])
            if wrong or cut:
                (found[place],) = self._translate([source], whole_beam, limit, _NEVER_WRITTEN if wrong else None)
            if wrong or cut or config.min_length:
                ended = [[*one.tokens, EOS] for one in found[place]]
                found[place] = _competing(ended, self.score([source] * len(ended), ended), config)
        return found

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
        )
        target = self._vocabulary.target
        ended = [[[*target.ids(pieces), EOS] for pieces in result.hypotheses] for result in found]
        return [_competing(some, result.scores, config) for some, result in zip(ended, found, strict=True)]

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


def _competing(ended: Sequence[list[int]], log_probs: Sequence[float], config: SearchConfig) -> list[Hypothesis]:
    """Hypotheses from their ids, each ending in EOS; best first."""
    penalties = [length_penalty(len(ids), config.length_penalty) for ids in ended]
    found = [Hypothesis(i[:-1], p, p / penalty) for i, p, penalty in zip(ended, log_probs, penalties, strict=True)]
    return sorted(found, key=lambda hypothesis: -hypothesis.score)


def choose_engine(folder: Path, asked: EngineName) -> EngineName:
    """torch or ctranslate2: what the folder is for; a ConfigError if something else was asked for."""
    exported = (folder / MODEL_FILE).is_file()
    if asked == "ctranslate2" and not exported:
        cure = command("export", folder, "--to", "ctranslate2", "--out", "FOLDER")
        raise ConfigError(f"{folder}: not a CTranslate2 folder (it has no {MODEL_FILE}); make one with {cure}")
    if asked == "torch" and exported:
        raise ConfigError(f"{folder}: a CTranslate2 folder, which PyTorch can't read; leave --engine at auto")
    return "ctranslate2" if exported else "torch"


def load_exported(
    folder: Path, device: torch.device, workers: int = 1
) -> tuple[CTranslate2Engine, Vocabulary, Direction]:
    """Load a folder that Dragoman exported for CTranslate2, which computes on a CPU unless the device is CUDA's.

    workers is the number of batches computed at the same time, which share the threads of a CPU; 0 is one for each.
    """
    description = read_description(folder, verify=True)
    vocabulary = Vocabulary.load(folder)
    device = device if device.type == "cuda" else CPU
    threads = torch.get_num_threads() if device.type == "cpu" else 1
    workers = min(workers or threads, available_cores())
    engine = CTranslate2Engine(folder, vocabulary, description.config, workers, max(1, threads // workers), device)
    return engine, vocabulary, description.direction
