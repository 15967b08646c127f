"""Layer normalisation beside batch normalisation, on the same numbers; and where it stands in a layer.

Shapes: B tokens, D features.
"""

from typing import Any

import numpy as np
import torch
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


@style.picture("normalisation", style.FULL_WIDTH, 2.7)
def normalisation_tables(figure: Figure) -> None:
    """Batch and layer normalisation

    The frames show what is normalised together. Batch normalisation gives each feature (a column) mean 0 and deviation
    1; layer normalisation gives them to each token (a row), so the other tokens do not matter.
    """
    rows, columns = VALUES.shape
    titles = ("before", "batch normalisation", "layer normalisation")
    axes = figure.subplots(1, 3)
    for ax, values, title in zip(axes, (VALUES, *normalised(VALUES)), titles, strict=True):
        table = style.as_array(values)
        style.cells(ax, table, style.numbers(table, 1), bounds=(-9.0, 9.0) if values is VALUES else (-2.0, 2.0))
        for axis, origin in ((0, (0, rows)), (1, (columns, 0))):  # of the columns below them, of the rows beside them
            moments = np.stack([table.mean(axis), table.std(axis)], axis)
            style.cells(ax, np.zeros(moments.shape), style.numbers(moments, 1), origin=origin, border=("white", 0.0))
        names = [*_tokens(rows), "mean", "std"] if values is VALUES else ()
        style.write_ticks(ax, [*range(1, columns + 1), "mean", "std"], names)
        ax.set_title(title)
        ax.set_xlabel("feature", loc="left")
        ax.xaxis.tick_top()
        ax.xaxis.set_label_position("top")
    frame: dict[str, Any] = {"fill": False, "edgecolor": style.INK, "lw": 1.6, "clip_on": False}
    for column in range(columns):
        axes[1].add_patch(Rectangle((column - 0.5, -0.5), 1, rows, **frame))
    for row in range(rows):
        axes[2].add_patch(Rectangle((-0.5, row - 0.5), columns, 1, **frame))


@style.picture("add-and-norm", style.FULL_WIDTH, 1.7)
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
