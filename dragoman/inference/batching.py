"""Run a function over sentences in batches of similar length that fit in memory."""

import sys
from collections.abc import Callable, Sequence
from typing import TypeVar

from dragoman.config import DragomanError
from dragoman.runtime.allocator import is_out_of_memory
from dragoman.text.batches import plan_in_order

Result = TypeVar("Result")


def in_batches(
    compute: Callable[[list[int]], Sequence[Result]],
    lengths: Sequence[int],
    batch_tokens: int,
    progress: Callable[[list[int]], None] = lambda batch: None,
) -> list[Result]:
    """Call a function for all sentences, those of similar length together; returns their results, in order.

    If a batch does not fit in memory, it and those that wait are halved; a single sentence is then a DragomanError.

    Args:
        compute: the results of some sentences, given their places in lengths.
        lengths: of the sentences, in subwords.
        batch_tokens: budget of one batch: sentences × longest.
        progress: called with the places of each batch that is done.
    """
    results: dict[int, Result] = {}
    # Batches are taken from the end.
    waiting = plan_in_order(lengths, batch_tokens)[::-1]
    while waiting:
        batch, found = waiting.pop(), None
        try:
            found = compute(batch)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
        if found is not None:
            results.update(zip(batch, found, strict=True))
            progress(batch)
        elif len(batch) > 1:
            if torch := sys.modules.get("torch"):  # after the except block, which holds on to what was computed so far
                torch.cuda.empty_cache()
            halves = ((whole[len(whole) // 2 :], whole[: len(whole) // 2]) for whole in (*waiting, batch))
            waiting = [half for pair in halves for half in pair if half]
        else:
            cure = "shorten it, or take a smaller beam"
            raise DragomanError(f"out of memory on a line of {lengths[batch[0]]:,} subwords: {cure}")
    return [results[place] for place in range(len(lengths))]
