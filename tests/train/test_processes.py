"""Several processes, short memory, and kills: the same model comes out."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from dragoman.training.run_state import list_states
from tests.training.small_runs import records, same, write_corpus

from .running import Ended, arguments, finish, kept, start

# ---- short memory


SHORT_MEMORY = """
import re, resource, sys
from pathlib import Path
import dragoman.train as verb
from dragoman.cli.main import main
prepare = verb.prepare_text
def prepare_then_limit(*arguments):
    text = prepare(*arguments)
    size = int(re.search(r"VmSize:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) * 1024
    resource.setrlimit(resource.RLIMIT_AS, (size + int(sys.argv[1]) * 2**20,) * 2)
    return text
verb.prepare_text = prepare_then_limit
sys.exit(main(sys.argv[2:]))
"""
LARGER = ["--preset", "small", "--model.d-model", "64", "--model.d-ff", "256", "--model.num-heads", "4"]
LARGER += ["--model.num-encoder-layers", "2", "--model.num-decoder-layers", "2", "--model.dropout", "0"]
LARGER += ["--text.vocab-size", "320", "--optimizer.batch-tokens", "6000"]


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="not Linux")
@pytest.mark.timeout(120)
@pytest.mark.slow
def test_where_memory_really_is_short_training_goes_on_in_pieces(tmp_path: Path) -> None:
    write_corpus(tmp_path, train=1000, valid=200)

    def train(name: str, megabytes: int) -> str:
        given = arguments(tmp_path, tmp_path / name, "--max-steps", 3, shape=LARGER)
        command = [sys.executable, "-c", SHORT_MEMORY, str(megabytes), *given]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100)
        assert ended.returncode == 0, ended.stderr
        return ended.stderr

    assert "in pieces" not in train("plenty", 4000).replace(str(tmp_path), "")
    assert "computed in pieces of" in train("short", 80)
    expected, found = (records(tmp_path / name, "train/loss", "valid/loss") for name in ("plenty", "short"))
    assert [record[:2] for record in found] == [record[:2] for record in expected]
    assert [value for *_, value in found] == pytest.approx([value for *_, value in expected], rel=1e-5)


# ---- several processes


GENTLY = ["--optimizer.lr-scale", 0.1]  # large steps make much of rounding


def equal_numbers(first: Path, second: Path, steps: int) -> None:
    """Two runs did the same, but for rounding."""
    for kind, tolerance in (("train/loss", 1e-5), ("valid/loss", 1e-5), ("valid/bleu", 1e-4), ("valid/chrf", 1e-4)):
        expected, found = records(first, kind), records(second, kind)
        assert [record[:2] for record in found] == [record[:2] for record in expected]
        assert [value for *_, value in found] == pytest.approx([value for *_, value in expected], rel=tolerance)
    assert [step for step, *_ in records(second, "train/loss")] == list(range(1, steps + 1))  # no line twice


@pytest.mark.timeout(120)
def test_two_processes_train_as_one(text: Path, tmp_path: Path, run: Callable[..., Ended]) -> None:
    # Two batches of each step for each process, but one batch for one of them at the end of an epoch.
    two = start(text, tmp_path / "two", *GENTLY, "--max-steps", 50, "--optimizer.accumulate", 3, processes=2)
    assert run(text, tmp_path / "one", *GENTLY, "--max-steps", 50, "--optimizer.accumulate", 4).code == 0
    said = finish(two)
    for line in ("finished; the model in", "step 50: valid loss", "training text:"):  # from the first process alone
        assert said.count(line) == 1
    equal_numbers(tmp_path / "one", tmp_path / "two", 50)
    assert len(list((tmp_path / "two" / "tensorboard").iterdir())) == 1


def wait_for_states(out: Path, number: int, process: subprocess.Popen[str]) -> None:
    """Wait until a run has saved its state so many times."""
    while process.poll() is None:
        states = list_states(out)
        if states and int(states[-1].name.split("-")[1]) >= number:
            return
        time.sleep(0.005)
    raise AssertionError(process.communicate()[1])


def children(process: subprocess.Popen[str]) -> list[int]:
    found = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    return list(map(int, found.split()))


def rank_of(pid: int) -> int:
    environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return next(int(entry[5:]) for entry in environment if entry.startswith(b"RANK="))


@pytest.fixture(scope="module")
def steady(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two processes that nobody disturbed."""
    out = tmp_path_factory.mktemp("run") / "steady"
    finish(start(text, out, "--max-steps", 150, processes=2))
    return out


OFTEN = ["--max-steps", 150, "--save-minutes", 0.0001]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="not Linux")
@pytest.mark.parametrize("victim", [0, 1])
def test_where_one_process_is_killed_the_others_end_and_the_run_goes_on_with_the_same_result(
    victim: int, steady: Path, text: Path, tmp_path: Path
) -> None:
    process = start(text, tmp_path / "killed", *OFTEN, processes=2)
    wait_for_states(tmp_path / "killed", 20, process)
    (pid,) = [pid for pid in children(process) if rank_of(pid) == victim]
    os.kill(pid, signal.SIGKILL)
    started = time.monotonic()
    said = process.communicate(timeout=90)[1]
    assert process.returncode != 0
    assert time.monotonic() - started < 60
    assert "has lost contact with the other processes" in said or "Signal 9 (SIGKILL)" in said
    finish(start(text, tmp_path / "killed", *OFTEN, processes=2))
    assert records(steady) == records(tmp_path / "killed")
    assert same(kept(steady), kept(tmp_path / "killed"))


@pytest.mark.slow
def test_begun_with_two_processes_and_continued_with_one_it_is_the_same_run(
    text: Path, tmp_path: Path, run: Callable[..., Ended]
) -> None:
    finish(start(text, tmp_path / "mixed", *GENTLY, "--max-steps", 25, processes=2))
    assert run(text, tmp_path / "mixed", *GENTLY, "--max-steps", 50).code == 0
    assert run(text, tmp_path / "one", *GENTLY, "--max-steps", 25, "--optimizer.accumulate", 2).code == 0
    assert run(text, tmp_path / "one", *GENTLY, "--max-steps", 50, "--optimizer.accumulate", 2).code == 0
    equal_numbers(tmp_path / "one", tmp_path / "mixed", 50)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_the_launcher_saves_and_the_run_goes_on_bit_for_bit(
    number: signal.Signals, steady: Path, text: Path, tmp_path: Path
) -> None:
    process = start(text, tmp_path / "stopped", "--max-steps", 150, processes=2)
    wait_for_states(tmp_path / "stopped", 3, process)
    os.killpg(process.pid, number)  # as a terminal does: to the launcher and to every process
    said = process.communicate(timeout=90)[1]
    assert process.returncode != 0
    assert len(re.findall(r"stopped after step \d+; the same command resumes the run", said)) == 1, said
    finish(start(text, tmp_path / "stopped", "--max-steps", 150, processes=2))
    assert records(steady) == records(tmp_path / "stopped")
    assert same(kept(steady), kept(tmp_path / "stopped"))
