"""Memory is tried before the first step: pieces that fit are found, what fits is left whole, and no trace stays."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from dragoman.config import DragomanError
from dragoman.text.batches import Batch
from dragoman.training import dry_run as fit
from dragoman.training.dry_run import available_memory, fit_memory, saved_bytes
from dragoman.training.loss import TrainingObjective
from dragoman.training.step import Stepper

from .small_runs import gradients_of, make_stepper, random_batch, share

MIB = 2**20


def fit_batches(stepper: Stepper, *batches: Batch) -> list[str]:
    said: list[str] = []
    fit_memory(stepper, batches, said.append)
    return said


def square(rows: int, length: int) -> Batch:
    return random_batch([(length, length)] * rows, seed=rows)


@pytest.fixture
def plenty(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system has more memory than anything here takes."""
    monkeypatch.setattr(fit, "available_memory", lambda: 2**50)


@pytest.fixture
def room_for(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Let batches of more padded tokens fail, as on a graphics card."""

    def room_for(tokens: int) -> None:
        forward = TrainingObjective.forward

        def limited(self: TrainingObjective, source: Tensor, target_input: Tensor, target_output: Tensor) -> Tensor:
            if len(source) * max(source.size(1), target_output.size(1)) > tokens:
                raise torch.OutOfMemoryError("CUDA out of memory")
            return forward(self, source, target_input, target_output)

        monkeypatch.setattr(TrainingObjective, "forward", limited)

    return room_for


# ---- trying


@pytest.mark.usefixtures("plenty")
def test_what_fits_is_left_whole_and_nothing_is_said() -> None:
    stepper = make_stepper()
    assert fit_batches(stepper, square(40, 12), square(1, 40)) == []
    assert stepper.piece_tokens == 0


@pytest.mark.usefixtures("plenty")
@pytest.mark.parametrize("room", [12, 30, 100, 479])
def test_pieces_are_as_small_as_they_must_be_and_not_much_smaller(room: int, room_for: Callable[[int], None]) -> None:
    stepper, batch = make_stepper(dropout=0.0), square(40, 12)
    stepper.gradients(share(batch), print)
    expected = gradients_of(stepper)
    stepper.drop_gradients()
    room_for(room)
    (line,) = fit_batches(stepper, batch)
    assert max(12, room // 2) <= stepper.piece_tokens
    assert all(piece.padded_tokens <= room for piece in batch.pieces(stepper.piece_tokens))
    assert "480 padded tokens" in line
    assert f"pieces of {stepper.piece_tokens:,}," in line
    said: list[str] = []
    stepper.gradients(share(batch), said.append)
    assert said == []  # memory does not run out any more
    torch.testing.assert_close(gradients_of(stepper), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.usefixtures("plenty")
def test_every_batch_is_tried_and_news_are_told_once(room_for: Callable[[int], None]) -> None:
    room_for(100)
    stepper = make_stepper()
    said = fit_batches(stepper, square(5, 8), square(40, 12), square(30, 16))
    assert stepper.piece_tokens <= 100
    assert len(said) == 1
    assert "480" in said[0]


@pytest.mark.usefixtures("plenty")
def test_a_sentence_too_long_for_memory_is_an_error_with_a_cure(room_for: Callable[[int], None]) -> None:
    room_for(30)
    with pytest.raises(DragomanError, match=r"single sentence of 32 subwords: choose a smaller model"):
        fit_batches(make_stepper(), square(3, 8), square(2, 32))


@pytest.mark.usefixtures("plenty")
def test_another_failure_is_not_taken_for_short_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise RuntimeError("shapes differ")

    monkeypatch.setattr(TrainingObjective, "forward", fail)
    with pytest.raises(RuntimeError, match="shapes differ"):
        fit_batches(make_stepper(), square(4, 8))


@pytest.mark.usefixtures("plenty")
def test_training_after_the_trial_is_bit_for_bit_training_without_it(room_for: Callable[[int], None]) -> None:
    tried, untouched = make_stepper(dropout=0.3), make_stepper(dropout=0.3)
    before = {name: p.detach().clone() for name, p in tried._model.named_parameters()}
    room_for(100)
    fit_batches(tried, square(40, 12), square(1, 40))
    assert gradients_of(tried) == {}
    assert not tried.optimizer.state
    assert all(torch.equal(p, before[name]) for name, p in tried._model.named_parameters())
    untouched.piece_tokens = tried.piece_tokens
    for number in range(3):
        for stepper in (tried, untouched):
            stepper.gradients(share(random_batch([(5, 6)] * 8, seed=number), seeds=[number]), print)
            stepper.apply(0.01)
    for ours, theirs in zip(tried._model.parameters(), untouched._model.parameters(), strict=True):
        assert torch.equal(ours, theirs)


# ---- estimating, on a CPU


def bytes_of(stepper: Stepper, batch: Batch) -> int:
    with saved_bytes() as count:
        stepper.try_batch(batch)
    return count[0]


@pytest.mark.parametrize("share_of_need", [0.9, 0.4, 0.1, 0.03])
def test_where_the_system_has_little_memory_pieces_take_no_more(
    share_of_need: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = square(160, 12)
    weights = bytes_of(make_stepper(), square(1, 4)) - (
        bytes_of(make_stepper(), square(2, 4)) - bytes_of(make_stepper(), square(1, 4))
    )
    need = bytes_of(make_stepper(), batch) - weights
    available = int(share_of_need * need)
    monkeypatch.setattr(fit, "available_memory", lambda: available)
    stepper = make_stepper()
    (line,) = fit_batches(stepper, batch)
    assert "not enough memory" in line
    piece = batch.pieces(stepper.piece_tokens)[0]
    assert 1.4 * (bytes_of(make_stepper(), piece) - weights) <= available
    assert 4 * (bytes_of(make_stepper(), piece) - weights) >= available  # not much smaller than they must be


def test_what_does_not_grow_with_the_batch_is_no_need_of_its_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    large = make_stepper(d_model=512)  # its weights are more than what 16 short sentences leave behind
    one, two = (bytes_of(large, square(rows, 4)) for rows in (1, 2))
    assert one > 16 * (two - one)
    monkeypatch.setattr(fit, "available_memory", lambda: int(1.6 * 16 * (two - one)))
    assert fit_batches(large, square(16, 4)) == []


def test_the_need_is_estimated_before_the_whole_batch_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    # On a CPU, trying what does not fit may end the process.
    monkeypatch.setattr(fit, "available_memory", lambda: MIB // 4)
    sizes: list[int] = []
    try_batch = Stepper.try_batch

    def remember(self: Stepper, batch: Batch) -> None:
        sizes.append(batch.padded_tokens)
        try_batch(self, batch)

    monkeypatch.setattr(Stepper, "try_batch", remember)
    stepper = make_stepper()
    fit_batches(stepper, square(160, 12))
    assert max(sizes) <= max(stepper.piece_tokens, 160 * 12 // 8)


def test_where_the_system_does_not_tell_its_memory_only_trying_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit, "available_memory", lambda: None)
    stepper = make_stepper()
    assert fit_batches(stepper, square(40, 12)) == []
    assert stepper.piece_tokens == 0


def test_an_estimate_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit, "available_memory", lambda: MIB // 4)
    stepper = make_stepper()
    fit_batches(stepper, square(160, 12))
    assert gradients_of(stepper) == {}
    assert not stepper.optimizer.state


def test_what_is_kept_for_the_backward_pass_is_counted_once() -> None:
    x = torch.ones(1000, requires_grad=True)
    with saved_bytes() as count:
        y = x.exp()  # keeps its result
        assert count[0] == 4000
        z = y * y  # keeps the same tensor twice more
        assert count[0] == 4000
        z.sin()  # keeps z
    assert count[0] == 8000
    x.exp()  # outside, nothing is counted
    assert count[0] == 8000
    with torch.no_grad(), saved_bytes() as count:
        x.exp()
    assert count[0] == 0


def test_what_is_kept_grows_by_the_same_amount_with_every_sentence() -> None:
    stepper = make_stepper()
    counts = [bytes_of(stepper, square(rows, 12)) for rows in (10, 20, 30, 60)]
    growth = counts[1] - counts[0]
    assert growth > 10 * 12 * 16 * 4  # at least one activation of 16 floats for each token
    assert counts[2] - counts[1] == pytest.approx(growth, rel=0.01)
    assert counts[3] - counts[2] == pytest.approx(3 * growth, rel=0.01)


# ---- how much there is


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let the kernel's files say something else; None removes one."""
    (tmp_path / "group").mkdir()

    def place(name: str) -> Path:
        places = {"/proc/meminfo": "meminfo", "/proc/self/cgroup": "own", "/sys/fs/cgroup": "group"}
        return tmp_path / places[name]

    monkeypatch.setattr(fit, "Path", place)
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)

    def machine(available: int | None, limit: Any = None, used: int = 0, cached: int = 0) -> None:
        if available is not None:
            text = (
                f"MemTotal:       99999999 kB\nMemFree:  1 kB\nMemAvailable:   {available // 1024} kB\nBuffers: 7 kB\n"
            )
            (tmp_path / "meminfo").write_text(text)
        if limit is not None:
            (tmp_path / "group" / "memory.max").write_text(f"{limit}\n")
            (tmp_path / "group" / "memory.current").write_text(f"{used}\n")
            text = f"anon 5\nfile 6\ninactive_anon 7\nactive_file 8\ninactive_file {cached}\n"
            (tmp_path / "group" / "memory.stat").write_text(text)

    return machine


def test_without_a_control_group_it_is_what_the_system_says(machine: Callable[..., None]) -> None:
    machine(700 * MIB)
    assert available_memory() == 700 * MIB


def test_a_control_group_may_allow_less(machine: Callable[..., None]) -> None:
    machine(700 * MIB, limit=500 * MIB, used=300 * MIB, cached=60 * MIB)
    assert available_memory() == 260 * MIB  # what files fill is given back when it is needed


def test_a_control_group_may_allow_more_than_there_is(machine: Callable[..., None]) -> None:
    machine(100 * MIB, limit=500 * MIB, used=300 * MIB)
    assert available_memory() == 100 * MIB


def test_a_control_group_without_a_limit_is_no_limit(machine: Callable[..., None]) -> None:
    machine(700 * MIB, limit="max", used=300 * MIB)
    assert available_memory() == 700 * MIB


def test_a_control_group_that_is_full_leaves_nothing(machine: Callable[..., None]) -> None:
    machine(700 * MIB, limit=100 * MIB, used=120 * MIB)
    assert available_memory() == 0


def test_the_groups_around_the_own_one_count_too(machine: Callable[..., None], tmp_path: Path) -> None:
    machine(700 * MIB, limit=500 * MIB, used=100 * MIB)
    (tmp_path / "own").write_text("4:memory:/old\n0::/slurm/job_7/step_0\n")
    for name, limit in (("slurm/job_7", 300 * MIB), ("slurm/job_7/step_0", "max"), ("slurm/job_8", 1)):
        group = tmp_path / "group" / name
        group.mkdir(parents=True)
        (group / "memory.max").write_text(f"{limit}\n")
        (group / "memory.current").write_text(f"{50 * MIB}\n")
        (group / "memory.stat").write_text("inactive_file 0\n")
    assert available_memory() == 250 * MIB


def test_another_system_does_not_say(machine: Callable[..., None]) -> None:
    machine(None)
    assert available_memory() is None


def test_the_processes_of_a_machine_share_its_memory(
    machine: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    machine(800 * MIB)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert available_memory() == 200 * MIB


@pytest.mark.skipif(not Path("/proc/meminfo").exists(), reason="not Linux")
def test_of_this_machine_it_is_a_part_of_its_memory() -> None:
    found = available_memory()
    assert found is not None
    assert 10 * MIB < found <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
