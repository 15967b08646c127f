"""The sinusoids that tell the model where a token stands (section 3.5), from dragoman.model.embedding.

Whatever the picture, positions run downwards and dimensions to the right, as in the (length, d_model) table itself,
unless its docstring says otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from dragoman.figures import style
from dragoman.model.embedding import PositionalEncoding, ScaledEmbedding, sinusoids

WORDS = ("The", "animal", "didn’t", "cross")
"""The beginning of a sentence."""

_AMPLITUDE = 0.42  # of a wave drawn around its place 0, 1, 2, …: below a half, so that neighbours do not touch


def waves_by_dimension(
    ax: Axes, d_model: int = 16, length: int = 128, dimensions: Sequence[int] = (4, 5, 6, 7)
) -> None:
    """Some columns of the table: each dimension is a wave along the positions.

    A sine and its cosine have one colour; the sine is solid, the cosine dashed.

    Args:
        ax: where to draw; positions run to the right, values upwards.
        d_model: width of the model.
        length: number of positions.
        dimensions: which to draw.
    """
    table = style.as_array(sinusoids(length, d_model))
    lines = []
    for dimension in dimensions:
        colour = style.SERIES[(dimension - dimensions[0]) // 2 % len(style.SERIES)][0]
        dashes = "-" if dimension % 2 == 0 else "--"
        lines += ax.plot(table[:, dimension], color=colour, linestyle=dashes, label=f"dimension {dimension}")
    ax.set(xlim=(0, length - 1), ylim=(-1.1, 1.1), yticks=(-1, 0, 1), xlabel="position", ylabel="value")
    style.label_ends(ax, lines)


def waves_of_all_dimensions(ax: Axes, d_model: int = 16, length: int = 128) -> None:
    """All columns of the table side by side, each around its own number: from fast to slow."""
    table = style.as_array(sinusoids(length, d_model))
    for dimension in range(d_model):
        colour, dashes = style.SERIES[dimension % 2]
        ax.plot(dimension + _AMPLITUDE * table[:, dimension], np.arange(length), color=colour, ls=dashes, lw=1.2)
    ax.set(xlim=(-0.6, d_model - 0.4), ylim=(length - 1, 0), xticks=range(d_model))
    ax.set(xlabel="dimension (even: sine, solid; odd: cosine, dashed)", ylabel="position")


def waves_by_position(ax: Axes, length: int = 16, d_model: int = 128) -> None:
    """All rows of the table, one below the other: every position is a different curve.

    The sines of a row (solid) and its cosines (dashed) are joined separately.
    """
    table = style.as_array(sinusoids(length, d_model))
    for position in range(length):
        for first, (colour, dashes) in enumerate(style.SERIES[:2]):
            dimensions = np.arange(first, d_model, 2)
            ax.plot(dimensions, position - _AMPLITUDE * table[position, first::2], color=colour, ls=dashes, lw=1.2)
    ax.set(xlim=(0, d_model - 1), ylim=(length - 0.4, -0.6), yticks=range(length))
    ax.set(xlabel="dimension (even: sine, solid; odd: cosine, dashed)", ylabel="position")


def encoding_map(
    ax: Axes,
    length: int = 128,
    d_model: int = 512,
    positions: range | None = None,
    dimensions: range | None = None,
    colour_bar: bool = True,
) -> None:
    """The whole table, or a part of it, as an image.

    Args:
        ax: where to draw.
        length: number of positions.
        d_model: width of the model.
        positions: the rows to show, all of them by default.
        dimensions: the columns to show, all of them by default.
        colour_bar: show which colour is which value.
    """
    rows, columns = positions or range(length), dimensions or range(d_model)
    table = style.as_array(sinusoids(length, d_model))[rows.start : rows.stop, columns.start : columns.stop]
    borders = (columns.start - 0.5, columns.stop - 0.5, rows.stop - 0.5, rows.start - 0.5)
    image = ax.imshow(
        table,
        cmap=style.WAVES,
        vmin=-1,
        vmax=1,
        extent=borders,
        aspect="auto",
        interpolation="antialiased",
        origin="upper",
    )
    ax.set(xlabel="dimension", ylabel="position")
    if colour_bar and ax.figure is not None:
        bar = ax.figure.colorbar(image, ax=ax, ticks=(-1, 0, 1), pad=0.01, aspect=12)
        bar.set_label("value")
        bar.outline.set_visible(False)


def encoding_map_with_zooms(
    axes: Sequence[Axes], length: int = 128, d_model: int = 512, positions: int = 16, dimensions: int = 32
) -> None:
    """The table as an image, and two of its corners enlarged: the first and the last dimensions.

    Args:
        axes: for the whole table, its first dimensions, its last dimensions.
        length: number of positions.
        d_model: width of the model.
        positions: how many positions the corners show.
        dimensions: how many dimensions each of them shows.
    """
    encoding_map(axes[0], length, d_model)
    corners = (range(dimensions), range(d_model - dimensions, d_model))
    for name, ax, columns in zip("AB", axes[1:], corners, strict=True):
        place = (columns.start - 0.5, -0.5)
        axes[0].add_patch(Rectangle(place, dimensions, positions, fill=False, edgecolor="white", lw=3, clip_on=False))
        axes[0].add_patch(
            Rectangle(place, dimensions, positions, fill=False, edgecolor=style.INK, lw=1.5, clip_on=False)
        )
        label: dict[str, Any] = {"color": style.INK, "weight": "bold", "ha": "center", "va": "center"}
        box = {"boxstyle": "square,pad=0.15", "facecolor": "white", "edgecolor": "none"}
        axes[0].text(columns.start + dimensions / 2, positions / 2, name, bbox=box, **label)
        encoding_map(ax, length, d_model, range(positions), columns, colour_bar=False)
        ax.set_title(f"{name}: dimensions {columns.start} to {columns.stop - 1}")


def encoding_table(
    ax: Axes,
    positions: Sequence[int] = range(6),
    dimensions: Sequence[int] = (0, 1, 2, 3, 254, 255, 510, 511),
    d_model: int = 512,
) -> None:
    """Some of the numbers, under the function each column tabulates.

    Args:
        ax: where to draw.
        positions: the rows.
        dimensions: the columns.
        d_model: width of the model.
    """
    table = style.as_array(sinusoids(max(*positions, 1) + 1, d_model))
    values = table[np.ix_(positions, dimensions)]
    style.cells(ax, values, style.numbers(values, 4))
    heads = []
    for dimension in dimensions:
        divisor = 1.0 / np.arcsin(table[1, dimension - dimension % 2])  # the sine at position 1 is that of 1 / divisor
        heads.append(f"{dimension}\n{'cos' if dimension % 2 else 'sin'}\n(pos / {divisor:.4g})")
    style.write_ticks(ax, "x", heads)
    style.write_ticks(ax, "y", [str(position) for position in positions])
    ax.xaxis.tick_top()
    ax.xaxis.set_label_position("top")
    ax.set(xlabel="dimension and its function", ylabel="position")


def products_by_position(ax: Axes, length: int = 128, d_model: int = 512) -> None:
    """The dot product of every position's encoding with every other's, divided by its own with itself: d_model / 2."""
    table = style.as_array(sinusoids(length, d_model))
    products = table @ table.T / (d_model / 2)
    image = ax.imshow(products, cmap=style.WAVES, interpolation="none", origin="upper")
    ax.set(xlabel="position", ylabel="position", xticks=range(0, length, 32), yticks=range(0, length, 32))
    if ax.figure is not None:
        bar = ax.figure.colorbar(image, ax=ax, pad=0.02, aspect=16)
        bar.outline.set_visible(False)


def products_by_distance(
    ax: Axes, length: int = 128, d_model: int = 512, positions: Sequence[int] = (0, 40, 64, 127)
) -> None:
    """The same dot products by distance: from wherever one looks, they lie on one curve.

    Args:
        ax: where to draw.
        length: number of positions.
        d_model: width of the model.
        positions: from where to look; each has its own marks on the curve.
    """
    table = style.as_array(sinusoids(length, d_model))
    products = table @ table.T / (d_model / 2)
    for number, position in enumerate(positions):
        distances = np.arange(length) - position
        marks = slice(3 * number, None, 12)
        ax.plot(distances, products[position], color=style.GREY, lw=0.8, zorder=1)
        ax.plot(
            distances[marks],
            products[position][marks],
            "osD^"[number % 4],
            markersize=4,
            color=style.SERIES[number % 4][0],
            label=f"from position {position}",
        )
    ax.set(xlabel="distance in positions", ylabel="dot product / (d_model / 2)", xlim=(1 - length, length - 1))
    ax.legend(loc="upper right", handletextpad=0.2, borderaxespad=0)


def embedding_with_positions(
    axes: Sequence[Axes], words: Sequence[str] = WORDS, d_model: int = 4, seed: int = 1
) -> None:
    """What enters the first layer: each word's embedding plus its position's encoding.

    Args:
        axes: for the embeddings, the encodings, their sum.
        words: one for each position.
        d_model: width of the model.
        seed: for the embeddings, random as those of a model before its training.
    """
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        embedded = ScaledEmbedding(len(words), d_model)(torch.arange(len(words))[None])  # (1, S, D)
        add_positions = PositionalEncoding(d_model, len(words), dropout=0.0)
        tables = (embedded, add_positions(torch.zeros_like(embedded)), add_positions(embedded))
    titles = ("embedding × √d_model", "+  position", "=  input of layer 1")
    for number, (ax, table, title) in enumerate(zip(axes, tables, titles, strict=True)):
        values = style.as_array(table[0])
        style.cells(ax, values, style.numbers(values), bounds=(-2.5, 2.5))
        style.write_ticks(ax, "x", [str(dimension) for dimension in range(d_model)])
        style.write_ticks(ax, "y", words if number == 0 else ["" for _ in words])
        ax.set_title(title)
        ax.set_xlabel("dimension")
