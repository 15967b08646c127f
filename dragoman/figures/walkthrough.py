"""Attention in six steps (section 3.2.1), with numbers one can follow with a pencil.

Shapes: S length, D d_model, K d_k.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from matplotlib.axes import Axes
from torch import Tensor

from dragoman.figures import style
from dragoman.model.attention import MultiHeadAttention, scaled_dot_product_attention

WORDS = ("Thinking", "Machines")
"""The sentence."""
EMBEDDED = ((1.0, 1.0, 1.0, 1.0), (1.0, 0.0, 2.0, 1.0))
"""Its vectors, (S, D), in numbers small enough for mental arithmetic."""
PROJECTIONS = (
    ((1, 1, -1, 1), (-1, -1, 0, -1), (0, 1, -1, -1), (0, 1, 0, 1)),
    ((1, 1, 0, 0), (1, -1, -1, -1), (-1, 1, 1, 1), (1, -1, -1, -1)),
    ((0, 1, -1, 1), (1, 1, 0, 0), (1, 1, -1, 1), (1, 1, 0, 0)),
)
"""W^Q, W^K and W^V; each row makes one number of the vector, (K, D)."""


@dataclass(frozen=True)
class AttentionSteps:
    """Everything that one head computes for one query."""

    embedded: Tensor
    """The words' vectors, (S, D)."""
    projections: tuple[Tensor, Tensor, Tensor]
    """W^Q, W^K and W^V, (D, K) each; a query is x W^Q, and so on."""
    queries: Tensor
    """Step 1: (S, K)."""
    keys: Tensor
    """Step 1: (S, K)."""
    values: Tensor
    """Step 1: (S, K)."""
    scores: Tensor
    """Step 2: the query's dot product with every key, (S,)."""
    scaled: Tensor
    """Step 3: the scores divided by √d_k, (S,)."""
    weights: Tensor
    """Step 4: their softmax, (S,)."""
    weighted: Tensor
    """Step 5: each value times its weight, (S, K)."""
    output: Tensor
    """Step 6: the sum, (K,)."""


def attention_steps(attention: MultiHeadAttention, embedded: Tensor, position: int = 0) -> AttentionSteps:
    """Take self-attention apart.

    Args:
        attention: with one head.
        embedded: the words' vectors, (S, D).
        position: whose query it is.
    """
    with torch.no_grad():
        keys, values = attention.project(embedded[None], embedded[None])  # (1, 1, S, K)
        queries = attention.query(embedded)[None, None]  # (1, 1, S, K)
        query = queries[:, :, position : position + 1]
        output, weights = scaled_dot_product_attention(query, keys, values, need_weights=True)
        assert weights is not None
        scores = (query * keys).sum(dim=-1)[0, 0]  # (S,)
        return AttentionSteps(
            embedded=embedded,
            projections=(attention.query.weight.T, attention.key.weight.T, attention.value.weight.T),
            queries=queries[0, 0],
            keys=keys[0, 0],
            values=values[0, 0],
            scores=scores,
            scaled=scores / math.sqrt(keys.size(-1)),
            weights=weights[0, 0, 0],
            weighted=weights[0, 0, 0][:, None] * values[0, 0],
            output=output[0, 0, 0],
        )


def small_example() -> AttentionSteps:
    """Attention among EMBEDDED, through PROJECTIONS: d_model = d_k = 4, and whole numbers up to the scores."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():  # making a layer draws random numbers: not the caller's
        attention = MultiHeadAttention(len(EMBEDDED[0]), num_heads=1)
        layers = (attention.query, attention.key, attention.value)
        for layer, weight in zip(layers, PROJECTIONS, strict=True):
            layer.weight.copy_(torch.tensor(weight))
            layer.bias.zero_()
        return attention_steps(attention, torch.tensor(EMBEDDED))


def attention_walkthrough(ax: Axes, steps: AttentionSteps | None = None, words: Sequence[str] = WORDS) -> None:
    """Draw the six steps from the words' vectors to the output of the first word.

    Args:
        ax: where to draw; its own ticks and borders disappear.
        steps: what to draw, small_example() by default.
        words: as many as steps has.
    """
    steps = small_example() if steps is None else steps
    width = max(steps.embedded.size(1), steps.keys.size(1))
    lefts = [column * (width + 2.2) for column in range(len(words))]
    right = lefts[-1] + width
    _headings(ax, words, lefts, width)
    _projections(ax, steps, (lefts[0] + right - 1) / 2)
    _vectors(ax, steps, lefts)
    _scalars(ax, steps, lefts, width)
    _sum(ax, steps, lefts, width)
    ax.set(xlim=(-5.6, right + 1.7), ylim=(_Y["output"] + 0.7, -0.7))
    ax.set_axis_off()


_Y = {
    "word": 0.0,
    "x": 0.9,
    "W": 3.0,
    "q": 7.5,
    "k": 8.6,
    "v": 9.7,
    "score": 11.1,
    "scaled": 12.2,
    "weight": 13.3,
    "weighted": 14.5,
    "output": 16.4,
}
"""Height of each row of the picture, downwards."""


def _headings(ax: Axes, words: Sequence[str], lefts: Sequence[float], width: int) -> None:
    for word, left in zip(words, lefts, strict=True):
        ax.text(left + (width - 1) / 2, _Y["word"], word, ha="center", va="center", weight="bold", size=style.TEXT + 1)
    sayings = {
        "x": ("", "its vector"),
        "k": ("1", "query, key and value:\nx times a matrix"),
        "score": ("2", "query · key"),
        "scaled": ("3", "÷ $\\sqrt{d_k}$"),
        "weight": ("4", "softmax"),
        "weighted": ("5", "weight × value"),
        "output": ("6", "sum"),
    }
    for row, (number, saying) in sayings.items():
        ax.text(-5.4, _Y[row], number, va="center", size=style.TEXT + 3, weight="bold", color=style.BLUE)
        ax.text(-4.7, _Y[row], saying, va="center", size=style.TEXT)


def _projections(ax: Axes, steps: AttentionSteps, middle: float) -> None:
    """The three matrices side by side; what makes a vector's first number is the first column of its matrix."""
    width = steps.keys.size(1) + 0.9
    for number, (name, matrix) in enumerate(zip(("Q", "K", "V"), steps.projections, strict=True)):
        left = middle - (width - 1.9) / 2 + (number - 1) * width
        texts = [[_plain(value) for value in row] for row in matrix.tolist()]
        style.cells(ax, style.as_array(matrix), texts, bounds=(-3, 3), origin=(left, _Y["W"]))
        centre = left + (matrix.size(1) - 1) / 2
        ax.text(centre, _Y["W"] - 0.95, f"$W^{name}$", ha="center", va="center", size=style.TEXT)


def _vectors(ax: Axes, steps: AttentionSteps, lefts: Sequence[float]) -> None:
    tables = {"x": steps.embedded, "q": steps.queries, "k": steps.keys, "v": steps.values}
    for row, table in tables.items():
        for number, (vector, left) in enumerate(zip(table, lefts, strict=True)):
            _strip(ax, vector, left, _Y[row], f"{row}{_subscript(number + 1)}")


def _strip(ax: Axes, vector: Tensor, left: float, y: float, name: str) -> None:
    values = style.as_array(vector)[None]
    style.cells(ax, values, [[_plain(value) for value in vector.tolist()]], bounds=(-3, 3), origin=(left, y))
    ax.text(left - 0.65, y, name, ha="right", va="center", size=style.TEXT, style="italic")


def _scalars(ax: Axes, steps: AttentionSteps, lefts: Sequence[float], width: int) -> None:
    root = math.sqrt(steps.keys.size(-1))
    rows = zip(lefts, steps.scores.tolist(), steps.scaled.tolist(), steps.weights.tolist(), strict=True)
    for number, (left, score, scaled, weight) in enumerate(rows):
        index, middle = _subscript(number + 1), left + (width - 1) / 2
        lines = {
            "score": f"q₁ · k{index} = {_plain(score)}",
            "scaled": f"{_plain(score)} ÷ {root:.3g} = {_plain(scaled)}",
            "weight": f"exp({_plain(scaled)}) ÷ Σ exp = {_plain(weight)}",
        }
        for row, text in lines.items():
            ax.text(middle, _Y[row], text, ha="center", va="center", size=style.TEXT)
        _strip(ax, steps.weighted[number], left, _Y["weighted"], f"{_plain(weight)} v{index}")


def _sum(ax: Axes, steps: AttentionSteps, lefts: Sequence[float], width: int) -> None:
    left = (lefts[0] + lefts[-1]) / 2
    _strip(ax, steps.output, left, _Y["output"], "z₁")
    for start in lefts:
        ax.annotate(
            "",
            xy=(left + (width - 1) / 2, _Y["output"] - 0.55),
            xytext=(start + (width - 1) / 2, _Y["weighted"] + 0.55),
            arrowprops={"arrowstyle": "-|>", "color": style.GREY, "lw": 1.0},
        )


def _plain(value: float) -> str:
    return f"{round(value, 2) + 0.0:g}".replace("-", "−")


def _subscript(number: int) -> str:
    return str(number).translate(str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉"))
