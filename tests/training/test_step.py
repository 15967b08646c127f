"""One step: its gradient is the same whatever computes it, and whatever goes wrong on the way."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from dragoman.config import DragomanError, OptimizerConfig
from dragoman.text.batches import Batch
from dragoman.training.distributed import Processes
from dragoman.training.loss import TrainingObjective, label_smoothed_cross_entropy
from dragoman.training.step import StepBatches, Stepper

from .small_runs import configure, gradients_of, limit_memory, make_stepper, random_batch, share, small_model

LENGTHS = [(3, 5), (7, 2), (4, 4), (8, 8), (1, 6), (6, 3), (2, 7), (5, 5), (8, 1), (4, 6)]


def step(stepper: Stepper, *batches: Batch, **settings: Any) -> tuple[float, float, dict[str, Tensor], list[str]]:
    """Loss, norm, gradients of a step, and what was said."""
    said: list[str] = []
    loss, norm = stepper.gradients(share(*batches, **settings), said.append)
    found = gradients_of(stepper)
    stepper.drop_gradients()
    return loss, norm, found, said


def assert_close(actual: Any, expected: Any, tolerance: float = 1e-6) -> None:
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


# ---- what a step is


def test_the_gradient_is_that_of_the_mean_loss_per_target_token() -> None:
    batches = [random_batch(LENGTHS[:4]), random_batch(LENGTHS[4:], seed=1)]
    loss, norm, found, said = step(make_stepper(dropout=0.0), *batches)
    model = small_model(dropout=0.0)
    expected, tokens = torch.zeros(()), 0
    for batch in batches:
        source, target_input, target_output = map(
            torch.from_numpy, (batch.source, batch.target_input, batch.target_output)
        )
        part, count = label_smoothed_cross_entropy(model(source, target_input), target_output, 0.1)
        expected, tokens = expected + part, tokens + count
    (expected / tokens).backward()
    gradients = {name: p.grad for name, p in model.named_parameters()}
    assert tokens == sum(target for _, target in LENGTHS)
    assert loss == pytest.approx(float(expected.detach()) / tokens, rel=1e-6)
    assert_close(found, gradients)
    assert norm == pytest.approx(float(torch.cat([g.flatten() for g in found.values()]).norm()), rel=1e-5)
    assert said == []


def test_accumulated_batches_give_the_gradient_of_one_large_batch() -> None:
    whole = random_batch(LENGTHS)
    parts = [whole.rows(0, 1), whole.rows(1, 6), whole.rows(6, 10)]
    loss, _, expected, _ = step(make_stepper(dropout=0.0), whole)
    sum_of_parts, _, found, _ = step(make_stepper(dropout=0.0), *parts)
    assert sum_of_parts == pytest.approx(loss, rel=1e-6)
    assert_close(found, expected)


@pytest.mark.parametrize("budget", [1, 30])
def test_pieces_give_the_gradient_of_the_whole(budget: int) -> None:
    batches = [random_batch(LENGTHS), random_batch(LENGTHS[3:7], seed=1)]
    whole, pieces = make_stepper(dropout=0.0), make_stepper(dropout=0.0)
    pieces.piece_tokens = budget
    loss, norm, expected, _ = step(whole, *batches)
    found_loss, found_norm, found, said = step(pieces, *batches)
    assert (found_loss, found_norm) == pytest.approx((loss, norm), rel=1e-6)
    assert_close(found, expected)
    assert said == []


def test_a_filler_adds_nothing() -> None:
    stepper = make_stepper()
    loss, norm = stepper.gradients(StepBatches([], 100, random_batch(LENGTHS[:1])), print)
    assert (loss, norm) == (0.0, 0.0)
    found = gradients_of(stepper)
    assert found.keys() == dict(stepper._model.named_parameters()).keys()  # there, so that it can be exchanged
    assert all((gradient == 0).all() for gradient in found.values())


def test_long_gradients_are_clipped_and_their_length_is_told_as_it_was() -> None:
    batch = random_batch(LENGTHS)
    _, norm, expected, _ = step(make_stepper(dropout=0.0), batch)
    limit = norm / 3
    _, told, found, _ = step(make_stepper(dropout=0.0, clip_norm=limit), batch)
    assert told == pytest.approx(norm, rel=1e-6)
    assert_close(found, {name: gradient / 3 for name, gradient in expected.items()}, tolerance=1e-5)


# ---- randomness


def test_each_batch_has_random_numbers_of_its_own() -> None:
    # What a batch contributes depends neither on the one before it nor on the process that computes it.
    first, second = random_batch(LENGTHS), random_batch(LENGTHS[:7], seed=1)
    tokens = first.num_tokens + second.num_tokens
    both = step(make_stepper(dropout=0.3), first, second, seeds=[1, 2])
    alone = [step(make_stepper(dropout=0.3), b, seeds=[s], num_tokens=tokens) for b, s in ((first, 1), (second, 2))]
    assert both[0] == pytest.approx(alone[0][0] + alone[1][0], rel=1e-6)
    assert_close(both[2], {name: alone[0][2][name] + alone[1][2][name] for name in both[2]})
    other = step(make_stepper(dropout=0.3), first, second, seeds=[1, 3])
    assert other[0] != both[0]


def test_the_pieces_of_a_batch_do_not_repeat_each_others_random_numbers() -> None:
    sentence = (8, 8)
    twins = random_batch([sentence] * 4)
    for array in (twins.source, twins.target_input, twins.target_output):
        array[:] = array[0]
    stepper = make_stepper(dropout=0.5)
    stepper.piece_tokens = 8
    losses: list[float] = []
    forward = TrainingObjective.forward

    def remember(self: TrainingObjective, *ids: Tensor) -> Tensor:
        loss = forward(self, *ids)
        losses.append(loss.item())
        return loss

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TrainingObjective, "forward", remember)
        step(stepper, twins)
    assert len(losses) == len(set(losses)) == 4


def test_dropout_is_at_work_whatever_mode_validation_left() -> None:
    stepper = make_stepper(dropout=0.3)
    stepper._model.eval()
    dropped = step(stepper, random_batch(LENGTHS))[0]
    assert dropped != step(make_stepper(dropout=0.0), random_batch(LENGTHS))[0]
    assert dropped == step(make_stepper(dropout=0.3), random_batch(LENGTHS))[0]


# ---- memory


@pytest.mark.parametrize("room", [50, 8])
def test_where_memory_runs_out_the_gradient_is_the_same_and_it_does_not_run_out_again(
    room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = [random_batch(LENGTHS[:2]), random_batch(LENGTHS, seed=1), random_batch(LENGTHS[2:5], seed=2)]
    loss, norm, expected, _ = step(make_stepper(dropout=0.0), *batches)
    stepper = make_stepper(dropout=0.0)
    failures = limit_memory(monkeypatch, room)
    found_loss, found_norm, found, said = step(stepper, *batches)
    assert failures
    assert (found_loss, found_norm) == pytest.approx((loss, norm), rel=1e-6)
    assert_close(found, expected)
    pieces = [piece for batch in batches for piece in batch.pieces(stepper.piece_tokens)]
    assert max(piece.padded_tokens for piece in pieces) <= room
    assert f"{stepper.piece_tokens:,} tokens" in said[-1]
    assert len(said) == len(failures)  # once for each time that the pieces became smaller
    failures.clear()
    assert_close(step(stepper, *batches)[2], expected)
    assert failures == []


def test_a_single_sentence_that_does_not_fit_is_an_error_with_a_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    stepper = make_stepper()
    limit_memory(monkeypatch, 7)
    with pytest.raises(DragomanError, match=r"single sentence of 8 subwords: choose a smaller model"):
        step(stepper, random_batch(LENGTHS))


def test_among_several_processes_no_one_starts_a_step_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    # The others may already wait for the gradients of the attempt that failed.
    stepper = make_stepper()
    monkeypatch.setattr(stepper, "_parallel", stepper._objective)
    limit_memory(monkeypatch, 40)
    with pytest.raises(DragomanError, match=r"out of memory: lower optimizer\.batch_tokens"):
        step(stepper, random_batch(LENGTHS))


# ---- trying out


def test_the_loss_is_that_of_the_settings() -> None:
    optimizer = OptimizerConfig(clip_norm=0.0, label_smoothing=0.3, r_drop=2.0)
    batch = random_batch([(5, 4), (3, 6)])
    stepper = Stepper(small_model(dropout=0.3), configure(Path("nowhere"), optimizer=optimizer), False, Processes())
    loss, _ = stepper.gradients(share(batch), print)
    objective = TrainingObjective(small_model(dropout=0.3), 0.3, 2.0)
    torch.manual_seed(11)  # share's first seed
    ids = (torch.from_numpy(side) for side in (batch.source, batch.target_input, batch.target_output))
    assert loss == pytest.approx(float(objective(*ids).detach()) / batch.num_tokens, rel=1e-5)
