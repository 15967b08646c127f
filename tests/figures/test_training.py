"""The drawn curves are the trainer's learning rates and losses."""

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes

from dragoman.config import OptimizerConfig
from dragoman.figures import style, training
from dragoman.training.loss import label_smoothed_cross_entropy
from dragoman.training.optimizer import learning_rate


@pytest.fixture
def ax() -> Axes:
    with style.styled():
        return style.new_figure((5, 3)).subplots()


def test_each_curve_is_the_papers_schedule(ax: Axes) -> None:
    training.paper_schedule(ax)
    for line, (d_model, warmup) in zip(ax.lines, training.SETTINGS, strict=True):
        steps, rates = np.asarray(line.get_xdata()), np.asarray(line.get_ydata())
        config = OptimizerConfig(warmup_steps=warmup)
        assert rates.tolist() == [learning_rate(config, d_model, int(step)) for step in steps]
        assert (steps == steps.round()).all()
        assert abs(steps[rates.argmax()] - warmup) <= 50  # the grid of steps that are drawn
        assert (steps[0], steps[-1]) == (1, 20_000)


def test_a_longer_warm_up_only_cuts_off_the_peak(ax: Axes) -> None:
    training.paper_schedule(ax, [(512, 4000), (512, 8000)])
    short, long = (np.asarray(line.get_ydata()) for line in ax.lines)
    late = np.asarray(ax.lines[0].get_xdata()) >= 8000
    assert np.array_equal(short[late], long[late])
    assert (short[~late] > long[~late]).all()


def test_every_schedule_is_drawn_over_the_whole_run(ax: Axes) -> None:
    training.schedules(ax, steps=10_000)
    names = [str(line.get_label()) for line in ax.lines]
    assert names == ["paper", "inverse-sqrt", "linear", "cosine"]
    for line, name in zip(ax.lines, names, strict=True):
        config = OptimizerConfig(schedule=name)  # type: ignore[arg-type]
        for step, rate in zip(np.asarray(line.get_xdata()), np.asarray(line.get_ydata()), strict=True):
            assert rate == learning_rate(config, 512, int(step), step / 10_000)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.7])
@pytest.mark.parametrize("vocab_size", [2, 8, 1000])
def test_the_target_read_from_the_gradient_is_the_formulas(smoothing: float, vocab_size: int) -> None:
    expected = torch.full((vocab_size,), smoothing / vocab_size, dtype=torch.float64)
    expected[1] += 1 - smoothing
    assert training.smoothed_target(1, vocab_size, smoothing).numpy() == pytest.approx(expected.numpy(), abs=1e-6)


def test_bars_are_the_smoothed_target_and_sum_to_one(ax: Axes) -> None:
    training.target_bars(ax, smoothing=0.1)
    hard, soft = ([bar.get_width() for bar in bars] for bars in ax.containers)  # type: ignore[attr-defined]
    right = training.TOKENS.index("monde")
    assert hard == pytest.approx([float(token == right) for token in range(8)], abs=1e-6)
    assert soft == pytest.approx(training.smoothed_target(right, 8, 0.1).tolist())
    assert sum(soft) == pytest.approx(1)
    written = [text.get_text() for text in ax.texts[:8]]
    assert written == [f"{width:.4f}" for width in soft]
    assert ax.yaxis_inverted()
    assert [label.get_text() for label in ax.get_yticklabels()] == list(training.TOKENS)


def test_the_curve_is_the_loss_of_such_a_prediction() -> None:
    probability, smoothing = 0.7, 0.2
    logits = torch.tensor([[0.1, 0.1, 0.1, 0.7]]).log()
    expected, _ = label_smoothed_cross_entropy(logits, torch.tensor([3]), smoothing)
    assert training.smoothed_loss([probability], 4, smoothing) == pytest.approx([expected.item()])


@pytest.mark.parametrize("vocab_size", [8, 500])
def test_the_loss_is_lowest_where_the_prediction_is_the_smoothed_target(ax: Axes, vocab_size: int) -> None:
    smoothings = (0.0, 0.1, 0.2)
    training.loss_curves(ax, smoothings, vocab_size)
    curves = [line for line in ax.lines if len(np.asarray(line.get_xdata())) > 1]
    dots = [line for line in ax.lines if len(np.asarray(line.get_xdata())) == 1]
    for curve, smoothing in zip(curves, smoothings, strict=True):
        at, losses = np.asarray(curve.get_xdata()), np.asarray(curve.get_ydata())
        lowest = 1 - smoothing + smoothing / vocab_size
        assert at[losses.argmin()] == pytest.approx(lowest, abs=0.006)
        assert (np.diff(losses)[at[1:] < lowest - 0.006] < 0).all()  # down, then up
        assert (np.diff(losses)[at[:-1] > lowest + 0.006] > 0).all()
    for dot, curve, smoothing in zip(dots, curves[1:], smoothings[1:], strict=True):
        (x,), (y,) = np.asarray(dot.get_xdata()), np.asarray(dot.get_ydata())
        assert x == pytest.approx(1 - smoothing + smoothing / vocab_size, abs=1e-6)
        assert y <= min(np.asarray(curve.get_ydata())) + 1e-6
