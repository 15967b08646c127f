"""Something for every sentence: in batches of similar length, on all cores, as far as the memory goes."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import numpy as np
import torch

from dragoman.config import DragomanError
from dragoman.model.memory import is_out_of_memory, keep_freed_memory
from dragoman.text.batches import plan_in_order

Result = TypeVar("Result")
_Start = Callable[[list[int]], "Future[Sequence[Result] | None]"]

_PR_SET_PDEATHSIG = 1  # sys/prctl.h


def in_batches(
    compute: Callable[[list[int]], Sequence[Result]],
    lengths: Sequence[int],
    batch_tokens: int,
    cure: str,
    progress: Callable[[int], None] | None = None,
    workers: int = 1,
) -> list[Result]:
    """Compute something for every sentence; sentences of similar length go together.

    Where the memory does not suffice for a batch, it and those that wait are halved.

    Args:
        compute: the results of some sentences, given their places in lengths; with several workers called in their
            processes, so that nothing else that it does is seen here.
        lengths: of the sentences, in subwords.
        batch_tokens: budget of one batch: sentences × longest.
        cure: what helps when the memory does not suffice for one sentence alone.
        progress: called with the number of sentences that each batch had.
        workers: processes that compute batches at the same time, with one thread each; 1 computes them here, with all
            of PyTorch's threads. Ignored on systems other than Linux.

    Returns:
        The results, in the order of the lengths.

    Raises:
        DragomanError: the memory does not suffice for one sentence.
    """
    results: dict[int, Result] = {}
    waiting = _plan(lengths, batch_tokens, workers)
    running: dict[Future[Sequence[Result] | None], list[int]] = {}
    with _start(compute, min(workers, len(waiting))) as start:
        while waiting or running:
            while waiting and len(running) < workers:
                batch = waiting.pop()
                running[start(batch)] = batch
            for done in wait(running, return_when=FIRST_COMPLETED).done:
                batch, found = running.pop(done), done.result()
                if found is not None:
                    results.update(zip(batch, found, strict=True))
                    if progress is not None:
                        progress(len(batch))
                elif len(batch) == 1:
                    raise DragomanError(
                        f"the memory does not suffice for a line of {lengths[batch[0]]:,} subwords: {cure}"
                    )
                else:
                    waiting = [half for whole in (*waiting, batch) for half in _halves(whole)]
    return [results[place] for place in range(len(lengths))]


def _plan(lengths: Sequence[int], batch_tokens: int, workers: int) -> list[list[int]]:
    """The batches, to be taken from the end; small enough that every worker has something to do."""
    share = -(-sum(lengths) // workers) if workers > 1 else batch_tokens
    plan = plan_in_order(np.array(lengths, dtype=np.int64), min(share, batch_tokens))
    return [batch.tolist() for batch in reversed(plan)]


@contextmanager
def _start(compute: Callable[[list[int]], Sequence[Result]], workers: int) -> Iterator[_Start[Result]]:
    """What begins the computation of a batch: in one of several processes, or here and at once.

    Threads would do no good: they take turns at the interpreter, which is wanted several hundred times for each token.
    The processes are forks of this one, which share the model with it and are there at once; they only multiply.
    """
    if workers <= 1 or not sys.platform.startswith("linux"):
        yield lambda batch: _settled(_unless_out_of_memory(compute, batch))
        return
    fork = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(workers, fork, _begin_work, (compute, os.getpid())) as pool:
        try:
            yield lambda batch: _submitted(pool, batch)
        except BrokenProcessPool:
            raise DragomanError(
                "a process that translated was killed, perhaps because the memory is short: try --workers 1"
            ) from None
        finally:
            pool.shutdown(cancel_futures=True)


def _settled(value: Sequence[Result] | None) -> Future[Sequence[Result] | None]:
    done: Future[Sequence[Result] | None] = Future()
    done.set_result(value)
    return done


def _submitted(pool: ProcessPoolExecutor, batch: list[int]) -> Future[Sequence[Any] | None]:
    """Give a batch to a worker; one that starts now inherits that Ctrl-C is not for it."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return pool.submit(_work, batch)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


_compute: Callable[[list[int]], Sequence[Any]]  # of a process that works for another


def _begin_work(compute: Callable[[list[int]], Sequence[Any]], parent: int) -> None:
    """Get ready in a new process: it ends with the one it works for, which alone reacts to Ctrl-C."""
    global _compute
    _compute = compute
    torch.set_num_threads(1)
    keep_freed_memory()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before that
        os._exit(1)


def _work(batch: list[int]) -> Sequence[Any] | None:
    return _unless_out_of_memory(_compute, batch)


def _unless_out_of_memory(
    compute: Callable[[list[int]], Sequence[Result]], batch: list[int]
) -> Sequence[Result] | None:
    try:
        return compute(batch)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
    torch.cuda.empty_cache()  # after the except block, which holds on to what was computed so far
    return None


def _halves(batch: list[int]) -> list[list[int]]:
    """The shorter sentences and the longer ones: batches wait in the order in which they are taken from the end."""
    middle = -(-len(batch) // 2)
    return [half for half in (batch[middle:], batch[:middle]) if half]
