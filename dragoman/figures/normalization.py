"""Layer normalisation beside batch normalisation, on the same numbers; and where it stands in a layer.

Shapes: B tokens, D features.
"""

from __future__ import annotations

from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor, nn

from dragoman.config import ModelConfig
from dragoman.figures import style
from dragoman.model.layers import SublayerConnection

VALUES = torch.tensor(
    [[2.0, 9.0, 0.5, 4.0], [1.0, 7.0, 1.5, 2.0], [4.0, 8.0, 2.5, 6.0], [3.0, 4.0, 1.0, 1.0], [5.0, 6.0, 0.0, 3.0]]
)
"""Five tokens with four features of different sizes (B, D)."""
SUBLAYER = torch.tensor([[1.0, -2.0, 0.5, 1.0], [0.0, 1.0, -1.0, 2.0], [-1.0, -1.0, 0.5, 0.0]])
"""Output of a sub-layer for the first three tokens."""


def normalised(values: Tensor) -> tuple[Tensor, Tensor]:
    """Batch-normalised and layer-normalised values (B, D), both without scale and shift."""
    features = values.size(1)
    epsilon = ModelConfig().layer_norm_eps
    batch_norm = nn.BatchNorm1d(features, eps=epsilon, affine=False).train()
    layer_norm = nn.LayerNorm(features, eps=epsilon, elementwise_affine=False)
    return batch_norm(values), layer_norm(values)


@style.picture(style.FULL_WIDTH, 2.7)
def normalisation_tables(figure: Figure) -> None:
    """Batch and layer normalisation

    Batch normalisation gives each feature mean 0 and deviation 1 over the tokens of the batch; layer normalisation
    gives them to each token over its features, so the other tokens of the batch do not matter. In the model a learned
    factor γ and offset β follow for each feature, at first 1 and 0.
    """
    axes = figure.subplots(1, 3)
    rows, columns = VALUES.shape
    titles = ("before", "batch normalisation", "layer normalisation")
    for ax, table, title in zip(axes, (VALUES, *normalised(VALUES)), titles, strict=True):
        first = table is VALUES
        style.cells(ax, table, style.numbers(table, 1), bounds=(-9.0, 9.0) if first else (-2.0, 2.0))
        _moments(ax, style.as_array(table), bold=None if first else titles.index(title) - 1)
        style.write_ticks(ax, range(1, columns + 1), _tokens(rows) if first else ())
        ax.set(xlim=(-0.5, columns + 1.9), ylim=(rows + 1.2, -0.5), title=title)
        ax.set_xlabel("feature", x=columns / 2 / (columns + 2.4))  # above the cells, not above the moments
        ax.xaxis.tick_top()
        ax.xaxis.set_label_position("top")
    for column in range(columns):
        axes[1].add_patch(_frame((column - 0.5, -0.5), 1, rows))
    for row in range(rows):
        axes[2].add_patch(_frame((-0.5, row - 0.5), columns, 1))


@style.picture(style.FULL_WIDTH, 1.7)
def add_and_norm(figure: Figure) -> None:
    """Add and norm

    Around every sub-layer, the residual connection adds its input to its output; then each token of the sum is
    normalised, here with γ = 1 and β = 0.
    """
    x = VALUES[: len(SUBLAYER)]
    config = ModelConfig(d_model=x.size(1), num_heads=1, dropout=0.0)
    with torch.no_grad():
        norm = SublayerConnection(config).eval()(x, lambda _: SUBLAYER)
    tables = {"x": x, "+ Sublayer(x)": SUBLAYER, "= their sum": x + SUBLAYER, "→ its LayerNorm": norm}
    for ax, (title, table) in zip(figure.subplots(1, len(tables)), tables.items(), strict=True):
        style.cells(ax, table, style.numbers(table, 1), bounds=(-2.0, 2.0) if table is norm else (-9.0, 9.0))
        style.write_ticks(ax, (), _tokens(len(x)) if table is x else ())
        ax.set_title(title)


def _tokens(number: int) -> list[str]:
    return [f"token {place}" for place in range(1, number + 1)]


def _moments(ax: Axes, table: style.Array, bold: int | None) -> None:
    """Write mean and standard deviation below the columns (axis 0) and right of the rows (axis 1), one axis bold."""
    rows, columns = table.shape
    look: dict[str, Any] = {"ha": "center", "va": "center", "size": style.SMALL}
    for number, name in enumerate(("mean", "std")):
        x, y = columns + 0.15 + 1.1 * number, rows - 0.05 + 0.85 * number
        for axis, places in enumerate(([(column, y) for column in range(columns)], [(x, row) for row in range(rows)])):
            for place, text in zip(places, style.numbers([getattr(table, name)(axis=axis)], 1)[0], strict=True):
                ax.text(*place, text, weight="bold" if bold == axis else "normal", **look)
        ax.text(columns + 0.15, y, name, color=style.GREY, **look)
        ax.text(x, -0.8, name, color=style.GREY, **look)


def _frame(corner: tuple[float, float], width: int, height: int) -> Rectangle:
    return Rectangle(corner, width, height, fill=False, edgecolor=style.INK, lw=1.6, clip_on=False)
