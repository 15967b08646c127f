"""The processes of one run: one alone, or several that torchrun started (data parallelism).

Every process sees its own batches of each step; gradients are summed by DistributedDataParallel, everything else that
must be agreed on goes through `Processes`. Nothing here is configured: torchrun sets RANK, WORLD_SIZE, ….
"""

from __future__ import annotations

import ctypes
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from threading import Thread
from typing import TypeVar

import torch
import torch.distributed as dist

from dragoman.config import DragomanError

_Item = TypeVar("_Item")

_PATIENCE = timedelta(hours=24)  # the others wait while the first one prepares the text; torchrun ends them if it dies
_FIRST_WORD = 1.0  # seconds
_MOST_WORDS = 200  # characters of what a library says
_PR_SET_PDEATHSIG = 1  # sys/prctl.h
_LOST = re.compile(r"gloo|nccl|connection|peer|timed out|process group", re.IGNORECASE)


@dataclass(frozen=True)
class Processes:
    """What one process knows of all: its number and how many there are."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    """Number on this machine; chooses the GPU."""

    @property
    def first(self) -> bool:
        """Whether this is the process that writes and speaks."""
        return self.rank == 0

    def own(self, device: torch.device) -> torch.device:
        """This process's device: of several GPUs, the one of its number.

        Raises:
            DragomanError: all of them would take the same GPU, or there are more processes than GPUs.
        """
        if self.size > 1 and device.type == "cuda":
            if device.index is not None:
                raise DragomanError(f"--device {device}: each process takes a GPU of its own; say --device cuda")
            if self.local_rank >= torch.cuda.device_count():
                raise DragomanError(
                    f"process {self.rank} finds no GPU of its own, for this machine has {torch.cuda.device_count()}: "
                    f"ask torchrun for as many processes with --nproc-per-node, or say --device cpu"
                )
            return torch.device("cuda", self.local_rank)
        return device

    def share(self, items: Sequence[_Item]) -> list[_Item]:
        """The items that are this process's own."""
        return list(items[self.rank :: self.size])

    def total(self, values: Sequence[float]) -> list[float]:
        """The sums over all processes, of as many numbers as each one gives."""
        if self.size == 1:
            return list(values)
        tensor = torch.tensor(values, dtype=torch.float64)
        with losing_contact():
            dist.all_reduce(tensor)
        return tensor.tolist()

    def collect(self, own: Sequence[_Item]) -> list[_Item]:
        """What every process made of its share, in the order of the items before they were shared."""
        if self.size == 1:
            return list(own)
        parts: list[list[_Item]] = [[] for _ in range(self.size)]
        with losing_contact():
            dist.all_gather_object(parts, list(own))
        return [parts[i % self.size][i // self.size] for i in range(sum(map(len, parts)))]

    def tell(self, value: _Item) -> _Item:
        """The first process's value, in all of them."""
        if self.size == 1:
            return value
        box = [value]
        with losing_contact():
            dist.broadcast_object_list(box, src=0)
        return box[0]

    def first_then_all(self, action: Callable[[], _Item]) -> _Item:
        """Let the first process do something, then the others: they find what it left on disk.

        Raises:
            DragomanError: the first process failed; the others leave quietly, it has the word.
        """
        failure, result = None, None
        if self.first:
            try:
                result = action()
            except DragomanError as error:
                failure = error
        if self.tell(failure is not None) and not self.first:
            time.sleep(_FIRST_WORD)  # torchrun ends all when one ends
            raise SystemExit(1)
        if failure is not None:
            raise failure
        return action() if result is None else result


@contextmanager
def joined_processes() -> Iterator[Processes]:
    """The processes that torchrun started, or one alone; contact ends with the block.

    Raises:
        DragomanError: the others can't be reached.
    """
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1 or "RANK" not in os.environ:
        yield Processes()
        return
    _end_with_launcher()
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() and dist.is_nccl_available() else "gloo"
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    if local_rank < torch.cuda.device_count():
        torch.cuda.set_device(local_rank)  # before anything takes memory on the first one
    with losing_contact():
        dist.init_process_group(backend, timeout=_PATIENCE)
    try:
        yield Processes(int(os.environ["RANK"]), size, local_rank)
    except BaseException:
        _leave_the_group()
        raise
    dist.destroy_process_group()


def _leave_the_group() -> None:
    """End the group's threads after a failure, without waiting long for processes that may be gone.

    Left alone, a thread that wants Python's lock while Python ends takes the whole process down with SIGABRT.
    """
    leaving = Thread(target=dist.destroy_process_group, daemon=True)
    leaving.start()
    leaving.join(_FIRST_WORD)


def _end_with_launcher() -> None:
    """Ask Linux for a SIGTERM when torchrun itself is killed: its processes would go on without it."""
    if not sys.platform.startswith("linux"):
        return
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


@contextmanager
def losing_contact() -> Iterator[None]:
    """Say in one sentence when another process is gone."""
    try:
        yield
    except RuntimeError as error:
        if not _LOST.search(str(error)):
            raise
        reason = str(error).strip().splitlines()[0][:_MOST_WORDS]
        raise DragomanError(
            f"process {os.environ.get('RANK', '0')} has lost contact with the other processes of this run ({reason}); "
            f"see what the first to fail says; the same command continues from the last saved state"
        ) from None
