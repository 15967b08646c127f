"""Run a function over sentences in batches of similar length, as large as the memory allows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Any, TypeVar

import numpy as np

from dragoman.config import DragomanError
from dragoman.inference.workers import Workers
from dragoman.text.batches import plan_in_order

Result = TypeVar("Result")

FORCE_CURE = "shorten it, or take another --device"
"""What to do if a given translation does not fit in memory."""
_FORCED_TOKENS = 4096  # budget of one batch of given translations: pairs × longest side


def in_batches(
    workers: Workers[Result],
    arguments: Callable[[list[int]], tuple[Any, ...]],
    lengths: Sequence[int],
    batch_tokens: int,
    cure: str,
    progress: Callable[[list[int]], None] = lambda batch: None,
) -> list[Result]:
    """Call a function for all sentences, those of similar length together; returns their results, in order.

    If a batch does not fit in memory, it and those that wait are halved.

    Args:
        workers: call the function, which returns the results of some sentences.
        arguments: of the function, given the sentences' places in lengths.
        lengths: of the sentences, in subwords.
        batch_tokens: budget of one batch: sentences × longest.
        cure: what to do if one sentence alone does not fit in memory, which is a DragomanError.
        progress: called with the places of each batch that is done.
    """
    results: dict[int, Result] = {}
    running: dict[Future[Sequence[Result] | None], list[int]] = {}
    waiting = _plan(lengths, batch_tokens, workers.count)
    with workers.at_work(len(waiting)) as submit:
        while waiting or running:
            while waiting and len(running) < workers.count:
                batch = waiting.pop()
                running[submit(*arguments(batch))] = batch
            for done in wait(running, return_when=FIRST_COMPLETED).done:
                batch, found = running.pop(done), done.result()
                if found is None:
                    if len(batch) == 1:
                        raise DragomanError(f"out of memory on a line of {lengths[batch[0]]:,} subwords: {cure}")
                    waiting = [half for whole in (*waiting, batch) for half in _halves(whole)]
                else:
                    results.update(zip(batch, found, strict=True))
                    progress(batch)
    return [results[place] for place in range(len(lengths))]


def _plan(lengths: Sequence[int], batch_tokens: int, workers: int) -> list[list[int]]:
    """The batches, to be taken from the end; small enough that every worker has something to do."""
    share = -(-sum(lengths) // workers) if workers > 1 else batch_tokens
    plan = plan_in_order(np.array(lengths, dtype=np.int64), min(share, batch_tokens))
    return [batch.tolist() for batch in reversed(plan)]


def _halves(batch: list[int]) -> list[list[int]]:
    """The shorter sentences and the longer ones: batches are taken from the end, longest first."""
    middle = -(-len(batch) // 2)
    return [half for half in (batch[middle:], batch[:middle]) if half]


def log_probs_in_batches(
    score: Callable[[list[list[int]], list[list[int]]], list[float]],
    sources: Sequence[list[int]],
    targets: Sequence[list[int]],
) -> list[float]:
    """The log-probability of each target given its source, by an engine's score; ids, each ending in EOS."""
    return in_batches(
        Workers(score),
        lambda batch: ([sources[i] for i in batch], [targets[i] for i in batch]),
        [max(len(s), len(t)) for s, t in zip(sources, targets, strict=True)],
        _FORCED_TOKENS,
        FORCE_CURE,
    )
