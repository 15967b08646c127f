"""Which batches make each step, and which of them each process computes."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dragoman.config import TrainConfig
from dragoman.text.batches import MULTIPLE, Batch, collate, plan_epoch
from dragoman.text.dataset import TokenStore
from dragoman.training.distributed import Processes
from dragoman.training.progress import Progress
from dragoman.training.step import Share, batch_seed


class Shares:
    """One process's part of every step of a run.

    The steps are the same however many processes share them: the plan depends on the seed and the epoch alone.
    """

    def __init__(self, store: TokenStore, config: TrainConfig, processes: Processes) -> None:
        """Plan for this training text."""
        self._store, self._config, self._processes = store, config, processes

    def settle(self, progress: Progress) -> str | None:
        """Fix how many batches make a step, when a run begins: enough for every process to have one.

        Returns:
            What there is to say about it.
        """
        wanted, size = self._config.optimizer.accumulate, self._processes.size
        progress.accumulate = progress.accumulate or math.ceil(wanted / size) * size
        if progress.accumulate % size:
            return f"{size} processes share {progress.accumulate} batches a step, as the run began: some will wait"
        if progress.accumulate != wanted:
            return f"a step has {progress.accumulate} batches, shared by {size} process{'es' * (size > 1)}"
        return None

    def following(self, progress: Progress) -> Iterator[Share]:
        """What there is to do from where the run stands on, until a limit is reached; moves progress on."""
        while True:
            plan = self._plan(progress.epoch)
            while progress.batch < len(plan):
                if progress.done(self._config) >= 1.0:
                    return
                numbers = range(progress.batch, min(progress.batch + progress.accumulate, len(plan)))
                progress.batch = numbers.stop
                yield self._share(plan, numbers, progress.epoch)
            progress.epoch += 1
            progress.batch = 0

    def most_demanding(self) -> list[Batch]:
        """The batch of the most tokens, and the one with the longest sentence."""
        plan, store = self._plan(epoch=0), self._store
        lengths = -(-np.maximum(store.source_lengths, store.target_lengths) // MULTIPLE) * MULTIPLE  # as padded
        longest = np.array([lengths[indices].max() for indices in plan])
        tokens = longest * np.array([len(indices) for indices in plan])
        return [self._collate(plan[i]) for i in sorted({int(tokens.argmax()), int(longest.argmax())})]

    def _plan(self, epoch: int) -> list[NDArray[np.int64]]:
        lengths = (self._store.source_lengths, self._store.target_lengths)
        return plan_epoch(*lengths, self._config.optimizer.batch_tokens, self._config.seed, epoch)

    def _share(self, plan: list[NDArray[np.int64]], numbers: range, epoch: int) -> Share:
        store, seed = self._store, self._config.seed
        batches = [(batch_seed(seed, epoch, n), self._collate(plan[n])) for n in self._processes.share(numbers)]
        num_tokens = sum(int(store.target_lengths[plan[n]].sum()) for n in numbers)
        return Share(batches, num_tokens, None if batches else self._collate(plan[numbers[0]][:1]))

    def _collate(self, indices: NDArray[np.int64]) -> Batch:
        return collate(self._store, indices, self._config.model.max_length)
