"""Processes that agree: real ones, started as torchrun starts them."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from dragoman.config import DragomanError
from dragoman.training import distributed
from dragoman.training.distributed import Processes, process_group

# ---- devices


def test_a_cpu_is_everybodys_own_and_a_chosen_gpu_that_of_one_alone() -> None:
    for size in (1, 4):
        assert Processes(3, size, local_rank=1).device(torch.device("cpu")) == torch.device("cpu")
    for name in ("cuda", "cuda:2"):
        assert Processes().device(torch.device(name)) == torch.device(name)


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sixth of eight processes; the list gets the GPUs that it chooses, and -1 when it joins the others."""
    chosen: list[int] = []
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    for name, value in {"WORLD_SIZE": "8", "RANK": "5", "LOCAL_RANK": "1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(distributed.dist, "init_process_group", lambda *a, **k: chosen.append(-1))
    monkeypatch.setattr(distributed.dist, "destroy_process_group", lambda: None)
    return chosen


def test_each_process_takes_the_gpu_of_its_number(group: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    assert Processes(5, 8, local_rank=1).device(torch.device("cuda")) == torch.device("cuda", 1)
    with pytest.raises(DragomanError, match="process 6 has no GPU, because this machine has only 2"):
        Processes(6, 8, local_rank=2).device(torch.device("cuda"))
    for number in ("1", "2"):
        monkeypatch.setenv("LOCAL_RANK", number)
        with process_group() as processes:
            assert processes == Processes(5, 8, int(number))
    assert group == [1, -1, -1]  # before anything else takes memory on a GPU, and only one that is there


# ---- losing contact


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (RuntimeError("[../gloo/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:3141\nmore"), "process 5 lost"),
        (RuntimeError("NCCL error in: ../c10d/ProcessGroupNCCL.cpp:1970, unhandled system error"), "command resumes"),
        (torch.OutOfMemoryError("CUDA out of memory"), None),
    ],
)
def test_that_another_process_is_gone_is_said_in_one_sentence(
    error: Exception, said: str | None, group: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DragomanError if said else type(error)) as raised, process_group():
        raise error
    assert (said or "out of memory") in str(raised.value)
    assert "\n" not in str(raised.value)


# ---- several, for real


def launch(code: str, size: int, folder: Path) -> list[tuple[int, str]]:
    """Run a script in several processes; their exit codes and what they wrote to stderr."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    common = {"WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(folder)],
            env=os.environ | common | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]
    try:
        said = [process.communicate(timeout=60)[1] for process in processes]
        return [(process.returncode, words) for process, words in zip(processes, said, strict=True)]
    finally:
        for process in processes:
            process.kill()


AGREE = """
import json, sys
from pathlib import Path
from dragoman.config import DragomanError
from dragoman.training.distributed import process_group
folder = Path(sys.argv[1])
try:
    with process_group() as processes:
        rank, items = processes.rank, list(range(8))
        def action():
            found = sorted(path.name for path in folder.glob("made-*"))
            (folder / f"made-{rank}").touch()
            return found
        def fail():
            print("tried", rank, file=sys.stderr)
            raise DragomanError("the text is missing")
        result = {
            "size": processes.size, "first": processes.first, "local": processes.local_rank,
            "reduced": processes.all_reduce([rank + 0.5, 1, True]),
            "gathered": processes.all_gather([item * 10 for item in processes.shard(items)]),
            "few": processes.all_gather([f"only {item}" for item in processes.shard(["one"])]),
            "broadcast": processes.broadcast({"from": rank}),
            "found": processes.first_then_all(action),
        }
        (folder / f"result-{rank}").write_text(json.dumps(result))
        processes.first_then_all(fail)
except DragomanError as error:
    print("dragoman:", error, file=sys.stderr)
    sys.exit(1)
"""


def test_three_processes_exchange_what_they_have_and_only_the_first_reports_its_failure(tmp_path: Path) -> None:
    first, *others = launch(AGREE, 3, tmp_path)
    assert first == (1, "tried 0\ndragoman: the text is missing\n")
    assert others == [(1, ""), (1, "")]
    results: list[dict[str, Any]] = [json.loads((tmp_path / f"result-{rank}").read_text()) for rank in range(3)]
    for rank, result in enumerate(results):
        assert (result["size"], result["first"], result["local"]) == (3, rank == 0, rank)
        assert result["reduced"] == [4.5, 3, 3]
        assert result["gathered"] == [item * 10 for item in range(8)]
        assert result["few"] == ["only one"]
        assert result["broadcast"] == {"from": 0}
        assert (result["found"] == []) == (rank == 0)  # the others find what the first one made
        assert "made-0" in result["found"] or rank == 0
