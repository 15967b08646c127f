"""Adam and the learning-rate schedules."""

import itertools
import math
from typing import Any, Literal

import pytest
import torch
from torch import Tensor, nn

from dragoman.config import OptimizerConfig
from dragoman.training.optimizer import build_optimizer, learning_rate

Schedule = Literal["paper", "inverse-sqrt", "linear", "cosine"]
SCHEDULES: list[Schedule] = ["paper", "inverse-sqrt", "linear", "cosine"]
PEAKED: list[Schedule] = ["inverse-sqrt", "linear", "cosine"]
ENDING: list[Schedule] = ["linear", "cosine"]


def config(**changes: Any) -> OptimizerConfig:
    return OptimizerConfig(**changes)


# ---------------------------------------------------------------------------------------------- schedules


@pytest.mark.parametrize("step", [1, 2, 100, 3999, 4000, 4001, 100_000])
@pytest.mark.parametrize("d_model", [512, 1024])
def test_the_papers_schedule_is_equation_3(step: int, d_model: int) -> None:
    expected = d_model**-0.5 * min(step**-0.5, step * 4000**-1.5)
    assert learning_rate(config(), d_model, step) == pytest.approx(expected, rel=1e-12)


def test_the_papers_base_model_peaks_at_seven_ten_thousandths() -> None:
    assert learning_rate(config(), 512, 4000) == pytest.approx(1 / math.sqrt(512 * 4000), rel=1e-12)
    assert learning_rate(config(), 512, 4000) == pytest.approx(7e-4, rel=0.01)


@pytest.mark.parametrize("warmup", [1, 7, 300])
@pytest.mark.parametrize("schedule", ["paper", "inverse-sqrt"])
def test_the_rate_rises_in_a_line_to_its_peak_at_the_end_of_the_warm_up_and_falls(
    schedule: Schedule, warmup: int
) -> None:
    settings = config(schedule=schedule, warmup_steps=warmup)
    rates = [learning_rate(settings, 64, step) for step in range(1, 4 * warmup + 1)]
    peak = rates[warmup - 1]
    assert rates[:warmup] == pytest.approx([peak * step / warmup for step in range(1, warmup + 1)])
    assert all(before > after for before, after in itertools.pairwise(rates[warmup - 1 :]))
    assert rates[-1] == pytest.approx(peak / 2)  # four times the steps, half the rate


def test_lr_scale_multiplies_the_papers_schedule_at_every_step() -> None:
    for step in (1, 4000, 9000):
        scaled = learning_rate(config(lr_scale=2.5), 512, step)
        assert scaled == pytest.approx(2.5 * learning_rate(config(), 512, step))


def test_inverse_square_root_is_the_papers_schedule_through_the_given_peak() -> None:
    same_form = config(schedule="inverse-sqrt", peak_lr=learning_rate(config(), 512, 4000))
    for step in (1, 17, 3999, 4000, 4001, 50_000):
        assert learning_rate(same_form, 512, step) == pytest.approx(learning_rate(config(), 512, step), rel=1e-9)


@pytest.mark.parametrize("schedule", PEAKED)
def test_the_warm_up_ends_at_the_given_peak_whatever_the_width(schedule: Schedule) -> None:
    settings = config(schedule=schedule, peak_lr=3e-3, warmup_steps=10)
    for d_model in (64, 1024):
        assert learning_rate(settings, d_model, 10) == pytest.approx(3e-3)
        assert learning_rate(settings, d_model, 5) == pytest.approx(1.5e-3)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_no_schedule_jumps_at_the_end_of_the_warm_up(schedule: Schedule) -> None:
    settings = config(schedule=schedule, warmup_steps=1000)
    at = learning_rate(settings, 512, 1000)
    for step in (999, 1001):
        assert learning_rate(settings, 512, step) == pytest.approx(at, rel=2e-3)


@pytest.mark.parametrize("schedule", ENDING)
def test_linear_and_cosine_fall_from_the_peak_through_its_half_to_zero_at_the_end(schedule: Schedule) -> None:
    settings = config(schedule=schedule, peak_lr=2e-3, warmup_steps=10)
    rates = [learning_rate(settings, 512, 1000, progress / 100) for progress in range(101)]
    assert rates[0] == pytest.approx(2e-3)
    assert rates[50] == pytest.approx(1e-3)
    assert rates[100] == pytest.approx(0.0, abs=1e-15)
    assert all(before > after for before, after in itertools.pairwise(rates))
    assert learning_rate(settings, 512, 1000, progress=1.3) == rates[100]  # a last step may overrun


def test_linear_is_a_line_and_cosine_half_a_cosine() -> None:
    for progress in (0.1, 0.25, 0.8):
        rate = learning_rate(config(schedule="linear", peak_lr=1.0), 512, 9000, progress)
        assert rate == pytest.approx(1 - progress)
        rate = learning_rate(config(schedule="cosine", peak_lr=1.0), 512, 9000, progress)
        assert rate == pytest.approx((1 + math.cos(math.pi * progress)) / 2)


@pytest.mark.parametrize("schedule", ENDING)
def test_a_run_shorter_than_its_warm_up_still_ends_at_zero(schedule: Schedule) -> None:
    assert learning_rate(config(schedule=schedule), 512, 100, progress=1.0) == pytest.approx(0.0, abs=1e-15)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_every_step_before_the_end_learns(schedule: Schedule) -> None:
    for step in (1, 4000, 10**6):
        assert learning_rate(config(schedule=schedule), 512, step, progress=0.5) > 0


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
    rates = [learning_rate(config(), 512, step) for step in range(1, 20)]
    for x, y in zip(
        descend(ours, build_optimizer(ours, config()), rates, size), descend(theirs, adam, rates, size), strict=True
    ):
        torch.testing.assert_close(x, y, rtol=1e-12, atol=1e-14)


def test_the_constants_of_adam_are_settings() -> None:
    group = build_optimizer(model(), config(beta1=0.8, beta2=0.9, epsilon=1e-5, weight_decay=0.25)).param_groups[0]
    assert (group["betas"], group["eps"], group["weight_decay"]) == ((0.8, 0.9), 1e-5, 0.25)


def test_weight_decay_shrinks_the_weights_apart_from_the_gradient() -> None:
    # Decoupled: Adam's normalisation would otherwise turn any decay into a step of the same size.
    network = model()
    before = torch.cat([p.detach().flatten() for p in network.parameters()]).clone()
    after = descend(network, build_optimizer(network, config(weight_decay=0.1)), [0.5, 0.5], size=0.0)[-1]
    torch.testing.assert_close(after, before * (1 - 0.5 * 0.1) ** 2)


def test_nothing_moves_before_a_learning_rate_is_set() -> None:
    network = model()
    before = network.weight.detach().clone()
    optimizer = build_optimizer(network, config())
    network(torch.ones(1, 3, dtype=torch.float64)).sum().backward()
    optimizer.step()
    assert torch.equal(network.weight, before)


def test_every_parameter_is_optimised_and_shared_ones_once() -> None:
    network = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    network[1].weight = network[0].weight
    optimised = [id(p) for group in build_optimizer(network, config()).param_groups for p in group["params"]]
    assert sorted(optimised) == sorted({id(p) for p in network.parameters()})
    assert len(optimised) == 3
