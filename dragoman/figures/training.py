"""How it learns: the learning rate (section 5.3) and label smoothing (section 5.4), from dragoman.training.

Shapes: N predictions, V vocabulary.
"""

from collections.abc import Sequence
from itertools import cycle
from typing import Any, get_args, get_type_hints

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from dragoman.config import OptimizerConfig
from dragoman.figures import style
from dragoman.training.loss import label_smoothed_cross_entropy
from dragoman.training.optimizer import learning_rate

SETTINGS = ((256, 4000), (512, 4000), (512, 8000), (1024, 4000))
"""Pairs of d_model and warmup_steps; (512, 4000) is the paper's base model, (1024, 4000) its big one."""
SCHEDULES = [OptimizerConfig(schedule=name) for name in get_args(get_type_hints(OptimizerConfig)["schedule"])]
STEPS = 20_000  # of the run that is drawn
TOKENS = ("<pad>", "<unk>", "<s>", "</s>", "Bonjour", "le", "monde", "jour")
"""A vocabulary of eight, the first four as every vocabulary of Dragoman begins."""
TARGET = TOKENS.index("monde")
SMOOTHINGS = (0.0, 0.1, 0.2)  # ε_ls


@style.picture("learning-rate", style.FULL_WIDTH, 2.8)
def learning_rates(figure: Figure) -> None:
    """Learning rate

    The paper’s rate rises linearly during the warm-up, then falls with the inverse square root of the step. A wider
    model takes smaller steps. With a longer warm-up, the rate rises more slowly, to a lower peak, and then falls alike.
    """
    left, right = figure.subplots(1, 2)
    for (d_model, warmup), look in zip(SETTINGS, style.SERIES, strict=True):
        _rates(left, OptimizerConfig(warmup_steps=warmup), d_model, f"{d_model:,}; {warmup:,}", look)
    for config, look in zip(SCHEDULES, cycle(style.SERIES), strict=False):
        _rates(right, config, 512, config.schedule, look)
    for ax, title, heading in ((left, "the paper’s schedule", "d_model; warm-up"), (right, "all schedules", "")):
        ax.set(xlim=(0, STEPS / 1000), ylim=(0, None), title=title)
        ax.set(xlabel="step (thousands)", ylabel="learning rate (10⁻³)")
        ax.legend(title=heading, **style.BESIDE)


def _rates(ax: Axes, config: OptimizerConfig, d_model: int, label: str, look: tuple[str, str]) -> None:
    steps = [1, *range(50, STEPS + 1, 50)]
    rates = [1000 * learning_rate(config, d_model, step, progress=step / STEPS) for step in steps]
    ax.plot([step / 1000 for step in steps], rates, color=look[0], ls=look[1], label=label)


@style.picture("label-smoothing", style.FULL_WIDTH, 3.0)
def label_smoothing(figure: Figure) -> None:
    """Label smoothing

    A tenth of the target probability is spread evenly over the vocabulary. So the loss is lowest where the model is
    nearly, but not entirely, sure of the right token; at the far right the curves rise again.
    """
    left, right = figure.subplots(1, 2)
    _target_bars(left, 0.1)
    left.set_title("the target")
    _loss_curves(right)
    right.set_title("the loss")


def smoothed_target(target: int, vocab_size: int, smoothing: float) -> Tensor:
    """Distribution q (V,) that the loss asks for, from its gradient p - q with respect to the logits of a uniform p."""
    logits = torch.zeros(1, vocab_size, dtype=torch.float64, requires_grad=True)
    loss, _ = label_smoothed_cross_entropy(logits, torch.tensor([target]), smoothing)
    (gradient,) = torch.autograd.grad(loss, logits)
    return 1.0 / vocab_size - gradient[0]


def smoothed_loss(probabilities: Sequence[float], vocab_size: int, smoothing: float) -> list[float]:
    """Loss in nats of predicting the right token with each of these probabilities, and the others evenly."""
    right = torch.tensor(list(probabilities), dtype=torch.float64)
    wrong = ((1.0 - right) / (vocab_size - 1))[:, None].expand(-1, vocab_size - 1)
    logits = torch.cat((wrong, right[:, None]), dim=1).log()  # (N, V); the last token is the right one
    target = torch.tensor([vocab_size - 1])
    return [label_smoothed_cross_entropy(row[None], target, smoothing)[0].item() for row in logits]


def _target_bars(ax: Axes, smoothing: float) -> None:
    hard, soft = (smoothed_target(TARGET, len(TOKENS), epsilon).numpy() for epsilon in (0.0, smoothing))
    small: dict[str, Any] = {"size": style.SMALL}
    ax.barh(TOKENS, hard, 0.72, facecolor="none", edgecolor=style.GREY, ls="--")
    bars = ax.barh(TOKENS, soft, 0.72, color=style.BLUE)
    ax.bar_label(bars, [f"{value:.4f}" if value < 0.5 else "" for value in soft], padding=4, **small)
    ax.text(soft[TARGET] - 0.02, TARGET, f"{soft[TARGET]:.4f}", va="center", ha="right", color="white", **small)
    without = f"without smoothing: {hard[TARGET]:g}"
    ax.text(1.0, TARGET - 0.42, without, ha="right", va="bottom", color=style.GREY, **small)
    ax.tick_params("y", length=0)
    ax.set(xlim=(0, 1.02), ylim=(len(TOKENS) - 0.4, -0.6), xticks=(0, 0.5, 1), xlabel="target probability")


def _loss_curves(ax: Axes) -> None:
    probabilities = np.concatenate((np.linspace(0.5, 0.99, 99), 1 - np.geomspace(0.01, 1e-5, 61)[1:]))
    for smoothing, (colour, dashes) in zip(SMOOTHINGS, style.SERIES, strict=False):
        losses = smoothed_loss(probabilities.tolist(), len(TOKENS), smoothing)
        ax.plot(probabilities, losses, color=colour, ls=dashes, label=f"ε = {smoothing:g}")
        if smoothing:
            best = smoothed_target(1, len(TOKENS), smoothing)[1].item()  # cross-entropy is least where p = q
            (lowest,) = smoothed_loss([best], len(TOKENS), smoothing)
            ax.plot(best, lowest, "o", color=colour, markersize=5)
            below: dict[str, Any] = {"textcoords": "offset points", "ha": "center", "va": "top", "size": style.SMALL}
            ax.annotate(f"lowest at {best:.2f}", (best, lowest), (0, -6), **below)
    ax.set(xlim=(0.5, 1.005), ylim=(0, 1.6), xticks=np.linspace(0.5, 1, 6))
    ax.set(xlabel="predicted probability of the right token", ylabel="loss (nats)")
    handles = [line for line in ax.lines if line.get_linestyle() != "None"]
    ax.legend(handles=handles[::-1], loc="upper left")
