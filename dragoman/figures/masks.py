"""Who may attend to whom: the masks of dragoman.model.masks, cell by cell.

Dark and plain is what may be attended to; pale and hatched is hidden.
Shapes: B batch, H heads, T query length, S key length.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.colors import ListedColormap
from matplotlib.patches import Patch, Rectangle
from torch import Tensor

from dragoman.figures import style
from dragoman.model.attention import scaled_dot_product_attention
from dragoman.model.masks import causal_mask, padding_mask

SENTENCES = ((1, 2, 3, 4, 5, 0, 0), (1, 2, 0, 0, 0, 0, 0), (1, 2, 3, 4, 5, 6, 7))
"""Token ids of three sentences, padded with 0 to the same length."""
SENTENCE = "动物没有穿过街道因为它很累"
"""The animal didn't cross the street because it was tired."""
READINGS = ["dòng", "wù", "méi", "yǒu", "chuān", "guò", "jiē", "dào", "yīn", "wèi", "tā", "hěn", "lèi"]
"""How its characters sound: what stands in for them where no font has them."""

SCORES = ((1.0, 2.0, 0.0, 3.0), (0.0, 1.0, 2.0, 1.0), (2.0, 0.0, 1.0, 4.0), (1.0, 1.0, 0.0, 2.0))
"""QKᵀ/√d_k of four positions, some of the future greater than all of the past."""

_VISIBLE, _HIDDEN, _HATCH = style.BLUE, style.PALE, "////"
_COLOURS = ListedColormap([_HIDDEN, _VISIBLE])


def mask_cells(
    ax: Axes,
    mask: Tensor,
    texts: Sequence[Sequence[str]] | None = None,
    legend: bool = True,
    size: float = style.SMALL,
) -> None:
    """Draw any mask.

    Args:
        ax: where to draw.
        mask: bool (T, S), True = may attend.
        texts: what to write into the cells, (T, S).
        legend: say, beside the cells, what the two kinds of cell mean.
        size: of the letters, in points.
    """
    visible = mask.cpu().numpy()
    style.cells(ax, visible, texts, cmap=_COLOURS, bounds=(0.0, 1.0), size=size, border=("white", 0.8))
    _hatch(ax, ~visible)
    ax.set_aspect("equal")
    if legend:
        ax.legend(
            handles=legend_handles(), loc="upper left", bbox_to_anchor=(1.02, 1.02), borderaxespad=0.0, handlelength=1.4
        )


def _hatch(ax: Axes, hidden: style.Array) -> None:
    """Mark the cells that are hidden."""
    cells = [Rectangle((column - 0.45, row - 0.45), 0.9, 0.9) for row, column in np.argwhere(hidden)]
    ax.add_collection(PatchCollection(cells, facecolor="none", edgecolor="#c4c4c4", lw=0, hatch=_HATCH, zorder=1))


def legend_handles() -> list[Patch]:
    """For a legend: what may be attended to and what is hidden."""
    return [
        Patch(facecolor=_VISIBLE, label="may attend"),
        Patch(facecolor=_HIDDEN, edgecolor="#a8a8a8", lw=0.5, hatch=_HATCH, label="hidden"),
    ]


def padding_grid(ax: Axes, ids: Sequence[Sequence[int]] = SENTENCES, pad: int = 0) -> None:
    """The padding mask of a batch: one row a sentence, its token ids in the cells.

    Args:
        ax: where to draw.
        ids: token ids (B, S).
        pad: the id that pads.
    """
    tokens = torch.tensor([list(row) for row in ids])
    mask = padding_mask(tokens, pad)[:, 0, 0]  # (B, S)
    mask_cells(ax, mask, [[str(token) for token in row] for row in ids])
    style.write_ticks(ax, "x", [str(position) for position in range(tokens.size(1))])
    style.write_ticks(ax, "y", [f"sentence {number}" for number in range(1, len(ids) + 1)])
    ax.set_xlabel("position of the key")


def causal_grid(ax: Axes, length: int = 7) -> None:
    """The causal mask (section 3.2.3): position i sees the positions j ≤ i."""
    mask_cells(ax, causal_mask(length)[0, 0])
    positions = [str(position) for position in range(length)]
    style.write_ticks(ax, "x", positions)
    style.write_ticks(ax, "y", positions)
    ax.set_xlabel("position of the key")
    ax.set_ylabel("position of the query")


def target_grids(axes: Sequence[Axes], ids: Sequence[Sequence[int]] = SENTENCES, pad: int = 0) -> None:
    """Both masks together, sentence by sentence: neither the future nor padding is visible.

    Args:
        axes: one for each sentence.
        ids: token ids (B, T), written along both sides.
        pad: the id that pads.
    """
    tokens = torch.tensor([list(row) for row in ids])
    masks = (padding_mask(tokens, pad) & causal_mask(tokens.size(1)))[:, 0]  # (B, T, T)
    for number, (ax, mask, row) in enumerate(zip(axes, masks, ids, strict=True)):
        mask_cells(ax, mask, legend=number == len(ids) - 1)
        labels = [str(token) for token in row]
        style.write_ticks(ax, "x", labels)
        style.write_ticks(ax, "y", labels)
        ax.set_title(f"sentence {number + 1}")
        ax.set_xlabel("key (token id)")
    axes[0].set_ylabel("query (token id)")


def mask_block(axes: Sequence[Sequence[Axes]], mask: Tensor) -> None:
    """How one mask serves a whole batch and every head: its B × H masks, as broadcasting makes them.

    Args:
        axes: (B, H).
        mask: bool (T, T), with or without B and H before it; what it lacks, or has only once, is repeated.
    """
    length = mask.size(-1)
    every = mask.expand(len(axes), len(axes[0]), length, length)  # (B, H, T, S)
    for i, row in enumerate(axes):
        for j, ax in enumerate(row):
            mask_cells(ax, every[i, j], legend=False)
            ax.set(xticks=[], yticks=[])
            if i == 0:
                ax.set_title(f"head {j + 1}", loc="center", weight="normal", size=style.TEXT)
        row[0].set_ylabel(f"sentence {i + 1}", size=style.SMALL)


def masked_weights(axes: Sequence[Axes], scores: Sequence[Sequence[float]] = SCORES) -> None:
    """What a mask does to the numbers: the scores, −∞ in place of those of the future, and the softmax of the rows.

    Args:
        axes: three.
        scores: QKᵀ/√d_k, (T, T).
    """
    before = torch.tensor([list(row) for row in scores])
    length = len(before)
    mask = causal_mask(length)
    queries = before[None, None] * length**0.5
    keys = torch.eye(length)[None, None]  # so that q · k / √d_k are the scores
    _, weights = scaled_dot_product_attention(queries, keys, keys, mask, need_weights=True)
    assert weights is not None
    kept = mask[0, 0].numpy()
    drawn = style.as_array(before)
    hidden = [[text if see else "−∞" for text, see in zip(*row, strict=True)]
              for row in zip(style.numbers(drawn, 0), kept, strict=True)]  # fmt: skip
    style.cells(axes[0], drawn, style.numbers(drawn, 0), bounds=(-5, 5))
    style.cells(axes[1], np.where(kept, drawn, 0), hidden, bounds=(-5, 5))
    _hatch(axes[1], ~kept)
    shares = style.as_array(weights[0, 0])
    style.cells(axes[2], shares, style.numbers(shares), style.WEIGHTS, (0, 1))
    titles = ("scores $QK^T/\\sqrt{d_k}$", "masked", "softmax of each row")
    for number, (ax, title) in enumerate(zip(axes, titles, strict=True)):
        style.write_ticks(ax, "x", [str(key + 1) for key in range(length)])
        style.write_ticks(ax, "y", [str(query + 1) for query in range(length)] if number == 0 else [""] * length)
        ax.set(title=title, xlabel="key", aspect="equal")
    axes[0].set_ylabel("query")


def decoding_steps(ax: Axes, target: str | Sequence[str] = SENTENCE, readings: Sequence[str] = READINGS) -> None:
    """Decoding, step by step: what each step sees of the target so far, and what it must find next.

    Args:
        ax: where to draw.
        target: the target's tokens, without the `<s>` before and the `</s>` after them.
        readings: how each token sounds, written under it; alone where no font of this machine has the tokens.
    """
    known = style.can_write("".join(target))
    tokens = ["<s>", *(target if known else readings)]
    heads = [f"{token}\n{reading}" for token, reading in zip(tokens, ["", *readings], strict=True)] if known else tokens
    length = len(tokens)
    mask = causal_mask(length)[0, 0]  # row t: what step t sees
    seen = [[tokens[j] if mask[i, j] else "" for j in range(length)] for i in range(length)]
    mask_cells(ax, mask, seen, legend=False, size=style.TEXT + 1 if known else style.SMALL)
    style.write_ticks(ax, "x", heads)
    ax.xaxis.tick_top()
    style.write_ticks(ax, "y", [f"step {step}" for step in range(1, length + 1)])
    texts, families = style.lettering([*tokens[1:], "</s>"])
    for step, text in enumerate(texts):
        ax.text(length - 0.3, step, f"→ {text}", va="center", size=style.TEXT, family=families, parse_math=False)
    ax.text(length - 0.3, -0.75, "finds", va="bottom", size=style.SMALL, color=style.GREY)
    ax.legend(handles=legend_handles(), loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=2, handlelength=1.4)
