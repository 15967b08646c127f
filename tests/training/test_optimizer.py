"""Adam and the learning-rate schedules."""

import itertools
import math
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
import torch
from torch import Tensor, nn

from dragoman.config import OptimizerConfig
from dragoman.training.optimizer import MovingAverage, build_optimizer, learning_rate
from dragoman.training.run_state import load_state
from dragoman.training.step import Stepper

from .small_runs import configure, last_weights, same, train

Schedule = Literal["paper", "inverse-sqrt", "linear", "cosine"]
PAPER = OptimizerConfig()
ENDING: list[Schedule] = ["linear", "cosine"]


# ---------------------------------------------------------------------------------------------- schedules


@pytest.mark.parametrize("step", [1, 2, 100, 3999, 4000, 4001, 100_000])
@pytest.mark.parametrize("d_model", [512, 1024])
def test_the_papers_schedule_is_equation_3(step: int, d_model: int) -> None:
    expected = d_model**-0.5 * min(step**-0.5, step * 4000**-1.5)
    assert learning_rate(PAPER, d_model, step) == pytest.approx(expected, rel=1e-12)


def test_the_papers_base_model_peaks_at_seven_ten_thousandths() -> None:
    assert learning_rate(PAPER, 512, 4000) == pytest.approx(1 / math.sqrt(512 * 4000), rel=1e-12)
    assert learning_rate(PAPER, 512, 4000) == pytest.approx(7e-4, rel=0.01)


@pytest.mark.parametrize("warmup", [1, 7, 300])
@pytest.mark.parametrize("schedule", ["paper", "inverse-sqrt"])
def test_the_rate_rises_in_a_line_to_its_peak_and_falls_after_the_warm_up(schedule: Schedule, warmup: int) -> None:
    settings = OptimizerConfig(schedule=schedule, warmup_steps=warmup)
    rates = [learning_rate(settings, 64, step) for step in range(1, 4 * warmup + 1)]
    peak = rates[warmup - 1]
    assert rates[:warmup] == pytest.approx([peak * step / warmup for step in range(1, warmup + 1)])
    assert all(before > after for before, after in itertools.pairwise(rates[warmup - 1 :]))
    assert rates[-1] == pytest.approx(peak / 2)  # four times the steps, half the rate


def test_inverse_square_root_is_the_papers_schedule_through_the_given_peak() -> None:
    same_form = OptimizerConfig(schedule="inverse-sqrt", peak_lr=learning_rate(PAPER, 512, 4000))
    for step in (1, 17, 3999, 4000, 4001, 50_000):
        assert learning_rate(same_form, 512, step) == pytest.approx(learning_rate(PAPER, 512, step), rel=1e-9)


@pytest.mark.parametrize("schedule", ENDING)
def test_linear_and_cosine_fall_from_the_peak_through_its_half_to_zero_at_the_end(schedule: Schedule) -> None:
    settings = OptimizerConfig(schedule=schedule, peak_lr=2e-3, warmup_steps=10)
    rates = [learning_rate(settings, 512, 1000, progress / 100) for progress in range(101)]
    assert rates[0] == pytest.approx(2e-3)
    assert rates[50] == pytest.approx(1e-3)
    assert rates[100] == pytest.approx(0.0, abs=1e-15)
    assert all(before > after for before, after in itertools.pairwise(rates))
    assert learning_rate(settings, 512, 1000, progress=1.3) == rates[100]  # a last step may overrun


# ---------------------------------------------------------------------------------------------- Adam


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Linear(3, 2, dtype=torch.float64)


def descend(model: nn.Module, optimizer: torch.optim.Optimizer, rates: list[float], size: float = 1.0) -> list[Tensor]:
    """The weights after each step along gradients that change in size and sign, small enough for ε to matter."""
    torch.manual_seed(1)
    after = []
    for rate in rates:
        for group in optimizer.param_groups:
            group["lr"] = rate
        for parameter in model.parameters():
            parameter.grad = torch.randn_like(parameter) * size
        optimizer.step()
        after.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
    return after


@pytest.mark.parametrize("size", [1.0, 1e-9])
def test_every_step_is_that_of_adam_with_the_papers_constants(size: float) -> None:
    ours, theirs = model(), model()
    adam = torch.optim.Adam(theirs.parameters(), betas=(0.9, 0.98), eps=1e-9)
    rates = [learning_rate(PAPER, 512, step) for step in range(1, 20)]
    for x, y in zip(
        descend(ours, build_optimizer(ours, PAPER), rates, size), descend(theirs, adam, rates, size), strict=True
    ):
        torch.testing.assert_close(x, y, rtol=1e-12, atol=1e-14)


def test_weight_decay_shrinks_the_weights_apart_from_the_gradient() -> None:
    # Decoupled: Adam's normalisation would otherwise turn any decay into a step of the same size.
    network = model()
    before = torch.cat([p.detach().flatten() for p in network.parameters()]).clone()
    after = descend(network, build_optimizer(network, OptimizerConfig(weight_decay=0.1)), [0.5, 0.5], size=0.0)[-1]
    torch.testing.assert_close(after, before * (1 - 0.5 * 0.1) ** 2)


# ---- the moving average of the weights


AVERAGED = OptimizerConfig(batch_tokens=200, warmup_steps=4, ema_decay=0.9)


def step(model: nn.Module) -> None:
    """Change all weights."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter))


def weights(model: nn.Module) -> dict[str, Tensor]:
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def test_in_use_the_model_has_the_average_and_gets_its_own_weights_back() -> None:
    model = nn.Linear(3, 2)
    average = MovingAverage(model, 0.9)
    step(model)
    average.update(1)
    own, expected = weights(model), [tensor.clone() for tensor in average.average]

    def use() -> None:
        with average.in_use():
            assert all(torch.equal(p, a) for p, a in zip(model.parameters(), expected, strict=True))
            assert not same(own, weights(model))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        use()
    assert same(own, weights(model))
    assert all(torch.equal(a, b) for a, b in zip(average.average, expected, strict=True))


# ---- in a run


def test_a_run_keeps_the_average_of_what_it_went_through_and_learns_as_it_would_without(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path: list[dict[str, Tensor]] = []
    apply = Stepper.apply

    def watched(self: Stepper, rate: float) -> None:
        path.extend([] if path else [weights(self._model)])
        apply(self, rate)
        path.append(weights(self._model))

    with monkeypatch.context() as patch:
        patch.setattr(Stepper, "apply", watched)
        train(configure(folder, "plain", optimizer=replace(AVERAGED, ema_decay=0.0)))
    train(configure(folder, "averaged", optimizer=AVERAGED))
    states = [load_state(folder / name) for name in ("plain", "averaged")]
    assert all(state is not None for state in states)
    assert same(*(state["model"] for state in states if state is not None))
    first, *others = path
    expected = {name: weight.double() for name, weight in first.items()}
    for number, after in enumerate(others, start=1):
        share = min(0.9, (1 + number) / (10 + number))
        expected = {name: share * expected[name] + (1 - share) * after[name] for name in expected}
    found = last_weights(folder / "averaged")
    assert not same(found, last_weights(folder / "plain"))
    for name, weight in found.items():
        torch.testing.assert_close(weight.double(), expected[name], atol=1e-6, rtol=1e-6)


def test_it_may_begin_and_end_in_the_middle_of_a_run(folder: Path) -> None:
    for decay in (0.0, 0.9, 0.0):
        steps = 3 + (load_state(folder / "run") or {"progress": {"step": 0}})["progress"]["step"]
        optimizer = replace(AVERAGED, ema_decay=decay)
        train(configure(folder, optimizer=optimizer, max_steps=steps, accept_changes=True))
        state = load_state(folder / "run")
        assert state is not None
        assert same(state["model"], last_weights(folder / "run")) == (not decay)
