"""The moving average of the weights."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from dragoman.checkpoint import read_weights
from dragoman.config import DragomanError, OptimizerConfig
from dragoman.training.optimizer import MovingAverage
from dragoman.training.run_state import load_state
from dragoman.training.step import Stepper

from .small_runs import configure, last_weights, same, train, write_corpus

AVERAGED = OptimizerConfig(batch_tokens=200, warmup_steps=4, ema_decay=0.9)


def step(model: nn.Module) -> None:
    """Change all weights."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter))


def weights(model: nn.Module) -> dict[str, Tensor]:
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def test_once_the_window_is_full_it_is_that_of_torch() -> None:
    model = nn.Linear(3, 2)
    torchs = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    torchs.update_parameters(model)  # the first call copies
    own = MovingAverage(model, 0.9)
    for number in range(1000, 1020):
        step(model)
        own.update(number)
        torchs.update_parameters(model)
    for average, expected in zip(own.average, torchs.module.parameters(), strict=True):
        torch.testing.assert_close(average, expected.detach())


def test_the_first_weights_are_soon_forgotten() -> None:
    model = nn.Linear(1, 1, bias=False)
    nn.init.constant_(model.weight, 1e6)
    average = MovingAverage(model, 0.9999)
    nn.init.constant_(model.weight, 1.0)
    share = 1.0
    for number in range(1, 101):
        average.update(number)
        share *= (1 + number) / (10 + number)
    assert float(average.average[0]) == pytest.approx(1.0 + share * 1e6, rel=1e-4)
    assert share < 1e-7 < math.pow(0.9999, 100)


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


def test_without_a_decay_nothing_is_kept_and_nothing_changes() -> None:
    model = nn.Linear(3, 2)
    average = MovingAverage(model, 0.0)
    step(model)
    own = weights(model)
    average.update(1)
    with average.in_use():
        assert same(own, weights(model))
    assert average.average == []


# ---- in a run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a corpus."""
    write_corpus(tmp_path)
    return tmp_path


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


def test_more_room_is_the_same_as_having_had_it_from_the_start(folder: Path) -> None:
    settings = configure(folder, "long", optimizer=AVERAGED)
    settings = replace(settings, validation=replace(settings.validation, every=3))
    train(settings)
    for steps in (6, 12):
        train(replace(settings, out=str(folder / "short"), max_steps=steps))
    assert same(last_weights(folder / "long"), last_weights(folder / "short"))
    kept = [read_weights(folder / name / "model.safetensors") for name in ("long", "short")]
    assert same(*kept)


def test_it_may_begin_and_end_in_the_middle_of_a_run(folder: Path) -> None:
    for decay in (0.0, 0.9, 0.0):
        steps = 3 + (load_state(folder / "run") or {"progress": {"step": 0}})["progress"]["step"]
        optimizer = replace(AVERAGED, ema_decay=decay)
        train(configure(folder, optimizer=optimizer, max_steps=steps, accept_changes=True))
        state = load_state(folder / "run")
        assert state is not None
        assert same(state["model"], last_weights(folder / "run")) == (not decay)


@pytest.mark.parametrize("decay", [1.0, -0.1])
def test_an_impossible_decay_is_refused(decay: float) -> None:
    with pytest.raises(DragomanError, match="ema_decay"):
        OptimizerConfig(ema_decay=decay)
