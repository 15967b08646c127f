"""Processes that compute for this one at the same time: forks with one thread each, kept from call to call.

Threads would do no good: they take turns at the interpreter, which is wanted several hundred times for each token. A
fork shares the model with this process and is there at once. It is kept because the processor's kernels are compiled
anew in every process, one for each size of a product.
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

_LOOK_SECONDS = 0.5  # until a worker notices that the process it works for has been killed

Result = TypeVar("Result")
Compute = Callable[..., Sequence[Result]]
"""Some results from arguments; those must be picklable where it is called in another process."""
Submit = Callable[..., "Future[Sequence[Result] | None]"]
"""Begins what a Compute does; None comes where the memory does not suffice."""


class Workers(Generic[Result]):
    """Processes that call one function, with everything it holds on to as it was when they were started."""

    def __init__(self, compute: Compute[Result], state: Callable[[], object], count: int) -> None:
        """Processes are started when they are first needed.

        Args:
            compute: what they call.
            state: what compute depends on; where it is another object than before, they are started again.
            count: of processes; only Linux can start them, elsewhere there is no more than 1, this one.
        """
        self.count = count if sys.platform.startswith("linux") else 1
        self._compute, self._state = compute, state
        self._pool: ProcessPoolExecutor | None = None
        self._end: Callable[[], object] | None = None
        self._owner = 0  # the process that started them: a fork of it must start its own
        self._held: object = None  # the state that they were started with
        self._in_use = threading.Lock()

    @contextmanager
    def at_work(self) -> Iterator[Submit[Result]]:
        """What begins a computation in one of the processes; one thread at a time has them.

        Whatever still waits or runs in them when an error leaves the block ends with them.

        Raises:
            DragomanError: one of the processes was killed.
        """
        with self._in_use:
            self._make_ready()
            try:
                yield self._submit
            except BrokenProcessPool:
                self._stop()
                raise DragomanError(
                    "a process that translated was killed, perhaps because the memory is short: try --workers 1"
                ) from None
            except BaseException:
                self._stop()
                raise

    def _make_ready(self) -> None:
        """Start processes where there are none of this process' own that hold the present state."""
        state, own = self._state(), self._owner == os.getpid()
        if own and self._held is state:
            return
        if own:
            self._stop()
        fork = multiprocessing.get_context("fork")
        self._pool = ProcessPoolExecutor(self.count, fork, _begin_work, (self._compute, os.getpid()))
        self._owner, self._held = os.getpid(), state
        self._end = weakref.finalize(self, _end, self._pool, self._owner)

    def _submit(self, *arguments: Any) -> Future[Sequence[Result] | None]:
        """Give arguments to a process; one that starts now inherits that Ctrl-C is not for it."""
        assert self._pool is not None
        if sys.platform != "win32":  # where none are started
            mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            try:
                return self._pool.submit(_work, arguments)
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        return self._pool.submit(_work, arguments)

    def _stop(self) -> None:
        if self._end is not None:
            self._end()
        self._pool, self._end, self._owner, self._held = None, None, 0, None


def _end(pool: ProcessPoolExecutor, owner: int) -> None:
    """End processes and wait for their end: an interpreter that ends meanwhile would find the pool half closed."""
    if os.getpid() == owner:
        with suppress(RuntimeError):  # the last reference was dropped in the pool's own thread, which can't wait
            pool.shutdown(cancel_futures=True)


@contextmanager
def this_process(compute: Compute[Result]) -> Iterator[Submit[Result]]:
    """What computes here and at once, with all of PyTorch's threads, in place of Workers.at_work."""

    def submit(*arguments: Any) -> Future[Sequence[Result] | None]:
        done: Future[Sequence[Result] | None] = Future()
        done.set_result(_unless_out_of_memory(compute, arguments))
        return done

    yield submit


_compute: Compute[Any]  # of a process that works for another


def _begin_work(compute: Compute[Any], parent: int) -> None:
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
        time.sleep(_LOOK_SECONDS)
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
