"""Attention weights of a translator, as images: one map, all heads of a block, all blocks of a model.

They take plain arrays or tensors and labels, so that they draw any model's weights.
Shapes: H heads, T query length, S key length.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from numpy.typing import ArrayLike
from torch import Tensor

from dragoman.figures import style

LONGEST_ROW, LONGEST_COLUMN = 32, 14
"""Characters that are shown of a row's label, and of a column's."""
MOST_LABELS = 64
"""Labels along one side of a map; where there are more rows or columns, some stay without."""

_CELL = 0.155  # inches: the least height of a row whose label has letters of style.SMALL
_LETTER = 0.066  # inches: the usual width of such a letter


def attention_map(
    ax: Axes,
    weights: Tensor | ArrayLike,
    queries: Sequence[str],
    keys: Sequence[str],
    highest: float | None = None,
    colour_bar: bool = True,
) -> AxesImage:
    """One map: a row for each query, a column for each key; the darker, the more weight.

    Args:
        ax: where to draw.
        weights: (T, S), from 0 to 1.
        queries: T labels, of any language.
        keys: S labels.
        highest: the weight that is drawn darkest; by default the highest there is.
        colour_bar: show which shade is which weight.

    Returns:
        The image.

    Raises:
        ValueError: the labels are not as many as the rows and columns.
    """
    table = style.as_array(weights)
    if table.shape != (len(queries), len(keys)):
        raise ValueError(f"{len(queries)} queries and {len(keys)} keys do not label weights of shape {table.shape}")
    image = _image(ax, table, highest or float(table.max()))
    style.write_ticks(ax, "y", queries, LONGEST_ROW, every=_every(queries))
    style.write_ticks(ax, "x", keys, LONGEST_COLUMN, upright=_upright(keys), every=_every(keys))
    if colour_bar and ax.figure is not None:
        _colour_bar(ax.figure.figure, image, [ax])
    return image


def attention_map_size(queries: Sequence[str], keys: Sequence[str], cell: float = 0.24) -> tuple[float, float]:
    """Width and height, in inches, of a figure in which attention_map is legible, with cells of this size at least."""
    side, foot = _margins(queries, keys)
    across, down = cell * min(len(keys), MOST_LABELS), cell * min(len(queries), MOST_LABELS)
    return max(3.4, side + across + 1.0), max(2.4, foot + down + 0.4)


def attention_heads(
    figure: Figure, weights: Tensor | ArrayLike, queries: Sequence[str], keys: Sequence[str], title: str = ""
) -> list[Axes]:
    """The maps of all heads of one block, on one scale.

    Args:
        figure: an empty one, of the size that attention_heads_size tells.
        weights: (H, T, S), from 0 to 1.
        queries: T labels, of any language.
        keys: S labels.
        title: above them all.

    Returns:
        The H axes.

    Raises:
        ValueError: the labels are not as many as the rows and columns.
    """
    figure.set_layout_engine("compressed")  # keeps maps together although their shape leaves room between them
    table = style.as_array(weights)
    columns = _columns(len(table), queries, keys)
    rows = math.ceil(len(table) / columns)
    grid = figure.subplots(rows, columns, squeeze=False)
    axes = list(grid.flat)
    highest = float(table.max())
    for head, (ax, one) in enumerate(zip(axes, table, strict=False)):
        image = attention_map(ax, one, queries, keys, highest, colour_bar=False)
        ax.set_title(f"head {head + 1}", weight="normal", size=style.TEXT)
        if head % columns:
            ax.tick_params(labelleft=False)
        if head + columns < len(table):
            ax.tick_params(labelbottom=False)
    for ax in axes[len(table) :]:
        ax.remove()
    _colour_bar(figure, image, axes[: len(table)])
    if title:
        figure.suptitle(title, x=0.01, ha="left", weight="bold", size=style.TEXT + 1)
    return axes[: len(table)]


def attention_heads_size(num_heads: int, queries: Sequence[str], keys: Sequence[str]) -> tuple[float, float]:
    """Width and height, in inches, of a figure in which attention_heads is legible."""
    columns = _columns(num_heads, queries, keys)
    rows = math.ceil(num_heads / columns)
    side, foot = _margins(queries, keys)
    width = side + columns * (_panel(keys) + 0.15) + 0.8
    return max(3.4, width), foot + rows * (_panel(queries) + 0.3) + 0.4


def attention_kinds(
    figure: Figure,
    maps: Mapping[str, Tensor | ArrayLike],
    labels: Mapping[str, Sequence[str]],
    steps: Sequence[str],
) -> dict[str, Axes]:
    """The three kinds of attention, placed so that maps side by side have the same queries, one above the other the
    same keys.

    Args:
        figure: an empty one, of the size that attention_kinds_size tells.
        maps: weights (S, S) of "encoder self-attention", (T, T) of "decoder self-attention" and (T, S) of
            "cross-attention".
        labels: of "source" (S) and "target" (T).
        steps: T labels of the decoder's queries.

    Returns:
        The axes, by kind.
    """
    figure.set_layout_engine("compressed")
    source, target = labels["source"], labels["target"]
    sides = (len(source), len(target))
    cross, inner, outer = "cross-attention", "decoder self-attention", "encoder self-attention"
    axes = figure.subplot_mosaic([[outer, "."], [cross, inner]], width_ratios=sides, height_ratios=sides)
    for kind, queries, keys in ((outer, source, source), (cross, steps, source), (inner, steps, target)):
        image = attention_map(axes[kind], maps[kind], queries, keys, 1.0, colour_bar=False)
        axes[kind].set_title(kind)
    axes[outer].tick_params(labelbottom=False)
    axes[inner].tick_params(labelleft=False)
    _colour_bar(figure, image, [axes[inner]])
    return axes


def attention_kinds_size(source: Sequence[str], target: Sequence[str], steps: Sequence[str]) -> tuple[float, float]:
    """Width and height, in inches, of a figure in which attention_kinds is legible."""
    side, foot = _margins([*source, *steps], [*source, *target])
    length = 1.1 * (_panel(source) + _panel(target))
    return max(style.FULL_WIDTH, side + length + 1.1), foot + max(length, style.FULL_WIDTH - side - 1.1) + 0.8


def attention_overview(figure: Figure, maps: Mapping[str, Tensor | ArrayLike]) -> list[list[Axes]]:
    """All maps of a model, small: a row for each block, a column for each head.

    Args:
        figure: an empty one, of the size that attention_overview_size tells.
        maps: weights (H, T, S) by block, in the order to draw them in; the model's own names, such as
            "encoder.0.self_attention", are put into words.

    Returns:
        The axes: a list for each block, with one for each of its heads.
    """
    figure.set_layout_engine("compressed")
    tables = {name: style.as_array(weights) for name, weights in maps.items()}
    grid = figure.subplots(len(tables), max(len(table) for table in tables.values()), squeeze=False)
    axes: list[list[Axes]] = []
    for row, (name, table) in zip(grid, tables.items(), strict=True):
        axes.append(list(row[: len(table)]))
        for ax, one in zip(axes[-1], table, strict=True):
            image = _image(ax, one, 1.0)
            ax.set(xticks=[], yticks=[], aspect="auto")
            ax.set_box_aspect(1)  # one size for all, however long the two sentences are
        for ax in row[len(table) :]:
            ax.remove()
        words = "\n".join(block_in_words(name).rsplit(" ", 1))
        row[0].set_ylabel(words, rotation=0, ha="right", va="center", size=style.SMALL)
    for head, ax in enumerate(axes[0]):
        ax.set_title(f"head {head + 1}", loc="center", weight="normal", size=style.SMALL)
    _colour_bar(figure, image, [ax for row in axes for ax in row])
    return axes


def attention_overview_size(num_blocks: int, num_heads: int) -> tuple[float, float]:
    """Width and height, in inches, of a figure for attention_overview."""
    return 2.0 + 0.68 * num_heads, 0.4 + 0.68 * num_blocks


def block_in_words(name: str) -> str:
    """A block's name, such as "encoder.0.self_attention", in words: "encoder layer 1 self-attention"; layers from 1."""
    parts = name.split(".")
    if len(parts) != 3 or not parts[1].isdigit():
        return name
    return f"{parts[0]} layer {int(parts[1]) + 1} {parts[2].replace('_', '-')}"


def _image(ax: Axes, table: style.Array, highest: float) -> AxesImage:
    image = ax.imshow(table, cmap=style.WEIGHTS, vmin=0.0, vmax=highest, interpolation="none", origin="upper")
    ax.spines[:].set_visible(True)
    return image


def _colour_bar(figure: Figure, image: AxesImage, axes: Sequence[Axes]) -> None:
    slim = max(16.0, 7 * figure.get_figheight())  # a strip of one width, whatever the figure's height
    bar = figure.colorbar(image, ax=list(axes), pad=0.02, fraction=0.04, aspect=slim)
    bar.set_label("attention weight")
    bar.outline.set_visible(False)


def _upright(labels: Sequence[str]) -> bool:
    """Whether labels are to stand upright to fit beside each other; "<s>" and "</s>" have room between shorter ones."""
    return max((len(label) for label in labels if label not in ("<s>", "</s>")), default=0) > 2


def _margins(queries: Sequence[str], keys: Sequence[str]) -> tuple[float, float]:
    """Inches beside and below the maps that their labels take."""
    side, foot = (
        max(map(_width, style.lettering(labels, limit)[0]), default=0.0)
        for labels, limit in ((queries, LONGEST_ROW), (keys, LONGEST_COLUMN))
    )
    return side + 0.15, (foot if _upright(keys) else 0.15) + 0.15


def _width(label: str) -> float:
    shown = [character for character in label if unicodedata.category(character) not in ("Cf", "Mn")]
    return sum(_LETTER if ord(character) < 0x2E80 else 2 * _LETTER for character in shown)


def _panel(labels: Sequence[str]) -> float:
    return max(1.1, _CELL * min(len(labels), MOST_LABELS))


def _every(labels: Sequence[str]) -> int:
    return math.ceil(len(labels) / MOST_LABELS)


def _columns(num_heads: int, queries: Sequence[str], keys: Sequence[str]) -> int:
    """How many maps fit beside each other on a page, at most four; four where not even two do: that is to be zoomed."""
    room = style.FULL_WIDTH - _margins(queries, keys)[0] - 0.8
    fitting = int(room / (_panel(keys) + 0.15))
    columns = min(num_heads, 4, fitting if fitting > 1 else 4)
    return math.ceil(num_heads / math.ceil(num_heads / columns))  # four heads in two rows of two, not three and one
