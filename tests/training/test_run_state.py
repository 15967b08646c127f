"""The state of a run: whatever breaks, a whole one is found, and nothing in it is ever executed."""

import errno
import math
import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NoReturn

import filelock
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.config import CleaningConfig, OptimizerConfig, TextConfig, TrainConfig, ValidationConfig
from dragoman.folder import LOCK_FILE
from dragoman.training.run_state import (
    Progress,
    list_states,
    load_state,
    resume_progress,
    run_lock,
    save_state,
    settings_digest,
)
from tests.fuzz.faults import complaint, contents, full_disk

from .interruptions import Crash
from .small_runs import configure


def save_steps(folder: Path, *steps: int) -> None:
    for step in steps:
        save_state(folder, {"step": step, "weights": torch.full((50,), float(step))})


def saved_step(folder: Path) -> int | None:
    state = load_state(folder)
    return None if state is None else state["step"]


def serials(folder: Path) -> list[int]:
    return [int(path.name.split("-")[1]) for path in list_states(folder)]


# ---- saving and loading


def test_settings_that_change_the_result_change_the_digest() -> None:
    config = TrainConfig("en", "de", ["a"], "out", max_steps=5)
    for same in ({"seed": 2}, {"out": "b"}, {"train": ["b"]}, {"restart": True}):
        assert settings_digest(replace(config, **same)) == settings_digest(config)  # type: ignore[arg-type]
    for other in ({"max_steps": 6}, {"model": replace(config.model, dropout=0.2)}):
        assert settings_digest(replace(config, **other)) != settings_digest(config)  # type: ignore[arg-type]


def test_the_two_newest_are_kept_under_rising_numbers(tmp_path: Path) -> None:
    for step in range(1, 6):
        save_steps(tmp_path, step)
        assert serials(tmp_path) == [number for number in (step - 1, step) if number]
        assert saved_step(tmp_path) == step


# ---- damage


@pytest.fixture(scope="module")
def two_states(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("states")
    save_steps(folder, 1, 2)
    return folder


@settings(max_examples=25)
@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7), truncate=st.booleans())
def test_wherever_a_state_is_cut_or_a_bit_flips_the_one_before_wins(
    place: float, bit: int, truncate: bool, two_states: Path
) -> None:
    newest = list_states(two_states)[-1]
    intact = newest.read_bytes()
    data = bytearray(intact)
    at = int(place * len(data))
    data[at] ^= 1 << bit
    newest.write_bytes(data[:at] if truncate else data)
    assert saved_step(two_states) == 1
    newest.write_bytes(intact)


@pytest.mark.parametrize(
    "error", [RuntimeError("DefaultCPUAllocator: can't allocate memory"), OSError(errno.EIO, "Input/output error")]
)
def test_a_state_that_cannot_be_read_now_is_not_taken_for_a_damaged_one(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_steps(tmp_path, 1, 2)

    def fail(*arguments: object, **settings: object) -> NoReturn:
        raise error

    monkeypatch.setattr(torch, "load", fail)
    assert "can't be read" in complaint(lambda: load_state(tmp_path))
    monkeypatch.undo()
    assert saved_step(tmp_path) == 2


# ---- failures while writing


def test_a_full_disk_leaves_the_earlier_states_and_nothing_else(tmp_path: Path) -> None:
    save_steps(tmp_path, 1, 2)
    before = contents(tmp_path)
    with full_disk(1000):
        message = complaint(lambda: save_state(tmp_path, {"more": torch.zeros(10_000)}))
    assert str(tmp_path) in message
    assert "what was saved before is intact" in message
    assert contents(tmp_path) == before


@pytest.mark.parametrize("moment", ["write", "fsync", "replace", "fsync of the folder", "unlink"])
@pytest.mark.parametrize("earlier", [0, 2])
def test_a_crash_at_any_moment_leaves_a_whole_state_and_the_next_save_tidies_up(
    moment: str, earlier: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_steps(tmp_path, *range(1, earlier + 1))
    calls = [0]
    fatal = 2 if moment == "fsync of the folder" else 1

    def crash(*arguments: Any, **settings: object) -> None:
        calls[0] += 1
        if moment == "write":
            arguments[1].write(b"half of it")
        if calls[0] == fatal:
            raise Crash

    target = {"replace": (Path, "replace"), "unlink": (Path, "unlink"), "write": (torch, "save")}
    with monkeypatch.context() as patch:
        patch.setattr(*target.get(moment, (os, "fsync")), crash)
        if moment == "unlink" and earlier < 2:  # nothing is removed then
            save_steps(tmp_path, 3)
        else:
            with pytest.raises(Crash):
                save_steps(tmp_path, 3)
    finished = moment in ("fsync of the folder", "unlink")
    assert saved_step(tmp_path) == (3 if finished else earlier or None)
    save_steps(tmp_path, 4)
    save_steps(tmp_path, 5)
    assert saved_step(tmp_path) == 5
    assert len(list_states(tmp_path)) == 2
    assert not list(tmp_path.rglob("*.partial"))


# ---- distrust


class Trap:
    """Touches a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


def test_a_state_that_would_run_code_is_refused_without_running_it(tmp_path: Path) -> None:
    save_state(tmp_path, {"facts": Trap(tmp_path / "sprung")})
    assert str(list_states(tmp_path)[-1]) in complaint(lambda: load_state(tmp_path))
    assert not (tmp_path / "sprung").exists()


# ---- the lock


def lock(folder: Path) -> None:
    with run_lock(folder):
        pass


def test_one_folder_has_one_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.training.run_state._LOCK_SECONDS", 0.1)
    lock(tmp_path / "run")
    with filelock.FileLock(tmp_path / "run" / LOCK_FILE):
        message = complaint(lambda: lock(tmp_path / "run"))
        lock(tmp_path / "elsewhere")
    assert f"{tmp_path / 'run'}: another process is training" in message
    lock(tmp_path / "run")


# ---- where a run stands


def limits(**values: float) -> TrainConfig:
    return configure(Path("nowhere"), **({"max_steps": 0} | values))


@pytest.mark.parametrize(
    ("progress", "limit", "done"),
    [
        (Progress(step=25), {"max_steps": 100}, 0.25),
        (Progress(seconds=30.0), {"max_minutes": 2.0}, 0.25),
        (Progress(epoch=1, batch=500), {"max_epochs": 4}, 0.25),
        (Progress(epoch=1, part_of_epoch=0.5), {"max_epochs": 4}, 0.375),
        (Progress(step=150), {"max_steps": 100}, 1.5),
        (Progress(step=10**9, epoch=10**6, seconds=1e9), {}, 0.0),
    ],
)
def test_how_much_is_done_is_a_share_of_the_limit(progress: Progress, limit: dict[str, float], done: float) -> None:
    assert progress.done(limits(**limit)) == pytest.approx(done)


@pytest.mark.parametrize(
    ("change", "new_epoch", "new_best"),
    [
        ({"max_steps": 9, "save_minutes": 1.0}, False, False),
        ({"seed": 7}, True, False),
        ({"temperature": 5.0}, True, False),
        ({"optimizer": OptimizerConfig(batch_tokens=999)}, True, False),
        ({"optimizer": OptimizerConfig(label_smoothing=0.0)}, False, False),
        ({"text": TextConfig(max_length=33)}, True, False),
        ({"clean": CleaningConfig(ratio=True)}, True, False),
        ({"validation": ValidationConfig(metric="chrf")}, False, True),
        ({"validation": ValidationConfig(every=50)}, False, False),
    ],
)
def test_what_other_settings_invalidate_is_forgotten(change: dict[str, Any], new_epoch: bool, new_best: bool) -> None:
    plain = replace(limits(accept_changes=True), optimizer=OptimizerConfig(), text=TextConfig())
    plain = replace(plain, validation=ValidationConfig())
    before = Progress(epoch=2, batch=500, part_of_epoch=0.5, best_score=30.0, stale=3, accumulate=4)
    state = {"progress": asdict(before), "settings": asdict(plain), "identity": 1, "text": "a", "validation text": "b"}
    progress = resume_progress(state, replace(plain, **change), 1, "a", "b")
    assert (progress.epoch, progress.batch) == ((3, 0) if new_epoch else (2, 500))
    assert (progress.best_score, progress.stale) == ((-math.inf, 0) if new_best else (30.0, 3))
    assert progress.accumulate == 4
