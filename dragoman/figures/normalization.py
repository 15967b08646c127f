"""Layer normalisation beside its sibling, batch normalisation, on the same numbers; and where it stands in a layer.

Shapes: B rows (sentences, or tokens of all sentences), D features.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from torch import Tensor, nn

from dragoman.config import ModelConfig
from dragoman.figures import style
from dragoman.model.layers import SublayerConnection

VALUES = (
    (2.0, 9.0, 0.5, 4.0),
    (1.0, 7.0, 1.5, 2.0),
    (4.0, 8.0, 2.5, 6.0),
    (3.0, 4.0, 1.0, 1.0),
    (5.0, 6.0, 0.0, 3.0),
)
"""Five tokens with four features of different sizes."""
SUBLAYER = ((1.0, -2.0, 0.5, 1.0), (0.0, 1.0, -1.0, 2.0), (-1.0, -1.0, 0.5, 0.0))
"""What a sub-layer makes of the first three tokens."""


def normalised(values: Tensor) -> tuple[Tensor, Tensor]:
    """Batch-normalised and layer-normalised values (B, D), both without scale and shift.

    The one takes each feature's mean and variance over the batch, the other each token's over its features.
    """
    features = values.size(1)
    epsilon = ModelConfig().layer_norm_eps
    batch_norm = nn.BatchNorm1d(features, eps=epsilon, affine=False).train()
    layer_norm = nn.LayerNorm(features, eps=epsilon, elementwise_affine=False)
    return batch_norm(values), layer_norm(values)


def normalisation_tables(axes: Sequence[Axes], values: Sequence[Sequence[float]] = VALUES) -> None:
    """The values, what batch normalisation makes of them, and what layer normalisation makes of them.

    Frames hold what is averaged together: a column here, a row there. Their means and standard deviations stand
    beside them, before and after.

    Args:
        axes: three, for the values, for batch and for layer normalisation.
        values: (B, D).
    """
    before = torch.tensor([list(row) for row in values])
    by_batch, by_layer = normalised(before)
    titles = ("before", "batch normalisation", "layer normalisation")
    for ax, table, title in zip(axes, (before, by_batch, by_layer), titles, strict=True):
        drawn = style.as_array(table)
        rows, columns = drawn.shape
        style.cells(ax, drawn, style.numbers(drawn, 1), bounds=(-9.0, 9.0) if table is before else (-2.0, 2.0))
        for axis in (0, 1):
            _moments(ax, drawn, axis, weight="bold" if table is (by_batch, by_layer)[axis] else "normal")
        style.write_ticks(ax, "x", [str(number + 1) for number in range(columns)])
        style.write_ticks(ax, "y", [f"token {number + 1}" if table is before else "" for number in range(rows)])
        ax.set(xlim=(-0.5, columns + 1.9), ylim=(rows + 1.2, -0.5), title=title)
        ax.set_xlabel("feature", x=columns / 2 / (columns + 2.4))  # above the cells, not above the moments
        ax.xaxis.tick_top()
        ax.xaxis.set_label_position("top")
    _frames(axes[1], before, axis=0)
    _frames(axes[2], before, axis=1)


def add_and_norm(axes: Sequence[Axes], sublayer: Sequence[Sequence[float]] = SUBLAYER) -> None:
    """Around every sub-layer: its output is added to its input, and each token of the sum is normalised.

    Args:
        axes: four, for x, Sublayer(x), their sum and its LayerNorm.
        sublayer: the output of the sub-layer for the first tokens of VALUES, (B, D).
    """
    output = torch.tensor([list(row) for row in sublayer])
    x = torch.tensor(VALUES[: len(output)])
    config = ModelConfig(d_model=x.size(1), num_heads=1, dropout=0.0)
    with torch.no_grad():
        normal = SublayerConnection(config).eval()(x, lambda _: output)
    titles = ("x", "+ Sublayer(x)", "= their sum", "→ its LayerNorm")
    for ax, table, title in zip(axes, (x, output, x + output, normal), titles, strict=True):
        drawn = style.as_array(table)
        style.cells(ax, drawn, style.numbers(drawn, 1), bounds=(-2.0, 2.0) if table is normal else (-9.0, 9.0))
        style.write_ticks(ax, "x", [])
        style.write_ticks(ax, "y", [f"token {number + 1}" if table is x else "" for number in range(len(drawn))])
        ax.set_title(title)


def _moments(ax: Axes, table: style.Array, axis: int, weight: str) -> None:
    """Write mean and standard deviation below the columns (axis 0) or to the right of the rows (axis 1)."""
    end = table.shape[axis]
    place: dict[str, Any] = {"ha": "center", "va": "center", "size": style.SMALL}
    for number, (name, moments) in enumerate((("mean", table.mean(axis)), ("std", table.std(axis)))):
        across = end + 0.85 * number - 0.05 if axis == 0 else end + 1.1 * number + 0.15
        for along, text in enumerate(style.numbers([moments], 1)[0]):
            x, y = (along, across) if axis == 0 else (across, along)
            ax.text(x, y, text, weight=weight, **place)
        x, y = (table.shape[1] + 0.15, across) if axis == 0 else (across, -0.8)
        ax.text(x, y, name, color=style.GREY, **place)


def _frames(ax: Axes, table: Tensor, axis: int) -> None:
    """Frame each group that is averaged together: over axis 0 the columns, over axis 1 the rows."""
    rows, columns = table.shape
    groups = columns if axis == 0 else rows
    for group in range(groups):
        corner, size = ((group - 0.5, -0.5), (1, rows)) if axis == 0 else ((-0.5, group - 0.5), (columns, 1))
        ax.add_patch(Rectangle(corner, *size, fill=False, edgecolor=style.INK, lw=1.6, clip_on=False))
