"""The processes of one run: a single one, or several that torchrun started (data parallelism).

DistributedDataParallel sums the gradients; `Processes` exchanges everything else.
"""

import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from threading import Thread
from typing import TypeVar

import torch
import torch.distributed as dist

from dragoman.config import DragomanError
from dragoman.runtime.console import say

_Item = TypeVar("_Item")
_TIMEOUT = timedelta(hours=24)  # the others wait while the first prepares the text; torchrun stops them if it dies
_SECONDS_TO_LEAVE = 1.0
_LOST = re.compile(r"gloo|nccl|connection|peer|timed out|process group", re.IGNORECASE)


@dataclass(frozen=True)
class Processes:
    """What one process knows of all: its number and how many there are."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0  # on this machine; chooses the GPU

    @property
    def first(self) -> bool:
        """Whether this is the process that writes files and prints."""
        return self.rank == 0

    def say(self, line: str) -> None:
        """Print a line on stderr, once for all processes."""
        if self.first:
            say(line)

    def device(self, chosen: torch.device) -> torch.device:
        """The device of this process: of several GPUs, the one with its number."""
        if self.size == 1 or chosen.type != "cuda":
            return chosen
        if self.local_rank >= (count := torch.cuda.device_count()):
            cure = "start that many processes (torchrun --nproc-per-node), or pass --device cpu"
            raise DragomanError(f"process {self.rank} has no GPU, because this machine has only {count}: {cure}")
        return torch.device("cuda", self.local_rank)

    def shard(self, items: Sequence[_Item]) -> list[_Item]:
        """The items that this process computes: every size-th."""
        return list(items[self.rank :: self.size])

    def all_reduce(self, values: Sequence[float]) -> list[float]:
        """The sum of each number over all processes."""
        if self.size == 1:
            return list(values)
        tensor = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(tensor)
        return tensor.tolist()

    def all_gather(self, own: Sequence[_Item]) -> list[_Item]:
        """The results of all processes for their shards, in the order of the items before shard()."""
        if self.size == 1:
            return list(own)
        parts: list[list[_Item]] = [[] for _ in range(self.size)]
        dist.all_gather_object(parts, list(own))
        return [parts[i % self.size][i // self.size] for i in range(sum(map(len, parts)))]

    def broadcast(self, value: _Item) -> _Item:
        """The first process's value."""
        if self.size == 1:
            return value
        box = [value]
        dist.broadcast_object_list(box, src=0)
        return box[0]

    def first_then_all(self, action: Callable[[], _Item]) -> _Item:
        """Run an action in the first process, then in the others, which find on disk what it left there.

        If it fails in the first process, the others exit silently.
        """
        if not self.first:
            if self.broadcast(True):
                return action()
            time.sleep(_SECONDS_TO_LEAVE)  # torchrun stops all as soon as one exits, and the first has to report
            raise SystemExit(1)
        try:
            result = action()
        except DragomanError:
            self.broadcast(False)
            raise
        self.broadcast(True)
        return result


@contextmanager
def process_group() -> Iterator[Processes]:
    """Join the processes that torchrun started, if it did; leave them when the block ends.

    An error of the backend about a lost process becomes one sentence.
    """
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1 or "RANK" not in os.environ:
        yield Processes()
        return
    rank, local_rank = int(os.environ["RANK"]), int(os.environ.get("LOCAL_RANK", "0"))
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() and dist.is_nccl_available() else "gloo"
    if local_rank < torch.cuda.device_count():
        torch.cuda.set_device(local_rank)  # before anything takes memory on the first GPU
    try:
        dist.init_process_group(backend, timeout=_TIMEOUT)
        yield Processes(rank, size, local_rank)
        dist.destroy_process_group()
    except BaseException as error:
        # Do not wait long for processes that may be gone; but if the group's threads still run when Python exits,
        # they may end the process with SIGABRT.
        if dist.is_initialized():
            leaving = Thread(target=dist.destroy_process_group, daemon=True)
            leaving.start()
            leaving.join(_SECONDS_TO_LEAVE)
        if isinstance(error, RuntimeError) and _LOST.search(str(error)):
            reason = str(error).strip().splitlines()[0]
            cure = "read the message of the process that failed first; the same command resumes from the last state"
            raise DragomanError(f"process {rank} lost the connection to another process ({reason}); {cure}") from None
        raise
