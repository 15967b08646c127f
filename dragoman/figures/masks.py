"""Who may attend to whom: the masks of dragoman.model.masks, cell by cell.

Dark and plain is what may be attended to; pale and hatched is hidden.
Shapes: B batch, T query length, S key length.
"""

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from torch import Tensor

from dragoman.figures import style
from dragoman.model.attention import scaled_dot_product_attention
from dragoman.model.masks import causal_mask, padding_mask

IDS = torch.tensor([[1, 2, 3, 4, 5, 0, 0], [1, 2, 0, 0, 0, 0, 0], [1, 2, 3, 4, 5, 6, 7]])
"""Token ids of three sentences (B, S), padded with 0 to the same length."""
SENTENCE = "动物没有穿过街道因为它很累"
"""The animal didn't cross the street because it was tired."""
READINGS = ["dòng", "wù", "méi", "yǒu", "chuān", "guò", "jiē", "dào", "yīn", "wèi", "tā", "hěn", "lèi"]
"""How its characters are pronounced; drawn in their place where no font has them."""
SCORES = torch.tensor([[1.0, 2.0, 0.0, 3.0], [0.0, 1.0, 2.0, 1.0], [2.0, 0.0, 1.0, 4.0], [1.0, 1.0, 0.0, 2.0]])
"""QKᵀ/√d_k of four positions (T, S), some of the future greater than all of the past."""

_LEGEND = (
    Patch(facecolor=style.BLUE, label="may attend"),
    Patch(facecolor=style.PALE, edgecolor="#a8a8a8", lw=0.5, hatch="////", label="hidden"),
)


@style.picture("padding-mask", 5.2, 1.7)
def padding_grid(figure: Figure) -> None:
    """Padding mask

    Sentences of different lengths are padded with 0 to make one batch. No query may attend to a padded key, so one row
    serves the whole sentence.
    """
    ax = figure.subplots()
    _mask_cells(ax, padding_mask(IDS, 0)[:, 0, 0], [[str(token) for token in row] for row in IDS.tolist()])
    style.write_ticks(ax, range(IDS.size(1)), [f"sentence {number}" for number in range(1, len(IDS) + 1)])
    ax.set_xlabel("position of the key")
    ax.legend(handles=_LEGEND, **style.BESIDE)


@style.picture("causal-mask", 4.4, 3.0)
def causal_grid(figure: Figure) -> None:
    """Causal mask

    A row is a position that looks. It sees itself and what is left of it, never what comes later: in training all
    positions are predicted at once, and none may look up its own answer.
    """
    ax, length = figure.subplots(), 7
    _mask_cells(ax, causal_mask(length)[0, 0])
    style.write_ticks(ax, range(length), range(length))
    ax.set(xlabel="position of the key", ylabel="position of the query")
    ax.legend(handles=_LEGEND, **style.BESIDE)


@style.picture("target-mask", style.FULL_WIDTH, 2.5)
def target_grids(figure: Figure) -> None:
    """Both masks together

    A key is visible where both masks allow it. Compare with the causal mask alone: only the rows of padding (0)
    differ, and nobody reads those.
    """
    axes = figure.subplots(1, len(IDS))
    masks = (padding_mask(IDS, 0) & causal_mask(IDS.size(1)))[:, 0]  # (B, T, T)
    for number, (ax, mask, ids) in enumerate(zip(axes, masks, IDS.tolist(), strict=True), start=1):
        _mask_cells(ax, mask)
        style.write_ticks(ax, ids, ids)
        ax.set(title=f"sentence {number}", xlabel="key (token id)")
    axes[0].set_ylabel("query (token id)")
    axes[-1].legend(handles=_LEGEND, **style.BESIDE)


@style.picture("mask-blocks", style.FULL_WIDTH, 3.6)
def mask_blocks(figure: Figure) -> None:
    """One mask for all heads

    On the left, each sentence has its own padding mask, repeated for every query and head. On the right, the causal
    mask is the same everywhere.
    """
    length, heads = IDS.size(1), 3
    masks = {"padding mask": padding_mask(IDS, 0), "causal mask": causal_mask(length)}
    halves = figure.subfigures(1, 2, squeeze=False, wspace=0.04)[0]
    for part, (title, mask) in zip(halves, masks.items(), strict=True):
        part.suptitle(title, x=0.02, ha="left", weight="bold", size=style.TEXT + 1)
        for (sentence, head), ax in np.ndenumerate(part.subplots(len(IDS), heads)):
            _mask_cells(ax, mask.expand(len(IDS), heads, length, length)[sentence, head])
            ax.set(xticks=[], yticks=[])
            if sentence == 0:
                ax.set_title(f"head {head + 1}", loc="center", weight="normal", size=style.TEXT)
            if head == 0:
                ax.set_ylabel(f"sentence {sentence + 1}", size=style.SMALL)
    figure.legend(handles=_LEGEND, loc="outside lower center", ncols=2)


@style.picture("masked-weights", style.FULL_WIDTH, 2.9)
def masked_weights(figure: Figure) -> None:
    """What a mask does to the numbers

    Scores of the future become −∞ (in Dragoman: the lowest number) before the softmax. exp(−∞) is 0, so they get no
    weight, and the rest of each row adds up to 1.
    """
    axes, length = figure.subplots(1, 3), len(SCORES)
    mask = causal_mask(length)
    keys = torch.eye(length)[None, None]  # so that q · k / √d_k are the scores
    _, weights = scaled_dot_product_attention(SCORES[None, None] * length**0.5, keys, keys, mask, need_weights=True)
    assert weights is not None
    visible, scores = mask[0, 0].numpy(), style.as_array(SCORES)
    style.cells(axes[0], scores, style.numbers(scores, 0), bounds=(-5, 5))
    texts = np.where(visible, style.numbers(scores, 0), "−∞").tolist()
    style.cells(axes[1], np.where(visible, scores, 0), texts, bounds=(-5, 5))
    _hatch(axes[1], ~visible)
    style.cells(axes[2], weights[0, 0], style.numbers(weights[0, 0]), style.WEIGHTS, (0, 1))
    for ax, title in zip(axes, ("scores $QK^T/\\sqrt{d_k}$", "masked", "softmax of each row"), strict=True):
        positions = range(1, length + 1)
        style.write_ticks(ax, positions, positions if ax is axes[0] else ())
        ax.set_title(title, parse_math=True)
        ax.set(xlabel="key", aspect="equal")
    axes[0].set_ylabel("query")


@style.picture("decoding-steps", style.FULL_WIDTH, 6.0)
def decoding_steps(figure: Figure) -> None:
    """Decoding, step by step

    “The animal didn’t cross the street because it was tired”, into Chinese. Step t sees the first t tokens: row t of
    the causal mask. The next step also sees what this one finds.
    """
    ax, known = figure.subplots(), style.can_draw(SENTENCE)
    tokens = ["<s>", *(SENTENCE if known else READINGS)]
    heads = [f"{token}\n{reading}" for token, reading in zip(tokens, ["", *READINGS], strict=True)] if known else tokens
    length = len(tokens)
    mask = causal_mask(length)[0, 0]  # row t: what step t sees
    _mask_cells(ax, mask, np.where(mask, tokens, "").tolist(), style.TEXT + 1 if known else style.SMALL)
    style.write_ticks(ax, heads, [f"step {step}" for step in range(1, length + 1)])
    ax.xaxis.tick_top()
    for step, token in enumerate([*tokens[1:], "</s>"]):
        ax.text(length - 0.3, step, f"→ {token}", va="center", size=style.TEXT)
    ax.text(length - 0.3, -0.75, "finds", va="bottom", size=style.SMALL, color=style.GREY)
    ax.legend(handles=_LEGEND, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=2)


def _mask_cells(ax: Axes, mask: Tensor, texts: list[list[str]] | None = None, size: float = style.SMALL) -> None:
    """Draw a mask (T, S)."""
    visible = mask.numpy()
    colours = ListedColormap([style.PALE, style.BLUE])
    style.cells(ax, visible, texts, cmap=colours, bounds=(0.0, 1.0), size=size, border=("white", 0.8))
    _hatch(ax, ~visible)
    ax.set_aspect("equal")


def _hatch(ax: Axes, hidden: np.ndarray) -> None:
    """Hatch the hidden cells, for readers who see no colour."""
    cells = [Rectangle((column - 0.45, row - 0.45), 0.9, 0.9) for row, column in np.argwhere(hidden)]
    ax.add_collection(PatchCollection(cells, facecolor="none", edgecolor="#c4c4c4", lw=0, hatch="////", zorder=1))
