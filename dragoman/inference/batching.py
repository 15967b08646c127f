"""Run a function over sentences in batches of similar length that fit in memory, here or in several processes.

The processes are forks with one thread each, kept from call to call. Threads would not help: they take turns at the
interpreter, which every token needs several hundred times. A fork shares the model with this process and starts at
once. It is kept because every process compiles the processor's kernels anew, one for each size of a product.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from typing import Any, Generic, TypeVar

import numpy as np
import torch

from dragoman.config import DragomanError
from dragoman.runtime.allocator import give_back_memory, is_out_of_memory, keep_freed_memory
from dragoman.text.batches import plan_in_order

_FORCED_TOKENS = 4096  # budget of one batch of given translations: pairs × longest side
_POLL_SECONDS = 0.5  # until a worker notices that the process it works for has been killed

Result = TypeVar("Result")
Compute = Callable[..., Sequence[Result]]
"""Some results from arguments; those must be picklable where it is called in another process."""
Submit = Callable[..., "Future[Sequence[Result] | None]"]
"""Starts what a Compute does; the result is None if it ran out of memory."""


def available_cores() -> int:
    """Processor cores that this process may use."""
    if sys.platform.startswith("linux"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Workers(Generic[Result]):
    """Processes that call one function, with everything that it refers to as it was when they were started."""

    def __init__(self, compute: Compute[Result], count: int = 1, state: Callable[[], object] = lambda: None) -> None:
        """Prepare, without starting a process.

        Args:
            compute: the function.
            count: processes at most; never more than cores. 1 is this process, with all of PyTorch's threads, and so
                is any number on systems other than Linux.
            state: what compute depends on; the processes are started again when it returns another object.
        """
        self.count = min(count, available_cores()) if sys.platform.startswith("linux") else 1
        self._compute, self._state = compute, state
        self._pool: ProcessPoolExecutor | None = None
        self._size = 0  # processes of the pool
        self._started: tuple[int, object] | None = None  # this process, and the state in which the others were started
        self._in_use = threading.Lock()

    @contextmanager
    def at_work(self, batches: int) -> Iterator[Submit[Result]]:
        """Yield what starts a computation, in a process or, for a single batch, in this one; one thread at a time.

        An error that leaves the block ends the processes with everything that waits or runs in them.
        """
        size = min(self.count, batches)
        if size <= 1:
            yield self._compute_here
            return
        with self._in_use:
            now = os.getpid(), self._state()
            if self._pool is None or self._started != now or self._size < size:
                self._stop()
                fork = multiprocessing.get_context("fork")
                self._pool = ProcessPoolExecutor(size, fork, _prepare, (self._compute, os.getpid()))
                self._size, self._started = size, now
            pool = self._pool
            try:
                yield lambda *arguments: _submit(pool, arguments)
            except BrokenProcessPool:
                self._stop()
                raise DragomanError("a worker was killed, perhaps for lack of memory: try --workers 1") from None
            except BaseException:
                self._stop()
                raise

    def _compute_here(self, *arguments: Any) -> Future[Sequence[Result] | None]:
        done: Future[Sequence[Result] | None] = Future()
        done.set_result(_unless_out_of_memory(self._compute, arguments))
        return done

    def _stop(self) -> None:
        """End the processes and wait for them: an interpreter that exits meanwhile would find the pool half closed."""
        if self._pool is not None:
            with suppress(RuntimeError):  # the last reference was dropped in the pool's own thread, which can't wait
                self._pool.shutdown(cancel_futures=True)
            self._pool = None

    __del__ = _stop


def _submit(pool: ProcessPoolExecutor, arguments: tuple[Any, ...]) -> Future[Sequence[Any] | None]:
    """Give arguments to a process; Ctrl-C waits meanwhile, as it would leave the pool, or a new process, half ready."""
    if sys.platform == "win32":
        raise NotImplementedError
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return pool.submit(_compute_there, *arguments)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


_compute: Compute[Any]  # of a process that works for another


def _prepare(compute: Compute[Any], parent: int) -> None:
    """Get ready in a new process, which ends with the one it works for and leaves Ctrl-C to it."""
    global _compute
    _compute = compute
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    torch.set_num_threads(1)
    give_back_memory()
    keep_freed_memory()
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_POLL_SECONDS)
    os._exit(1)


def _compute_there(*arguments: Any) -> Sequence[Any] | None:
    return _unless_out_of_memory(_compute, arguments)


def _unless_out_of_memory(compute: Compute[Result], arguments: tuple[Any, ...]) -> Sequence[Result] | None:
    try:
        return compute(*arguments)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
    torch.cuda.empty_cache()  # after the except block, which holds on to what was computed so far
    return None


def in_batches(
    workers: Workers[Result],
    arguments: Callable[[list[int]], tuple[Any, ...]],
    lengths: Sequence[int],
    batch_tokens: int,
    progress: Callable[[list[int]], None] = lambda batch: None,
) -> list[Result]:
    """Call a function for all sentences, those of similar length together; returns their results, in order.

    If a batch does not fit in memory, it and those that wait are halved; a single sentence is then a DragomanError.

    Args:
        workers: call the function, which returns the results of some sentences.
        arguments: of the function, given the sentences' places in lengths.
        lengths: of the sentences, in subwords.
        batch_tokens: budget of one batch: sentences × longest.
        progress: called with the places of each batch that is done.
    """
    results: dict[int, Result] = {}
    running: dict[Future[Sequence[Result] | None], list[int]] = {}
    # Batches are taken from the end, and are small enough that every worker has something to do.
    share = -(-sum(lengths) // workers.count) if workers.count > 1 else batch_tokens
    plan = plan_in_order(np.array(lengths, dtype=np.int64), min(share, batch_tokens))
    waiting = [batch.tolist() for batch in reversed(plan)]
    with workers.at_work(len(waiting)) as submit:
        while waiting or running:
            while waiting and len(running) < workers.count:
                batch = waiting.pop()
                running[submit(*arguments(batch))] = batch
            for done in wait(running, return_when=FIRST_COMPLETED).done:
                batch, found = running.pop(done), done.result()
                if found is None:
                    if len(batch) == 1:
                        cure = "shorten it, or take a smaller --beam (a smaller --batch-tokens has been tried)"
                        raise DragomanError(f"out of memory on a line of {lengths[batch[0]]:,} subwords: {cure}")
                    waiting = [half for whole in (*waiting, batch) for half in _halves(whole)]
                else:
                    results.update(zip(batch, found, strict=True))
                    progress(batch)
    return [results[place] for place in range(len(lengths))]


def _halves(batch: list[int]) -> list[list[int]]:
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
    )
