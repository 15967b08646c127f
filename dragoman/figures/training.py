"""How it learns: the learning rate (section 5.3) and label smoothing (section 5.4), from dragoman.training.

Shapes: N predictions, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter
from torch import Tensor

from dragoman.config import OptimizerConfig
from dragoman.figures import style
from dragoman.training.loss import label_smoothed_cross_entropy
from dragoman.training.optimizer import learning_rate

SETTINGS = ((256, 4000), (512, 4000), (512, 8000), (1024, 4000))
"""Pairs of d_model and warmup_steps; (512, 4000) is the paper's base model, (1024, 4000) its big one."""
TOKENS = ("<pad>", "<unk>", "<s>", "</s>", "Bonjour", "le", "monde", "jour")
"""A vocabulary of eight, the first four as every vocabulary of Dragoman begins."""

Schedule = Literal["paper", "inverse-sqrt", "linear", "cosine"]


def paper_schedule(ax: Axes, settings: Sequence[tuple[int, int]] = SETTINGS, steps: int = 20_000) -> None:
    """The paper's schedule (equation 3) for several models and warm-ups.

    Args:
        ax: where to draw.
        settings: pairs of d_model and warmup_steps.
        steps: how far to draw it.
    """
    at = _steps(steps)
    lines = []
    for number, (d_model, warmup) in enumerate(settings):
        config = OptimizerConfig(warmup_steps=warmup)
        colour, dashes = style.SERIES[number % len(style.SERIES)]
        rates = [learning_rate(config, d_model, int(step)) for step in at]
        lines += ax.plot(at, rates, color=colour, ls=dashes, label=f"{d_model:,}; {warmup:,}")
    _scale(ax, steps)
    style.label_ends(ax, lines, heading="d_model; warm-up")


def schedules(
    ax: Axes,
    names: Sequence[Schedule] = ("paper", "inverse-sqrt", "linear", "cosine"),
    d_model: int = 512,
    warmup_steps: int = 4000,
    steps: int = 20_000,
) -> None:
    """Every schedule there is, over a run of so many steps, with the default peak_lr.

    Args:
        ax: where to draw.
        names: the schedules.
        d_model: width of the model, which only the paper's schedule looks at.
        warmup_steps: the same for all of them.
        steps: length of the run, at the end of which linear and cosine reach zero.
    """
    at = _steps(steps)
    lines = []
    for number, name in enumerate(names):
        config = OptimizerConfig(schedule=name, warmup_steps=warmup_steps)
        colour, dashes = style.SERIES[number % len(style.SERIES)]
        rates = [learning_rate(config, d_model, int(step), progress=step / steps) for step in at]
        lines += ax.plot(at, rates, color=colour, ls=dashes, label=name)
    _scale(ax, steps)
    style.label_ends(ax, lines)


def _steps(steps: int) -> list[float]:
    return [float(step) for step in np.unique(np.linspace(1, steps, 401).round())]


def _scale(ax: Axes, steps: int) -> None:
    ax.set(xlim=(0, steps), ylim=(0, None), xlabel="step (thousands)", ylabel="learning rate (10⁻³)")
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / 1000:g}"))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value * 1000:g}"))


def smoothed_target(target: int, vocab_size: int, smoothing: float) -> Tensor:
    """The distribution (V,) that the loss asks for, read from its gradient.

    With respect to the logits that gradient is p - q, whatever the prediction p; here p is uniform.
    """
    logits = torch.zeros(1, vocab_size, dtype=torch.float64, requires_grad=True)
    loss, _ = label_smoothed_cross_entropy(logits, torch.tensor([target]), smoothing)
    loss.backward()  # type: ignore[no-untyped-call]
    assert logits.grad is not None
    return 1.0 / vocab_size - logits.grad[0]


def target_bars(ax: Axes, tokens: Sequence[str] = TOKENS, target: str = "monde", smoothing: float = 0.1) -> None:
    """What the loss asks the model to predict: not the right token for certain, but nearly.

    Args:
        ax: where to draw.
        tokens: the vocabulary; the first is the padding, which is never a target.
        target: the right token.
        smoothing: ε_ls.
    """
    right = list(tokens).index(target)
    hard, soft = (smoothed_target(right, len(tokens), epsilon).numpy() for epsilon in (0.0, smoothing))
    places = range(len(tokens))
    ax.barh(places, hard, 0.72, facecolor="none", edgecolor=style.GREY, ls="--", label="ε = 0")
    ax.barh(places, soft, 0.72, color=style.BLUE, label=f"ε = {smoothing:g}")
    for place, value in zip(places, soft, strict=True):
        inside = value > 0.5
        ax.text(
            value - 0.02 if inside else value + 0.02,
            place,
            f"{value:.4f}",
            va="center",
            ha="right" if inside else "left",
            color="white" if inside else style.INK,
            size=style.SMALL,
        )
    without: dict[str, Any] = {"ha": "right", "va": "bottom", "size": style.SMALL, "color": style.GREY}
    ax.text(1.0, right - 0.42, f"without smoothing: {hard[right]:g}", **without)
    style.write_ticks(ax, "y", tokens)
    ax.set(xlim=(0, 1.02), ylim=(len(tokens) - 0.4, -0.6), xticks=(0, 0.5, 1), xlabel="probability asked for")


def smoothed_loss(probabilities: Sequence[float], vocab_size: int, smoothing: float) -> list[float]:
    """The loss, in nats, of predicting the right token with each of these probabilities (between 0 and 1).

    What is left is divided evenly among the vocab_size - 1 wrong tokens.
    """
    right = torch.tensor(list(probabilities), dtype=torch.float64)
    wrong = ((1.0 - right) / (vocab_size - 1))[:, None].expand(-1, vocab_size - 1)
    logits = torch.cat((wrong, right[:, None]), dim=1).log()  # (N, V); the last token is the right one
    target = torch.tensor([vocab_size - 1])
    return [label_smoothed_cross_entropy(row[None], target, smoothing)[0].item() for row in logits]


def loss_curves(ax: Axes, smoothings: Sequence[float] = (0.0, 0.1, 0.2), vocab_size: int = len(TOKENS)) -> None:
    """The loss over the probability of the right token, and where each curve is lowest.

    Args:
        ax: where to draw.
        smoothings: the ε_ls to compare.
        vocab_size: number of tokens.
    """
    at = np.concatenate((np.linspace(0.5, 0.99, 99), 1 - np.geomspace(0.01, 1e-5, 61)[1:]))
    height = 0.0
    for number, smoothing in enumerate(smoothings):
        losses = smoothed_loss(at.tolist(), vocab_size, smoothing)
        colour, dashes = style.SERIES[number % len(style.SERIES)]
        label = f"ε = {smoothing:g}"
        ax.plot(at, losses, color=colour, ls=dashes, label=label)
        named = len(at) // 5  # where the curves are far apart
        above: dict[str, Any] = {"xytext": (0, 3), "textcoords": "offset points", "size": style.SMALL}
        ax.annotate(label, (at[named], losses[named]), **above)
        best = smoothed_target(1, vocab_size, smoothing)[1].item()  # cross-entropy is least where p = q
        if best < 1:
            lowest = smoothed_loss([best], vocab_size, smoothing)[0]
            height = max(height, 2 * lowest)
            ax.plot([best], [lowest], "o", color=colour, markersize=5)
            below: dict[str, Any] = {"xytext": (0, -6), "textcoords": "offset points", "ha": "center", "va": "top"}
            ax.annotate(f"lowest at {best:.2f}", (best, lowest), size=style.SMALL, **below)
    ax.set(xlim=(0.5, 1.005), ylim=(0, height or None), xticks=np.linspace(0.5, 1, 6))
    ax.set(xlabel="predicted probability of the right token", ylabel="loss (nats)")
