"""The parts and how they are put together: the whole model (figure 1) and multi-head attention (figure 2).

What a box is called in the code is asked of a model, so the pictures have no names that are not there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch
from torch import nn

from dragoman.config import ModelConfig
from dragoman.figures import style
from dragoman.model.layers import DecoderLayer, EncoderLayer
from dragoman.model.transformer import Transformer

_ATTENTION, _FEED_FORWARD, _NORM, _EDGE = "#f7dcc0", "#cfe3f1", "#eeeeee", "#e3efe0"
_WIDTH, _HEIGHT = 3.0, 0.72
_SIDE = 0.42  # how far from a box its way past goes
Place = tuple[float, float]


def transformer(ax: Axes) -> None:
    """Draw the whole model, post-norm, as section 3 describes it."""
    model = _small_model()
    encoder, decoder = cast(EncoderLayer, model.encoder.layers[0]), cast(DecoderLayer, model.decoder.layers[0])
    left, right = 0.0, 5.0
    memory = _stack(ax, left, 2.9, model.config.num_encoder_layers, [
        ("self-attention", encoder.self_attention, encoder.self_attention_connection, _ATTENTION),
        ("feed-forward network", encoder.feed_forward, encoder.feed_forward_connection, _FEED_FORWARD),
    ])  # fmt: skip
    states = _stack(ax, right, 2.9, model.config.num_decoder_layers, [
        ("masked self-attention", decoder.self_attention, decoder.self_attention_connection, _ATTENTION),
        ("cross-attention", decoder.cross_attention, decoder.cross_attention_connection, _ATTENTION),
        ("feed-forward network", decoder.feed_forward, decoder.feed_forward_connection, _FEED_FORWARD),
    ])  # fmt: skip
    for x, embedding, positions, words in (
        (left, model.source_embedding, model.source_positions, "source (B, S)"),
        (right, model.target_embedding, model.target_positions, "target so far, shifted right (B, T)"),
    ):
        ax.text(x, -0.1, words, ha="center", va="center", size=style.TEXT)
        _arrow(ax, (x, 0.1), (x, 0.44))
        _box(ax, (x, 0.8), "embedding × √D", type(embedding).__name__, _EDGE)
        _arrow(ax, (x, 1.16), (x, 1.44))
        _box(ax, (x, 1.8), "plus positions", type(positions).__name__, _EDGE)
        _arrow(ax, (x, 2.16), (x, 2.54))
    cross = 2.9 + 2.3
    _path(ax, [(left, memory), (left, memory + 0.5), (2.45, memory + 0.5), (2.45, cross), (right - _WIDTH / 2, cross)])
    ax.text(left + 0.15, memory + 0.28, "memory (B, S, D)", ha="left", va="center", size=style.SMALL)
    _arrow(ax, (right, states), (right, states + 0.44))
    _box(ax, (right, states + 0.8), "to the vocabulary", type(model.softmax).__name__, _EDGE)
    _arrow(ax, (right, states + 1.16), (right, states + 1.64))
    ax.text(right + 0.15, states + 1.38, "logits (B, T, V)", ha="left", va="center", size=style.SMALL)
    _box(ax, (right, states + 2.0), "softmax, by loss or search", "", _EDGE)
    _arrow(ax, (right, states + 2.36), (right, states + 2.7))
    ax.text(right, states + 2.9, "probabilities of the next word", ha="center", va="center", size=style.TEXT)
    ax.set(xlim=(left - 2.9, right + 2.5), ylim=(-0.4, states + 3.15), aspect="equal")
    ax.set_axis_off()


def multi_head(ax: Axes, num_heads: int = 3) -> None:
    """Draw multi-head attention: so many heads, each with projections of its own."""
    attention = cast(EncoderLayer, _small_model().encoder.layers[0]).self_attention
    centre, gap = 0.0, 3.6
    places = [centre + gap * (number - (num_heads - 1) / 2) for number in range(num_heads)]
    for name, x in zip(("queries", "keys", "values"), (centre - gap, centre, centre + gap), strict=True):
        ax.text(x, -0.1, f"{name} (B, ·, D)", ha="center", va="center", size=style.TEXT)
        _arrow(ax, (x, 0.1), (x, 0.44))
        layer = {"queries": attention.query, "keys": attention.key, "values": attention.value}[name]
        _box(ax, (x, 0.8), f"projection of {name}", type(layer).__name__, _EDGE)
        for place in places:
            _arrow(ax, (x, 1.16), (place + 0.5 * (x - centre) / gap, 2.44), thin=True)
    for number, place in enumerate(places, start=1):
        _box(ax, (place, 2.8), f"attention, head {number}", "scaled_dot_product_attention", _ATTENTION, wide=0.3)
        _arrow(ax, (place, 3.16), (centre + 0.25 * (place - centre), 3.94), thin=True)
    _box(ax, (centre, 4.3), "side by side (B, ·, H · K)", "", _NORM)
    _arrow(ax, (centre, 4.66), (centre, 4.94))
    _box(ax, (centre, 5.3), "projection of the output", type(attention.output).__name__, _EDGE)
    _arrow(ax, (centre, 5.66), (centre, 6.0))
    ax.text(centre, 6.2, "(B, ·, D)", ha="center", va="center", size=style.TEXT)
    ax.set(xlim=(places[0] - 2.0, places[-1] + 2.0), ylim=(-0.4, 6.45), aspect="equal")
    ax.set_axis_off()


def _small_model() -> Transformer:
    """A model of the paper's depth, for its names."""
    sizes = ModelConfig(d_model=8, d_ff=8, num_heads=2, source_vocab_size=8, target_vocab_size=8)
    with torch.random.fork_rng(devices=[]):  # making a model draws random numbers: not the caller's
        return Transformer(sizes)


def _stack(
    ax: Axes, x: float, bottom: float, layers: int, parts: Sequence[tuple[str, nn.Module, nn.Module, str]]
) -> float:
    """Draw one layer of so many alike; returns the height of its upper edge."""
    y = bottom
    for words, module, connection, colour in parts:
        _box(ax, (x, y), words, type(module).__name__, colour)
        _arrow(ax, (x, y + _HEIGHT / 2), (x, y + 0.64))
        _box(ax, (x, y + 1.0), "add, then norm", type(connection).__name__, _NORM)
        around = x + _WIDTH / 2 + _SIDE
        _path(ax, [(x, y - 0.5), (around, y - 0.5), (around, y + 1.0), (x + _WIDTH / 2, y + 1.0)])
        y += 2.3
        if (words, module, connection, colour) != parts[-1]:
            _arrow(ax, (x, y - 0.94), (x, y - _HEIGHT / 2))
    top = y - 0.76
    corner = (x - _WIDTH / 2 - 0.25, bottom - 0.66)
    frame = FancyBboxPatch(corner, _WIDTH + 0.5 + _SIDE, top - bottom + 0.66, boxstyle="round,pad=0,rounding_size=0.15",
                           facecolor="none", edgecolor=style.GREY, linewidth=0.8, zorder=0)  # fmt: skip
    ax.add_patch(frame)
    ax.text(corner[0] - 0.15, (bottom + top) / 2, f"{layers} ×", ha="right", va="center", size=style.TEXT + 1)
    ax.plot([x, x], [bottom - 0.66, bottom - _HEIGHT / 2], color=style.INK, linewidth=0.9, zorder=1)
    ax.plot([x, x], [top - 0.4, top], color=style.INK, linewidth=0.9, zorder=1)
    return top


def _box(ax: Axes, place: Place, words: str, name: str, colour: str, wide: float = 0.0) -> None:
    """A part: what it does, and below what it is called in the code."""
    width = _WIDTH + wide
    corner = (place[0] - width / 2, place[1] - _HEIGHT / 2)
    ax.add_patch(FancyBboxPatch(corner, width, _HEIGHT, boxstyle="round,pad=0,rounding_size=0.08",
                                facecolor=colour, edgecolor=style.GREY, linewidth=0.8, zorder=2))  # fmt: skip
    ax.text(place[0], place[1] + 0.16 * bool(name), words, ha="center", va="center", size=style.TEXT, zorder=3)
    ax.text(place[0], place[1] - 0.17, name, ha="center", va="center", size=style.SMALL, color=style.BLUE, zorder=3)


def _arrow(ax: Axes, start: Place, end: Place, thin: bool = False) -> None:
    look = {"arrowstyle": "-|>", "color": style.INK, "linewidth": 0.5 if thin else 0.9, "shrinkA": 0, "shrinkB": 0}
    ax.annotate("", end, start, arrowprops=look, zorder=1)


def _path(ax: Axes, corners: Sequence[Place]) -> None:
    """A line with corners, and an arrow at its end."""
    xs, ys = zip(*corners[:-1], strict=True)
    ax.plot(xs, ys, color=style.INK, linewidth=0.9, zorder=1)
    _arrow(ax, corners[-2], corners[-1])
