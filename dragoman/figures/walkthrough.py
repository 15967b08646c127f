"""Attention in six steps (section 3.2.1), with numbers that a reader can follow with a pencil.

Shapes: S length, D d_model, K d_k.
"""

import math
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from dragoman.figures import style
from dragoman.model.attention import MultiHeadAttention, scaled_dot_product_attention

WORDS = ("Thinking", "Machines")
EMBEDDED = torch.tensor([[1.0, 1.0, 1.0, 1.0], [1.0, 0.0, 2.0, 1.0]])
"""Vectors of the words, (S, D), in numbers small enough for mental arithmetic."""
PROJECTIONS = (
    ((1, 1, -1, 1), (-1, -1, 0, -1), (0, 1, -1, -1), (0, 1, 0, 1)),
    ((1, 1, 0, 0), (1, -1, -1, -1), (-1, 1, 1, 1), (1, -1, -1, -1)),
    ((0, 1, -1, 1), (1, 1, 0, 0), (1, 1, -1, 1), (1, 1, 0, 0)),
)
"""W^Q, W^K and W^V; each row makes one number of the vector, (K, D)."""

_ROWS = {
    "x": (0.9, "", "its vector"),
    "q": (7.5, "", ""),
    "k": (8.6, "1", "query, key and value:\nx times a matrix"),
    "v": (9.7, "", ""),
    "score": (11.1, "2", "query · key"),
    "scaled": (12.2, "3", "÷ $\\sqrt{d_k}$"),
    "weight": (13.3, "4", "softmax"),
    "weighted": (14.5, "5", "weight × value"),
    "output": (16.4, "6", "sum"),
}
"""Rows of the picture: height, downwards; number and name of the step."""
_WORD, _MATRIX = 0.0, 3.0  # heights of what has no step
_Y = {name: row[0] for name, row in _ROWS.items()}


def attention_steps() -> dict[str, Tensor]:
    """Everything that one head with PROJECTIONS computes for the first of the vectors EMBEDDED.

    Returns:
        By row of the picture: the vectors "x", "q", "k", "v" of every word (S, ·); the "score", the "scaled" score and
        the "weight" of every key (S,); the "weighted" values (S, K) and their sum, the "output" (K,).
    """
    with torch.random.fork_rng(devices=[]), torch.no_grad():  # a new layer draws random numbers: not the caller's
        attention = MultiHeadAttention(EMBEDDED.size(1), num_heads=1)
        for layer, weight in zip((attention.query, attention.key, attention.value), PROJECTIONS, strict=True):
            layer.weight.copy_(torch.tensor(weight))
            layer.bias.zero_()
        keys, values = attention.project(EMBEDDED[None], EMBEDDED[None])  # (1, 1, S, K)
        queries = attention.query(EMBEDDED)[None, None]  # (1, 1, S, K)
        output, weights = scaled_dot_product_attention(queries, keys, values, need_weights=True)
    assert weights is not None
    steps = {"x": EMBEDDED, "q": queries[0, 0], "k": keys[0, 0], "v": values[0, 0], "weight": weights[0, 0, 0]}
    score = steps["k"] @ steps["q"][0]
    weighted = steps["weight"][:, None] * steps["v"]
    return steps | {
        "score": score,
        "scaled": score / math.sqrt(keys.size(-1)),
        "weighted": weighted,
        "output": output[0, 0, 0],
    }


@style.picture("attention-in-six-steps", style.FULL_WIDTH, 7.5)
def attention_walkthrough(figure: Figure) -> None:
    """Attention in six steps

    How the first word gathers what it needs: its query meets every key, the scores become weights, and the weights mix
    the values. Every number follows from those above it: q₁ is x₁ times W^Q, and so on.
    """
    ax, steps = figure.subplots(), attention_steps()
    width = EMBEDDED.size(1)
    lefts = (0.0, width + 2.2)
    middle, right = sum(lefts) / 2, lefts[1] + width
    for y, number, label in _ROWS.values():
        ax.text(-5.4, y, number, va="center", size=style.TEXT + 3, weight="bold", color=style.BLUE)
        ax.text(-4.7, y, label, va="center", size=style.TEXT, parse_math=True)
    for place, (name, matrix) in enumerate(zip("QKV", PROJECTIONS, strict=True), start=-1):
        left = middle + place * (width + 0.9)
        # Transposed, so that the first column makes the first number of a vector.
        _numbers(ax, torch.tensor(matrix).T, left, _MATRIX)
        _centred(ax, left, _MATRIX - 0.95, f"$W^{name}$", parse_math=True)
    for place, (word, left) in enumerate(zip(WORDS, lefts, strict=True)):
        _word_column(ax, steps, place, word, left)
    _strip(ax, steps["output"], middle, "output", "z₁")
    for left in lefts:
        start, end = (left + (width - 1) / 2, _Y["weighted"] + 0.55), (middle + (width - 1) / 2, _Y["output"] - 0.55)
        ax.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": style.GREY, "lw": 1.0})
    ax.set(xlim=(-5.6, right + 1.7), ylim=(_Y["output"] + 0.7, -0.7))
    ax.set_axis_off()


def _word_column(ax: Axes, steps: dict[str, Tensor], number: int, word: str, left: float) -> None:
    """The column of one word: its vectors, and what the first word's query makes of them."""
    index = "₁₂"[number]
    score, scaled, weight = (_plain(float(steps[row][number])) for row in ("score", "scaled", "weight"))
    _centred(ax, left, _WORD, word, weight="bold", size=style.TEXT + 1)
    for row in "xqkv":
        _strip(ax, steps[row][number], left, row, f"{row}{index}")
    _centred(ax, left, _Y["score"], f"q₁ · k{index} = {score}")
    _centred(ax, left, _Y["scaled"], f"{score} ÷ {math.sqrt(steps['k'].size(1)):g} = {scaled}")
    _centred(ax, left, _Y["weight"], f"exp({scaled}) ÷ Σ exp = {weight}")
    _strip(ax, steps["weighted"][number], left, "weighted", f"{weight} v{index}")


def _strip(ax: Axes, vector: Tensor, left: float, row: str, name: str) -> None:
    _numbers(ax, vector[None], left, _Y[row])
    ax.text(left - 0.65, _Y[row], name, ha="right", va="center", size=style.TEXT, style="italic")


def _numbers(ax: Axes, values: Tensor, left: float, top: float) -> None:
    texts = [[_plain(value) for value in row] for row in values.tolist()]
    style.cells(ax, values, texts, bounds=(-3, 3), origin=(left, top))


def _centred(ax: Axes, left: float, y: float, text: str, **look: Any) -> None:
    """Write above or between the cells that start at left."""
    ax.text(left + (EMBEDDED.size(1) - 1) / 2, y, text, ha="center", va="center", **({"size": style.TEXT} | look))


def _plain(value: float) -> str:
    return f"{round(value, 2) + 0.0:g}".replace("-", "−")
