"""CTranslate2 at work: the same search as Dragoman's, computed by a library made for it."""

import math
import os
import sys
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import ctranslate2
import numpy as np

from dragoman.config import EOS, DragomanError, ModelConfig, SearchConfig
from dragoman.inference.alignment import Array, alignment_layer
from dragoman.inference.hypotheses import NEVER_WRITTEN, Hypothesis, length_limits, length_penalty
from dragoman.text.subwords import Vocabulary

_TOKENS, _INT8_TOKENS, _FORCED_TOKENS = 2048, 1024, 512  # in a batch to search (times beam), in int8; of given pairs
_BATCHES_AT_ONCE = 32  # for each worker: Ctrl-C has to wait until CTranslate2 has finished them


def available_cores() -> int:
    """Processor cores to compute with: OMP_NUM_THREADS, or all that this process may use."""
    asked = os.environ.get("OMP_NUM_THREADS", "")
    if asked.isdigit() and int(asked):
        return int(asked)
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class CTranslate2Engine:
    """A model that searches and scores; it has no attention weights to show. Methods as those of Engine."""

    def __init__(
        self,
        folder: Path,
        vocabulary: Vocabulary,
        config: ModelConfig,
        device: str = "cpu",
        compute_type: str = "default",
        workers: int = 0,
        attends: bool = False,
    ) -> None:
        """Load a folder with a model.bin.

        Args:
            folder: the folder.
            vocabulary: its subwords.
            config: the shape of the model.
            device: cpu, cuda or cuda:N.
            compute_type: the precision, one of CTranslate2's names; default is that of the file.
            workers: batches computed at the same time, each on one core; 0: one for each core.
            attends: whether the model gives away its attention in the layer that alignments are read from.
        """
        self.attending_layer = alignment_layer(config.num_decoder_layers) if attends else -1
        self.config, self.device, self._vocabulary = config, device, vocabulary
        kind, _, index = device.partition(":")
        cores = available_cores() if kind == "cpu" else 1
        self.workers = min(workers or cores, cores)
        self.forced_tokens = self.aligned_tokens = 8 * self.workers * _FORCED_TOKENS  # all attention weights are kept
        try:
            self._translator = ctranslate2.Translator(
                str(folder),
                device=kind,
                device_index=int(index or 0),
                compute_type=compute_type,
                inter_threads=self.workers,
                intra_threads=1,  # two on two cores were no faster for batches, and far slower for a sentence
            )
        except (RuntimeError, ValueError) as error:
            raise DragomanError(f"{folder}: CTranslate2 can't read it ({error})") from None
        self._batch_tokens = _INT8_TOKENS if "int8" in self._translator.compute_type else _TOKENS

    @property
    def computing(self) -> str:
        """Library, precision and device, for people."""
        return f"ctranslate2 {ctranslate2.__version__}, {self._translator.compute_type} on {self._translator.device}"

    def search(
        self,
        sources: list[list[int]],
        config: SearchConfig,
        forbidden: Sequence[Collection[int]] = (),
        limits: list[int] | None = None,
    ) -> list[list[Hypothesis]]:
        """The best hypotheses for each source, best first; for each, ids may be forbidden and the length limited.

        Without a length penalty the best one is the one that Engine.search finds. With one, CTranslate2 searches
        without it until as many hypotheses as the beam have finished and the best candidate of a step was an end;
        those then compete by Dragoman's penalty.

        A call of CTranslate2 has one limit for all sentences and does not count the end of a translation that reaches
        it. What it forbids changes all probabilities, because it normalises the rest. So a sentence is translated again
        by itself if its translation is too long or has an id that is forbidden or never written, and scored again if
        something was forbidden or cut off.
        """
        config = replace(config, log_probs=config.log_probs or config.beam > 1)  # by which hypotheses compete
        limits = limits or length_limits(sources, config, self.config.max_length)
        found, unsure = self._translate(sources, config, max(limits)), list[int]()
        for place, (source, limit) in enumerate(zip(sources, limits, strict=True)):
            never = {*NEVER_WRITTEN, *(forbidden[place] if forbidden else ())}
            wrong = any(not never.isdisjoint(one.tokens) for one in found[place])
            cut = any(len(one.tokens) >= limit for one in found[place])
            if wrong or (cut and config.beam > 1):  # a greedy search goes the same way, whatever the limit
                all_of_beam = replace(config, n_best=config.beam)  # once ends are counted, another may be the best
                (found[place],) = self._translate([source], all_of_beam, limit, never if wrong else ())
            if wrong or cut or config.min_length:
                unsure.append(place)
        ended = [(place, [*one.tokens[: limits[place]], EOS]) for place in unsure for one in found[place]]
        pairs = [sources[place] for place, _ in ended], [ids for _, ids in ended]
        scores = self.score(*pairs) if ended and config.log_probs else [math.nan] * len(ended)
        for place, group in groupby(zip(ended, scores, strict=True), key=lambda scored: scored[0][0]):
            some = list(group)
            found[place] = _competing([ids for (_, ids), _ in some], [score for _, score in some], config)
        return [some[: config.n_best] for some in found]

    def _translate(
        self, sources: list[list[int]], config: SearchConfig, limit: int, forbidden: Collection[int] = ()
    ) -> list[list[Hypothesis]]:
        found = self._translator.translate_batch(
            [self._source(ids) for ids in sources],
            max_batch_size=max(1, self._batch_tokens // config.beam),
            batch_type="tokens",
            beam_size=config.beam,
            num_hypotheses=config.beam if config.length_penalty or config.min_length else config.n_best,
            length_penalty=0,
            max_input_length=0,
            max_decoding_length=limit,
            min_decoding_length=config.min_length,
            suppress_sequences=[[piece] for piece in self._vocabulary.target.pieces([*forbidden])] or None,
            return_scores=config.log_probs,
        )
        target = self._vocabulary.target
        ended = [[[*target.ids(pieces), EOS] for pieces in result.hypotheses] for result in found]
        return [_competing(some, one.scores or [math.nan], config) for some, one in zip(ended, found, strict=True)]

    def score(self, sources: list[list[int]], targets: list[list[int]]) -> list[float]:
        """The log-probability of each target given its source; ids, each ending in EOS."""
        return [sum(log_probs) for log_probs in self.token_scores(sources, targets)]

    def token_scores(self, sources: list[list[int]], targets: list[list[int]]) -> list[list[float]]:
        """The log-probability of each subword of each target; ids, each ending in EOS."""
        found = self._translator.score_batch(
            [self._source(ids) for ids in sources],
            [self._vocabulary.target.pieces(ids[:-1]) for ids in targets],
            max_batch_size=_FORCED_TOKENS,
            batch_type="tokens",
            max_input_length=0,
        )
        return [list(result.log_probs) for result in found]

    def cross_attention(self, sources: list[list[int]], targets: list[list[int]], layer: int) -> list[Array]:
        """The weights (1, T, S) of attending_layer along each target, as the mean of its heads without `</s>`.

        The targets are decoded again: from a beam search CTranslate2 returns wrong weights for some first subwords.
        """
        prefixes = [self._vocabulary.target.pieces(ids[:-1]) for ids in targets]
        found = self._translator.translate_batch(
            [self._source(ids) for ids in sources],
            target_prefix=prefixes,
            max_batch_size=_FORCED_TOKENS,
            batch_type="tokens",
            beam_size=1,
            max_input_length=0,
            max_decoding_length=max(1, *map(len, prefixes)),
            return_attention=True,
        )
        weights = (result.attention[0][: len(prefix)] for result, prefix in zip(found, prefixes, strict=True))
        return [np.array([one], dtype=np.float32) for one in weights]

    def batch_tokens(self, config: SearchConfig) -> int:
        """Budget of one call: enough for all workers, to which CTranslate2 gives batches of its own."""
        return _BATCHES_AT_ONCE * self.workers * self._batch_tokens

    def _source(self, ids: list[int]) -> list[str]:
        return self._vocabulary.source.pieces(ids[:-1])  # CTranslate2 adds the end itself (add_source_eos)


def _competing(ended: Sequence[list[int]], log_probs: Sequence[float], config: SearchConfig) -> list[Hypothesis]:
    """Hypotheses from their ids, each ending in EOS; best first."""
    penalties = [length_penalty(len(ids), config.length_penalty) for ids in ended]
    found = [Hypothesis(i[:-1], p, p / penalty) for i, p, penalty in zip(ended, log_probs, penalties, strict=True)]
    return sorted(found, key=lambda hypothesis: -hypothesis.score)
