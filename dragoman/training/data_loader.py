"""Which batches make each step, and which of them each process computes."""

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from dragoman.config import EOS, TrainConfig, require
from dragoman.text.batches import Batch, IdPairs, Sentence, pack, padded_lengths, plan_epoch
from dragoman.text.dataset import TokenStore
from dragoman.text.subwords import SubwordModel, Vocabulary
from dragoman.training.distributed import Processes
from dragoman.training.run_state import Progress
from dragoman.training.step import StepBatches, batch_seed


class DataLoader:
    """The batches of one process in every step of a run.

    The plan depends on the seed and the epoch alone, so the steps are the same for any number of processes. The
    vocabulary is for subword dropout.
    """

    def __init__(
        self, store: IdPairs, config: TrainConfig, processes: Processes, vocabulary: Vocabulary | None = None
    ) -> None:
        self._store, self._config, self._processes = store, config, processes
        self._times, self._texts = None, np.empty(0, np.int64)
        if isinstance(store, TokenStore):
            self._times = store.times(config.weights, config.temperature)
            self._texts = store.texts() if len(config.train) > 1 else self._texts
        self._vocabulary = vocabulary if config.text.subword_dropout else None
        merges = self._vocabulary is None or (self._vocabulary.source.merges and self._vocabulary.target.merges)
        require(merges, "text.subword_dropout needs BPE subwords, and this model has others: set it to 0")

    def settle_accumulation(self, progress: Progress) -> None:
        """Fix how many batches make a step, a multiple of the number of processes, when a run starts."""
        size = self._processes.size
        progress.accumulate = progress.accumulate or math.ceil(self._config.optimizer.accumulate / size) * size

    def steps(self, progress: Progress) -> Iterator[StepBatches]:
        """Yield the steps from the current position of the run until a limit is reached; advances the position."""
        while True:
            plan = self._plan(progress.epoch)
            while progress.batch < len(plan):
                if progress.done(self._config) >= 1.0:
                    return
                numbers = range(progress.batch, min(progress.batch + progress.accumulate, len(plan)))
                progress.batch, progress.part_of_epoch = numbers.stop, numbers.stop / len(plan)
                yield self._step(plan, numbers, progress.epoch)
            progress.start_next_epoch()

    def size_of_epoch(self) -> tuple[int, int]:
        """Number of batches, and of target tokens, in the first pass over the text."""
        plan = self._plan(epoch=0)
        return len(plan), sum(int(self._store.lengths[1][indices].sum()) for indices in plan)

    def largest_batches(self) -> list[Batch]:
        """The batch of the most tokens, and the one with the longest sentence."""
        plan, lengths = self._plan(epoch=0), padded_lengths(np.maximum(*self._store.lengths))
        longest = np.array([lengths[indices].max() for indices in plan])
        tokens = longest * np.array([len(indices) for indices in plan])
        return [self._collate(plan[i]) for i in sorted({int(tokens.argmax()), int(longest.argmax())})]

    def _plan(self, epoch: int) -> list[NDArray[np.int64]]:
        budget, seed = self._config.optimizer.batch_tokens, self._config.seed
        return plan_epoch(*self._store.lengths, budget, seed, epoch, self._times)

    def _step(self, plan: list[NDArray[np.int64]], numbers: range, epoch: int) -> StepBatches:
        seeds = {n: batch_seed(self._config.seed, epoch, n) for n in numbers}
        own = self._processes.shard(numbers)
        batches = {n: self._collate(plan[n], seeds[n]) for n in (own if self._vocabulary is None else numbers)}
        if self._vocabulary is None:
            num_tokens = sum(int(self._store.lengths[1][plan[n]].sum()) for n in numbers)
        else:  # known only after subword dropout
            num_tokens = sum(batch.num_tokens for batch in batches.values())
        filler = None if own else self._collate(plan[numbers[0]][:1])
        pairs = list[int]()
        if self._texts.size:
            texts = self._texts[np.concatenate([plan[n] for n in numbers])]
            pairs = np.bincount(texts, minlength=len(self._config.train)).tolist()
        return StepBatches([(seeds[n], batches[n]) for n in own], num_tokens, filler, pairs)

    def _collate(self, indices: NDArray[np.int64], seed: int = 0) -> Batch:
        sources, targets = zip(*(self._store[i] for i in indices), strict=True)
        if self._vocabulary:
            sources = self._with_dropout(self._vocabulary.source, sources, seed)
            targets = self._with_dropout(self._vocabulary.target, targets, seed + 1)
        return pack(sources, targets, self._config.model.max_length)

    def _with_dropout(self, model: SubwordModel, sentences: Sequence[NDArray[np.integer]], seed: int) -> list[Sentence]:
        """The same text in other subwords; a sentence that would get too long stays as it was."""
        settings = self._config.text
        sampled = model.sample(model.decode([ids.tolist() for ids in sentences]), settings.subword_dropout, seed)
        return [
            [*ids, EOS] if len(ids) <= settings.max_length else sentence
            for ids, sentence in zip(sampled, sentences, strict=True)
        ]
