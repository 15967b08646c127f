"""Attention weights, as images: all heads of a block, all blocks of a model.

Shapes: H heads, T query length, S key length.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from numpy.typing import ArrayLike
from rich.cells import cell_len

from dragoman.figures import style
from dragoman.inspection.record import Inspection

_ROW = 0.155  # inches: the least height of a row whose label has letters of style.SMALL
_LETTER = 0.066  # inches: the usual width of such a letter; an ideograph is twice as wide
_BAR = 0.8  # inches: width of the colour bar and its label


@style.styled()
def attention_heads(weights: ArrayLike, queries: Sequence[str], keys: Sequence[str], title: str = "") -> Figure:
    """The maps of all heads of one block, on one scale: weights (H, T, S) with T and S labels of any language."""
    table = style.as_array(weights)
    heads, (side, foot) = len(table), _margins(queries, keys)
    fitting = int((style.FULL_WIDTH - side - _BAR) / (_panel(keys) + 0.15))
    columns = min(heads, 4, fitting if fitting > 1 else 4)  # a page wider than the screen if not even two fit
    rows = math.ceil(heads / columns)
    columns = math.ceil(heads / rows)  # four heads in two rows of two, not three and one
    width = max(3.4, side + columns * (_panel(keys) + 0.15) + _BAR)
    figure = style.new_figure(width, foot + rows * (_panel(queries) + 0.3) + 0.4)
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for head, (ax, weights_of_head) in enumerate(zip(axes, table, strict=False)):
        image = _labelled_map(ax, weights_of_head, queries, keys, float(table.max()))
        if heads > 1:
            ax.set_title(f"head {head + 1}", weight="normal", size=style.TEXT)
        ax.tick_params(labelleft=head % columns == 0, labelbottom=head + columns >= heads)
    for ax in axes[heads:]:
        ax.remove()
    _colour_bar(figure, image, axes[:heads])
    if title:
        figure.suptitle(title, x=0.01, ha="left", weight="bold", size=style.TEXT + 1)
    return figure


@style.styled()
def attention_overview(inspection: Inspection) -> Figure:
    """Every head of every layer

    All attention maps of one translation. Diagonals follow the order of the words, columns are words that everyone
    looks at, triangles are the decoder’s causal mask.
    """
    blocks, heads = len(inspection.maps), len(next(iter(inspection.maps.values())))
    figure = style.new_figure(2.0 + 0.68 * heads, 0.4 + 0.68 * blocks)
    grid = figure.subplots(blocks, heads, squeeze=False)
    for row, (name, table) in zip(grid, inspection.maps.items(), strict=True):
        for head, (ax, weights) in enumerate(zip(row, table, strict=True), start=1):
            image = _image(ax, style.as_array(weights), 1.0)
            if ax.get_subplotspec().is_first_row():
                ax.set_title(f"head {head}", loc="center", weight="normal", size=style.SMALL)
            ax.set(xticks=[], yticks=[], aspect="auto", box_aspect=1)  # one size, however long the two sentences are
        words = "\n".join(block_in_words(name).rsplit(" ", 1))
        row[0].set_ylabel(words, rotation=0, ha="right", va="center", size=style.SMALL)
    _colour_bar(figure, image, [ax for ax in figure.axes if ax.images])
    return figure


@style.styled()
def last_layers(inspection: Inspection) -> Figure:
    """A translator’s attention

    The last layers of a trained translator, averaged over their heads. Rows are queries (in the decoder, the subword it
    has just read and the one it writes next), columns are keys. The decoder’s self-attention is empty above the
    diagonal, where its mask hides the future.
    """
    blocks = last_blocks(inspection)
    outer, cross, inner = blocks.values()
    (steps, source), (_, target) = _labels(inspection, cross), _labels(inspection, inner)
    side, foot = _margins([*source, *steps], [*source, *target])
    length = max(1.1 * (_panel(source) + _panel(target)), style.FULL_WIDTH - side - 1.1)
    figure = style.new_figure(side + length + 1.1, foot + length + 0.8)
    lengths = (len(source), len(target))
    axes = figure.subplot_mosaic([[outer, "."], [cross, inner]], width_ratios=lengths, height_ratios=lengths)
    for kind, block in blocks.items():
        mean = style.as_array(inspection.maps[block]).mean(axis=0)
        image = _labelled_map(axes[block], mean, *_labels(inspection, block), 1.0)
        axes[block].set_title(kind)
    axes[outer].tick_params(labelbottom=False)
    axes[inner].tick_params(labelleft=False)
    _colour_bar(figure, image, [axes[inner]])
    return figure


def last_cross_attention(inspection: Inspection) -> Figure:
    """Every head of one block

    The last cross-attention, head by head. A row is the subword that the decoder has just read and the one that it
    writes next; its dark cells are the source subwords that it looks at.
    """
    return block_figure(inspection, last_blocks(inspection)["cross-attention"])


def block_figure(inspection: Inspection, block: str, title: str = "") -> Figure:
    """All heads of one block of an inspection, such as "decoder.0.cross_attention"."""
    return attention_heads(inspection.maps[block], *_labels(inspection, block), title)


def last_blocks(inspection: Inspection) -> dict[str, str]:
    """Name of the last block of each kind of attention."""
    names = list(inspection.maps)  # layer by layer
    return {
        "encoder self-attention": [name for name in names if name.startswith("encoder.")][-1],
        "cross-attention": [name for name in names if name.endswith(".cross_attention")][-1],
        "decoder self-attention": [name for name in names if name.endswith(".self_attention")][-1],
    }


def steps_of(inspection: Inspection) -> list[str]:
    """Labels of the decoder's queries (T): the subword that each step has just read and the one that it writes."""
    read, written = inspection.labels(inspection.inputs), inspection.labels(inspection.outputs)
    mark = "\u200e"  # left to right; without it Arabic and Hebrew would turn the arrow around
    return [f"{mark}{before}{mark} → {mark}{after}" for before, after in zip(read, written, strict=True)]


def block_in_words(name: str) -> str:
    """Name of a block in words: "encoder layer 1 self-attention" for "encoder.0.self_attention"; layers from 1."""
    part, layer, kind = name.split(".")
    return f"{part} layer {int(layer) + 1} {kind.replace('_', '-')}"


def _labels(inspection: Inspection, block: str) -> tuple[list[str], list[str]]:
    source = inspection.labels(inspection.source_pieces, 0)
    if block.startswith("encoder."):
        return source, source
    return steps_of(inspection), source if block.endswith(".cross_attention") else inspection.labels(inspection.inputs)


def _labelled_map(ax: Axes, weights: style.Array, queries: Sequence[str], keys: Sequence[str], top: float) -> AxesImage:
    if weights.shape != (len(queries), len(keys)):
        raise ValueError(f"{len(queries)} queries and {len(keys)} keys do not label weights of shape {weights.shape}")
    image = _image(ax, weights, top)
    style.write_ticks(ax, keys, queries, _upright(keys))
    return image


def _image(ax: Axes, weights: style.Array, highest: float) -> AxesImage:
    ax.spines[:].set_visible(True)
    return ax.imshow(weights, cmap=style.WEIGHTS, vmin=0.0, vmax=highest, interpolation="none", origin="upper")


def _colour_bar(figure: Figure, image: AxesImage, axes: Iterable[Any]) -> None:
    slim = max(16.0, 7 * figure.get_figheight())  # a strip of one width, whatever the figure's height
    bar = figure.colorbar(image, ax=list(axes), pad=0.02, fraction=0.04, aspect=slim, label="attention weight")
    bar.outline.set_visible(False)


def _upright(labels: Sequence[str]) -> bool:
    """Whether labels must be turned to fit side by side; "<s>" and "</s>" have room between shorter ones."""
    return any(len(label) > 2 for label in labels if label not in ("<s>", "</s>"))


def _margins(queries: Sequence[str], keys: Sequence[str]) -> tuple[float, float]:
    """Inches beside and below the maps that their labels take."""
    side, foot = (_LETTER * max(map(cell_len, labels), default=0) for labels in (queries, keys))
    return side + 0.15, (foot if _upright(keys) else 0.15) + 0.15


def _panel(labels: Sequence[str]) -> float:
    """Least length of a map's side, in inches, at which its labels are legible."""
    return max(1.1, _ROW * min(len(labels), style.MOST_LABELS))
