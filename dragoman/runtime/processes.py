"""Work spread over the processor's cores."""

import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import chain, islice
from multiprocessing import get_context, parent_process
from threading import Thread
from typing import Any, TypeVar

from dragoman.config import DragomanError

Item = TypeVar("Item")
Result = TypeVar("Result")
_MOST = 16  # processes, as many as one can read for


def map_on_cores(function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """Yield what a function makes of each item, in order, computed by forked processes some items ahead.

    Items and results are pickled; the function is not. Where processes can't be forked safely, there are none.
    """
    iterator, most = iter(items), 1
    if sys.platform == "linux":
        most = min(len(os.sched_getaffinity(0)), _MOST)
    first = list(islice(iterator, most))
    if len(first) < 2:
        yield from map(function, chain(first, iterator))
        return
    waiting = deque[Future[Result]]()
    pool = ProcessPoolExecutor(len(first), get_context("fork"), _begin, (function,))
    try:
        for item in chain(first, iterator):
            waiting.append(pool.submit(_call, item))
            if len(waiting) > 2 * len(first):
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool:
        raise DragomanError("a process was killed; was there too little memory?") from None
    finally:
        pool.shutdown(cancel_futures=True)


def end_with_parent() -> None:
    """Send this process SIGTERM when the process that started it is gone."""

    def follow() -> None:
        parent_process().join()  # type: ignore[union-attr]
        signal.raise_signal(signal.SIGTERM)

    Thread(target=follow, daemon=True).start()


_function: Callable[[Any], Any]  # of a forked process


def _begin(function: Callable[[Any], Any]) -> None:
    global _function
    _function = function
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends this process
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    end_with_parent()


def _call(item: Any) -> Any:
    return _function(item)
