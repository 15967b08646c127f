"""The sinusoids that tell the model where a token stands (section 3.5), from dragoman.model.embedding."""

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle

from dragoman.figures import style
from dragoman.model.embedding import PositionalEncoding, ScaledEmbedding, sinusoids

WORDS = ("The", "animal", "didn’t", "cross")
_AMPLITUDE = 0.42  # of a wave drawn around its place 0, 1, 2, …: below a half, so that neighbours do not touch


@style.picture("sinusoids-by-dimension", style.FULL_WIDTH, 4.2)
def waves_by_dimension(figure: Figure) -> None:
    """Sinusoids by dimension

    Each dimension of the encoding is a wave along the positions. Dimensions come in pairs, a sine (solid) and its
    cosine (dashed), and each pair is slower than the one before.
    """
    axes = figure.subplots(2, 1, sharex=True)
    for ax, d_model, dimensions in zip(axes, (16, 32), (range(4, 8), range(8, 16)), strict=True):
        table = style.as_array(sinusoids(128, d_model))
        for dimension in dimensions:
            colour = style.SERIES[(dimension - dimensions[0]) // 2][0]
            dashes = "--" if dimension % 2 else "-"
            ax.plot(table[:, dimension], color=colour, ls=dashes, label=f"dimension {dimension}")
        ax.set(xlim=(0, len(table) - 1), ylim=(-1.1, 1.1), yticks=(-1, 0, 1), ylabel="value")
        ax.set_title(f"d_model = {d_model}")
        ax.legend(**style.BESIDE)
    axes[-1].set_xlabel("position")


@style.picture("sinusoids-all-dimensions", style.FULL_WIDTH, 4.0)
def waves_of_all_dimensions(figure: Figure) -> None:
    """All dimensions, all positions

    The whole encoding for d_model = 16, oriented as the model sees it: a row for each position. On the left the waves
    are fast, on the right they hardly start to turn.
    """
    ax, (length, d_model) = figure.subplots(), (128, 16)
    for dimension, wave in enumerate(style.as_array(sinusoids(length, d_model)).T):
        colour, dashes = style.SERIES[dimension % 2]
        ax.plot(dimension + _AMPLITUDE * wave, np.arange(length), color=colour, ls=dashes, lw=1.2)
    ax.set(xlim=(-0.6, d_model - 0.4), ylim=(length - 1, 0), xticks=range(d_model))
    ax.set(xlabel="dimension (even: sine, solid; odd: cosine, dashed)", ylabel="position")


@style.picture("sinusoids-by-position", style.FULL_WIDTH, 5.2)
def waves_by_position(figure: Figure) -> None:
    """Sinusoids by position

    The same table along its rows: every position is a curve of its own over 128 dimensions, and neighbours have
    similar curves.
    """
    ax, (length, d_model) = figure.subplots(), (16, 128)
    for position, row in enumerate(style.as_array(sinusoids(length, d_model))):
        for first, (colour, dashes) in enumerate(style.SERIES[:2]):
            wave = position - _AMPLITUDE * row[first::2]  # upwards, against the axis
            ax.plot(np.arange(first, d_model, 2), wave, color=colour, ls=dashes, lw=1.2)
    ax.set(xlim=(0, d_model - 1), ylim=(length - 0.4, -0.6), yticks=range(length))
    ax.set(xlabel="dimension (even: sine, solid; odd: cosine, dashed)", ylabel="position")


@style.picture("encoding-map", style.FULL_WIDTH, 5.0)
def encoding_map(figure: Figure) -> None:
    """128 positions in 512 dimensions

    Most of the change is in the first dimensions (A). In the last ones (B) the sines stay close to 0 and the cosines
    close to 1, which makes the stripes.
    """
    axes = figure.subplot_mosaic("WW;AB")
    table = style.as_array(sinusoids(128, 512))
    image = _image(axes["W"], table)
    bar = figure.colorbar(image, ax=axes["W"], ticks=(-1, 0, 1), pad=0.01, aspect=12, label="value")
    bar.outline.set_visible(False)
    height, width = 16, 32
    for name, first in (("A", 0), ("B", 512 - width)):
        for colour, line in (("white", 3), (style.INK, 1.5)):
            frame = Rectangle((first - 0.5, -0.5), width, height, fill=False, edgecolor=colour, lw=line, clip_on=False)
            axes["W"].add_patch(frame)
        box = {"boxstyle": "square,pad=0.15", "facecolor": "white", "edgecolor": "none"}
        axes["W"].text(first + width / 2, height / 2, name, bbox=box, weight="bold", ha="center", va="center")
        _image(axes[name], table[:height, first : first + width], first)
        axes[name].set_title(f"{name}: dimensions {first} to {first + width - 1}")


def _image(ax: Axes, table: style.Array, first: int = 0) -> AxesImage:
    """Draw rows and columns of the table, beginning with dimension `first`."""
    rows, columns = table.shape
    edges = (first - 0.5, first + columns - 0.5, rows - 0.5, -0.5)
    ax.set(xlabel="dimension", ylabel="position")
    return ax.imshow(table, cmap=style.WAVES, vmin=-1, vmax=1, extent=edges, aspect="auto", interpolation="antialiased")


@style.picture("encoding-table", style.FULL_WIDTH, 2.4)
def encoding_table(figure: Figure) -> None:
    """The numbers themselves

    Some entries of the table for d_model = 512, each column under its function: dimension 0 is sin(pos) itself, the
    last ones have barely moved after five positions.
    """
    ax = figure.subplots()
    table, dimensions = style.as_array(sinusoids(6, 512)), [0, 1, 2, 3, 254, 255, 510, 511]
    style.cells(ax, table[:, dimensions], style.numbers(table[:, dimensions], 4))
    heads = []
    for dimension in dimensions:
        divisor = 1.0 / np.arcsin(table[1, dimension - dimension % 2])  # the sine at position 1 is that of 1 / divisor
        heads.append(f"{dimension}\n{'cos' if dimension % 2 else 'sin'}\n(pos / {divisor:.4g})")
    style.write_ticks(ax, heads, range(len(table)))
    ax.xaxis.tick_top()
    ax.xaxis.set_label_position("top")
    ax.set(xlabel="dimension and its function", ylabel="position")


@style.picture("embedding-plus-position", style.FULL_WIDTH, 2.2)
def embedding_with_positions(figure: Figure) -> None:
    """Embedding plus position

    What enters the first layer is a sum. The factor √d_model makes the embeddings about as large as the encodings.
    """
    d_model = 4
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(1)
        embedded = ScaledEmbedding(len(WORDS), d_model)(torch.arange(len(WORDS))[None])  # (1, S, D)
    add_positions = PositionalEncoding(d_model, len(WORDS), dropout=0.0)
    tables = {
        "embedding × √d_model": embedded,
        "+  position": add_positions(torch.zeros_like(embedded)),
        "=  input of layer 1": add_positions(embedded),
    }
    for ax, (title, table) in zip(figure.subplots(1, len(tables)), tables.items(), strict=True):
        style.cells(ax, table[0], style.numbers(table[0]), bounds=(-2.5, 2.5))
        style.write_ticks(ax, range(d_model), WORDS if table is embedded else ())
        ax.set(title=title, xlabel="dimension")


@style.picture("encoding-products", style.FULL_WIDTH, 3.0)
def products(figure: Figure) -> None:
    """How far apart are two positions?

    The dot product of two encodings depends only on their distance. In the image each diagonal has one colour; on the
    right the curves from four positions coincide.
    """
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.15))
    length, d_model = 128, 512
    table = style.as_array(sinusoids(length, d_model))
    products = table @ table.T / (d_model / 2)
    image = left.imshow(products, cmap=style.WAVES, interpolation="none")
    ticks = range(0, length, 32)
    left.set(title="dot products of positions", xlabel="position", ylabel="position", xticks=ticks, yticks=ticks)
    figure.colorbar(image, ax=left, pad=0.02, aspect=16).outline.set_visible(False)
    for number, (position, (colour, _), mark) in enumerate(zip((0, 40, 64, 127), style.SERIES, "osD^", strict=True)):
        distances, marks = np.arange(length) - position, slice(3 * number, None, 12)
        right.plot(distances, products[position], color=style.GREY, lw=0.8, zorder=1)
        label = f"from position {position}"
        right.plot(distances[marks], products[position][marks], mark, markersize=4, color=colour, label=label)
    right.set(title="by their distance", xlabel="distance in positions", ylabel="dot product / (d_model / 2)")
    right.set(xlim=(1 - length, length - 1))
    right.legend(loc="upper right", handletextpad=0.2, borderaxespad=0)
