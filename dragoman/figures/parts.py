"""The whole model (figure 1 of the paper) and multi-head attention (figure 2), as boxes and arrows.

The names in the boxes are read from a model, so they are those of the code.
"""

from collections.abc import Sequence
from typing import Any, cast

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch
from torch import nn

from dragoman.config import ModelConfig
from dragoman.figures import style
from dragoman.model.attention import scaled_dot_product_attention
from dragoman.model.layers import EncoderLayer
from dragoman.model.transformer import Transformer

_ATTENTION, _FEED_FORWARD, _NORM, _EDGE = "#f7dcc0", "#cfe3f1", "#eeeeee", "#e3efe0"
_WIDTH, _HEIGHT = 3.0, 0.72
_BOTTOM, _STEP = 2.9, 2.3  # height of the first sub-layer, and of each one with its connection
_SIDE = 0.42  # distance of the residual connections from the boxes
Place = tuple[float, float]


@style.picture("transformer", 6.6, 8.2)
def transformer(figure: Figure) -> None:
    """The whole model

    Figure 1 of the paper, with the names that the parts have in the code. Follow the line from the left to the right
    stack: by cross-attention every decoder layer reads the encoder’s memory.
    """
    ax, model = figure.subplots(), _small_model()
    left, right = 0.0, 5.0
    feed_forward = {"feed_forward": "feed-forward network"}
    memory = _stack(ax, left, model.encoder.layers, {"self_attention": "self-attention"} | feed_forward)
    attentions = {"self_attention": "masked self-attention", "cross_attention": "cross-attention"}
    states = _stack(ax, right, model.decoder.layers, attentions | feed_forward)
    for x, embedding, positions, words in (
        (left, model.source_embedding, model.source_positions, "source (B, S)"),
        (right, model.target_embedding, model.target_positions, "target so far, shifted right (B, T)"),
    ):
        _write(ax, x, -0.1, words)
        _arrow(ax, (x, 0.1), (x, 0.44))
        _box(ax, x, 0.8, "embedding × √D", type(embedding).__name__, _EDGE)
        _arrow(ax, (x, 1.16), (x, 1.44))
        _box(ax, x, 1.8, "plus positions", type(positions).__name__, _EDGE)
        _arrow(ax, (x, 2.16), (x, 2.54))
    cross = _BOTTOM + _STEP
    _path(ax, [(left, memory), (left, memory + 0.5), (2.45, memory + 0.5), (2.45, cross), (right - _WIDTH / 2, cross)])
    ax.text(left + 0.15, memory + 0.28, "memory (B, S, D)", ha="left", va="center", size=style.SMALL)
    _arrow(ax, (right, states), (right, states + 0.44))
    _box(ax, right, states + 0.8, "to the vocabulary", type(model.softmax).__name__, _EDGE)
    _arrow(ax, (right, states + 1.16), (right, states + 1.64))
    ax.text(right + 0.15, states + 1.38, "logits (B, T, V)", ha="left", va="center", size=style.SMALL)
    _box(ax, right, states + 2.0, "softmax, by loss or search", "", _EDGE)
    _arrow(ax, (right, states + 2.36), (right, states + 2.7))
    _write(ax, right, states + 2.9, "probabilities of the next word")
    ax.set(xlim=(left - 2.9, right + 2.5), ylim=(-0.4, states + 3.15), aspect="equal")
    ax.set_axis_off()


@style.picture("multi-head-attention", style.FULL_WIDTH, 4.0)
def multi_head_attention(figure: Figure) -> None:
    """Multi-head attention

    The right half of the paper’s figure 2. Each of three heads takes its own part of the three projections and attends
    by itself; only the last projection mixes what they found.
    """
    ax, attention = figure.subplots(), cast(EncoderLayer, _small_model().encoder.layers[0]).self_attention
    gap = 3.6
    places = (-gap, 0.0, gap)
    layers = {"queries": attention.query, "keys": attention.key, "values": attention.value}
    for (name, layer), x in zip(layers.items(), places, strict=True):
        _write(ax, x, -0.1, f"{name} (B, ·, D)")
        _arrow(ax, (x, 0.1), (x, 0.44))
        _box(ax, x, 0.8, f"projection of {name}", type(layer).__name__, _EDGE)
        for place in places:
            _arrow(ax, (x, 1.16), (place + 0.5 * x / gap, 2.44), thin=True)
    for number, x in enumerate(places, start=1):
        _box(ax, x, 2.8, f"attention, head {number}", scaled_dot_product_attention.__name__, _ATTENTION, wide=0.3)
        _arrow(ax, (x, 3.16), (0.25 * x, 3.94), thin=True)
    _box(ax, 0, 4.3, "side by side (B, ·, H · K)", "", _NORM)
    _arrow(ax, (0, 4.66), (0, 4.94))
    _box(ax, 0, 5.3, "projection of the output", type(attention.output).__name__, _EDGE)
    _arrow(ax, (0, 5.66), (0, 6.0))
    _write(ax, 0, 6.2, "(B, ·, D)")
    ax.set(xlim=(-gap - 2.0, gap + 2.0), ylim=(-0.4, 6.45), aspect="equal")
    ax.set_axis_off()


def _small_model() -> Transformer:
    """A model of the paper's depth, for its names."""
    sizes = ModelConfig(d_model=8, d_ff=8, num_heads=2, source_vocab_size=8, target_vocab_size=8)
    with torch.random.fork_rng(devices=[]):  # making a model draws random numbers: not the caller's
        return Transformer(sizes)


def _stack(ax: Axes, x: float, layers: nn.ModuleList, sublayers: dict[str, str]) -> float:
    """Draw the first of the layers, its sub-layers in words by name; returns the height of its upper edge."""
    for number, (name, words) in enumerate(sublayers.items()):
        y = _BOTTOM + number * _STEP
        if number:
            _arrow(ax, (x, y - 0.94), (x, y - _HEIGHT / 2))
        module, connection = getattr(layers[0], name), getattr(layers[0], f"{name}_connection")
        _box(ax, x, y, words, type(module).__name__, _FEED_FORWARD if name == "feed_forward" else _ATTENTION)
        _arrow(ax, (x, y + _HEIGHT / 2), (x, y + 0.64))
        _box(ax, x, y + 1.0, "add, then norm", type(connection).__name__, _NORM)
        around = x + _WIDTH / 2 + _SIDE
        _path(ax, [(x, y - 0.5), (around, y - 0.5), (around, y + 1.0), (x + _WIDTH / 2, y + 1.0)])
    top, corner = y + _STEP - 0.76, (x - _WIDTH / 2 - 0.25, _BOTTOM - 0.66)
    _rounded(ax, corner, _WIDTH + 0.5 + _SIDE, top - corner[1], 0.15, "none", 0)
    ax.text(corner[0] - 0.15, (_BOTTOM + top) / 2, f"{len(layers)} ×", ha="right", va="center", size=style.TEXT + 1)
    for start, end in ((corner[1], _BOTTOM - _HEIGHT / 2), (top - 0.4, top)):
        ax.plot([x, x], [start, end], color=style.INK, linewidth=0.9, zorder=1)
    return top


def _box(ax: Axes, x: float, y: float, words: str, name: str, colour: str, wide: float = 0.0) -> None:
    """A part: what it does, and below it its name in the code."""
    width = _WIDTH + wide
    _rounded(ax, (x - width / 2, y - _HEIGHT / 2), width, _HEIGHT, 0.08, colour, 2)
    _write(ax, x, y + 0.16 * bool(name), words)
    ax.text(x, y - 0.17, name, ha="center", va="center", size=style.SMALL, color=style.BLUE, zorder=3)


def _rounded(ax: Axes, corner: Place, width: float, height: float, radius: float, colour: str, zorder: int) -> None:
    look: dict[str, Any] = {"facecolor": colour, "edgecolor": style.GREY, "linewidth": 0.8, "zorder": zorder}
    ax.add_patch(FancyBboxPatch(corner, width, height, boxstyle=f"round,pad=0,rounding_size={radius}", **look))


def _write(ax: Axes, x: float, y: float, text: str) -> None:
    ax.text(x, y, text, ha="center", va="center", size=style.TEXT, zorder=3)


def _arrow(ax: Axes, start: Place, end: Place, thin: bool = False) -> None:
    look = {"arrowstyle": "-|>", "color": style.INK, "linewidth": 0.5 if thin else 0.9, "shrinkA": 0, "shrinkB": 0}
    ax.annotate("", end, start, arrowprops=look, zorder=1)


def _path(ax: Axes, corners: Sequence[Place]) -> None:
    """A line through the corners, and an arrow at its end."""
    ax.plot(*zip(*corners[:-1], strict=True), color=style.INK, linewidth=0.9, zorder=1)
    _arrow(ax, corners[-2], corners[-1])
