"""Processes that compute for this one at the same time: forks with one thread each, kept from call to call.

Threads would not help: they take turns at the interpreter, which every token needs several hundred times. A fork
shares the model with this process and starts at once. It is kept because every process compiles the processor's
kernels anew, one for each size of a product.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from typing import Any, Generic, TypeVar

import torch

from dragoman.config import DragomanError
from dragoman.runtime.allocator import give_back_memory, is_out_of_memory, keep_freed_memory

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
            count: processes at most, as many as there are cores if that is fewer. 1 is this process, with all of
                PyTorch's threads, and so is any number on systems other than Linux.
            state: what compute depends on; the processes are started again when it returns another object.
        """
        self.count = min(count, available_cores()) if sys.platform.startswith("linux") else 1
        self._compute, self._state = compute, state
        self._pool: ProcessPoolExecutor | None = None
        self._end: Callable[[], object] = lambda: None
        self._size = 0  # processes that were started
        self._owner = 0  # the process that started them: a fork of it must start its own
        self._held: object = None  # the state that they were started with
        self._in_use = threading.Lock()

    @contextmanager
    def at_work(self, batches: int) -> Iterator[Submit[Result]]:
        """Yield what starts a computation, in a process or, for a single batch, in this one; one thread at a time.

        An error that leaves the block ends the processes with everything that waits or runs in them.
        """
        if min(self.count, batches) <= 1:
            yield self._compute_here
            return
        with self._in_use:
            self._start(min(self.count, batches))
            try:
                yield self._submit
            except BrokenProcessPool:
                self._stop()
                raise DragomanError("a worker was killed, perhaps for lack of memory: try --workers 1") from None
            except BaseException:
                self._stop()
                raise

    def _start(self, size: int) -> None:
        """Start processes unless there are enough of this process' own that hold the present state."""
        state, own = self._state(), self._owner == os.getpid()
        if own and self._held is state and self._size >= size:
            return
        if own:
            self._stop()
        fork = multiprocessing.get_context("fork")
        self._pool = ProcessPoolExecutor(size, fork, _prepare, (self._compute, os.getpid()))
        self._size, self._owner, self._held = size, os.getpid(), state
        self._end = weakref.finalize(self, _shut_down, self._pool, self._owner)

    def _compute_here(self, *arguments: Any) -> Future[Sequence[Result] | None]:
        done: Future[Sequence[Result] | None] = Future()
        done.set_result(_unless_out_of_memory(self._compute, arguments))
        return done

    def _submit(self, *arguments: Any) -> Future[Sequence[Result] | None]:
        """Give arguments to a process; one that starts now inherits that Ctrl-C is not for it."""
        assert self._pool is not None
        if sys.platform != "win32":
            mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            return self._pool.submit(_work, arguments)
        finally:
            if sys.platform != "win32":
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def _stop(self) -> None:
        self._end()
        self._pool, self._owner, self._held = None, 0, None


def _shut_down(pool: ProcessPoolExecutor, owner: int) -> None:
    """End processes and wait for them: an interpreter that exits meanwhile would find the pool half closed."""
    if os.getpid() == owner:
        with suppress(RuntimeError):  # the last reference was dropped in the pool's own thread, which can't wait
            pool.shutdown(cancel_futures=True)


_compute: Compute[Any]  # of a process that works for another


def _prepare(compute: Compute[Any], parent: int) -> None:
    """Get ready in a new process, which ends with the one it works for and leaves Ctrl-C to it."""
    global _compute
    _compute = compute
    torch.set_num_threads(1)
    give_back_memory()
    keep_freed_memory()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_POLL_SECONDS)
    os._exit(1)


def _work(arguments: tuple[Any, ...]) -> Sequence[Any] | None:
    return _unless_out_of_memory(_compute, arguments)


def _unless_out_of_memory(compute: Compute[Result], arguments: tuple[Any, ...]) -> Sequence[Result] | None:
    try:
        return compute(*arguments)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
    torch.cuda.empty_cache()  # after the except block, which holds on to what was computed so far
    return None
