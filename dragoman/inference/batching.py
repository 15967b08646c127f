"""Something for every sentence: in batches of similar length, as far as the memory goes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Any, TypeVar

import numpy as np

from dragoman.config import DragomanError
from dragoman.inference.workers import Compute, Workers, this_process
from dragoman.text.batches import plan_in_order

Result = TypeVar("Result")

FORCED_TOKENS = 4096
"""Budget of one batch of given translations."""
FORCE_CURE = "shorten it, or take another --device"
"""What helps when the memory does not suffice for a given translation."""


def in_batches(
    compute: Compute[Result],
    arguments: Callable[[list[int]], tuple[Any, ...]],
    lengths: Sequence[int],
    batch_tokens: int,
    cure: str,
    progress: Callable[[int], None] | None = None,
    workers: Workers[Result] | None = None,
) -> list[Result]:
    """Compute something for every sentence; sentences of similar length go together.

    Where the memory does not suffice for a batch, it and those that wait are halved.

    Args:
        compute: the results of some sentences.
        arguments: of compute, given the sentences' places in lengths.
        lengths: of the sentences, in subwords.
        batch_tokens: budget of one batch: sentences × longest.
        cure: what helps when the memory does not suffice for one sentence alone.
        progress: called with the number of sentences that each batch had.
        workers: processes that call the same function; they are used where there is more than one batch.

    Returns:
        The results, in the order of the lengths.

    Raises:
        DragomanError: the memory does not suffice for one sentence.
    """
    results: dict[int, Result] = {}
    count = workers.count if workers is not None else 1
    waiting = _plan(lengths, batch_tokens, count)
    running: dict[Future[Sequence[Result] | None], list[int]] = {}
    alone = workers is None or min(count, len(waiting)) == 1
    with this_process(compute) if alone else workers.at_work() as submit:  # type: ignore[union-attr]
        while waiting or running:
            while waiting and len(running) < count:
                batch = waiting.pop()
                running[submit(*arguments(batch))] = batch
            for done in wait(running, return_when=FIRST_COMPLETED).done:
                batch, found = running.pop(done), done.result()
                if found is None:
                    _require_several(batch, lengths, cure)
                    waiting = [half for whole in (*waiting, batch) for half in _halves(whole)]
                    continue
                results.update(zip(batch, found, strict=True))
                if progress is not None:
                    progress(len(batch))
    return [results[place] for place in range(len(lengths))]


def _plan(lengths: Sequence[int], batch_tokens: int, workers: int) -> list[list[int]]:
    """The batches, to be taken from the end; small enough that every worker has something to do."""
    share = -(-sum(lengths) // workers) if workers > 1 else batch_tokens
    plan = plan_in_order(np.array(lengths, dtype=np.int64), min(share, batch_tokens))
    return [batch.tolist() for batch in reversed(plan)]


def _require_several(batch: list[int], lengths: Sequence[int], cure: str) -> None:
    if len(batch) == 1:
        raise DragomanError(f"the memory does not suffice for a line of {lengths[batch[0]]:,} subwords: {cure}")


def _halves(batch: list[int]) -> list[list[int]]:
    """The shorter sentences and the longer ones: batches wait in the order in which they are taken from the end."""
    middle = -(-len(batch) // 2)
    return [half for half in (batch[middle:], batch[:middle]) if half]


def log_probs_in_batches(
    score: Callable[[list[list[int]], list[list[int]]], list[float]],
    sources: Sequence[list[int]],
    targets: Sequence[list[int]],
    batch_tokens: int = FORCED_TOKENS,
) -> list[float]:
    """The log-probability of each target given its source, in order.

    Args:
        score: of an engine; takes one batch.
        sources: ids, each ending in EOS.
        targets: likewise.
        batch_tokens: budget of one batch: pairs × longest side.
    """
    return in_batches(
        score,
        lambda batch: ([sources[i] for i in batch], [targets[i] for i in batch]),
        [max(len(s), len(t)) for s, t in zip(sources, targets, strict=True)],
        batch_tokens,
        FORCE_CURE,
    )
