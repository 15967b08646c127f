"""All pictures in one table, and how to write them into a folder."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from matplotlib.figure import Figure

from dragoman.config import DragomanError
from dragoman.figures import attention, masks, normalization, parts, positions, style, training, walkthrough
from dragoman.inspection.record import Inspection
from dragoman.runtime.files import make_folder, write_atomically

FORMATS = ("png", "svg")


@dataclass(frozen=True)
class Picture:
    """One picture of the gallery."""

    title: str
    draw: Callable[[], Figure]
    """Return a new figure."""
    caption: str
    """One to three sentences: what there is to see."""


GALLERY: dict[str, Picture] = {
    "transformer": Picture(
        "The whole model",
        parts.transformer,
        "Figure 1 of the paper, with the names that the parts have in the code. The encoder reads the source once; the "
        "decoder reads what is written so far and, by cross-attention (“encoder-decoder attention” in the paper), the "
        "encoder’s memory.",
    ),
    "multi-head-attention": Picture(
        "Multi-head attention",
        parts.multi_head_attention,
        "The right half of the paper’s figure 2, with three heads. Each head has its own part of the three projections "
        "and attends by itself; their outputs, side by side, are projected once more.",
    ),
    "padding-mask": Picture(
        "Padding mask",
        masks.padding_grid,
        "Sentences of different lengths are padded with 0 to make one batch. No query may attend to a padded key, "
        "whatever its own position, so one row serves the whole sentence.",
    ),
    "causal-mask": Picture(
        "Causal mask",
        masks.causal_grid,
        "A target position attends to itself and to what stands before it, never to what comes after: in training all "
        "positions are predicted at once, and none may look up its own answer.",
    ),
    "target-mask": Picture(
        "Both masks together",
        masks.target_grids,
        "A key is visible where both masks let it through. Compare with the causal mask alone: only the rows of "
        "padding differ. With the padding on the right, the rows of real tokens need no padding mask.",
    ),
    "mask-blocks": Picture(
        "One mask for all heads",
        masks.mask_blocks,
        "Broadcasting repeats the padding mask for every query and every head, but each sentence keeps its own. The "
        "causal mask is the same for every sentence as well.",
    ),
    "masked-weights": Picture(
        "What a mask does to the numbers",
        masks.masked_weights,
        "Scores of the future become −∞ before the softmax. exp(−∞) is 0, so they get no weight at all, and the "
        "rest of each row adds up to 1 again.",
    ),
    "decoding-steps": Picture(
        "Decoding, step by step",
        masks.decoding_steps,
        "“The animal didn’t cross the street because it was tired”, into Chinese. Step t sees the first t tokens, "
        "(1, 0, 0, …), (1, 1, 0, …) and so on: row t of the causal mask. What it finds, the next step sees.",
    ),
    "sinusoids-by-dimension": Picture(
        "Sinusoids by dimension",
        positions.waves_by_dimension,
        "Each dimension of the encoding is a wave along the positions. Dimensions come in pairs, a sine (solid) and "
        "its cosine (dashed), and each pair is slower than the one before.",
    ),
    "sinusoids-all-dimensions": Picture(
        "All dimensions, all positions",
        positions.waves_of_all_dimensions,
        "The whole encoding for d_model = 16, oriented as the model sees it: a row for each position, a column for "
        "each dimension. On the left the waves are fast, on the right they hardly start to turn.",
    ),
    "sinusoids-by-position": Picture(
        "Sinusoids by position",
        positions.waves_by_position,
        "The same table read along its rows: every position is a curve of its own over the 128 dimensions, and "
        "neighbouring positions have similar curves.",
    ),
    "encoding-map": Picture(
        "128 positions in 512 dimensions",
        positions.encoding_map,
        "Most of the change is in the first dimensions (A). In the last ones (B) the sines stay close to 0 and the "
        "cosines close to 1, which makes the stripes.",
    ),
    "encoding-table": Picture(
        "The numbers themselves",
        positions.encoding_table,
        "Some entries of the table for d_model = 512, under the function that each column tabulates: dimension 0 is "
        "sin(pos) itself, the last ones have barely moved after five positions.",
    ),
    "embedding-plus-position": Picture(
        "Embedding plus position",
        positions.embedding_with_positions,
        "What enters the first layer is a sum. Thanks to the factor √d_model the embeddings are about as large as the "
        "encodings; without it the positions would drown the words.",
    ),
    "encoding-products": Picture(
        "How far apart are two positions?",
        positions.products,
        "The dot product of two encodings depends only on their distance: in the image each diagonal has one colour, "
        "on the right the curves from four positions are the same curve.",
    ),
    "learning-rate": Picture(
        "Learning rate",
        training.learning_rates,
        "The paper’s rate rises linearly during the warm-up, then falls with the inverse square root of the step. "
        "A wider model takes smaller steps; a longer warm-up only cuts off the peak.",
    ),
    "label-smoothing": Picture(
        "Label smoothing",
        training.label_smoothing,
        "A tenth of the probability asked for is spread evenly over the vocabulary. So the loss is lowest where the "
        "model is nearly, not entirely sure of the right token; at the very right the curves rise again.",
    ),
    "attention-in-six-steps": Picture(
        "Attention in six steps",
        walkthrough.attention_walkthrough,
        "How the first word gathers what it needs: its query meets every key, the scores become weights, and the "
        "weights mix the values. Every number follows from those above it: q₁ is x₁ times W^Q, and so on.",
    ),
    "normalisation": Picture(
        "Batch and layer normalisation",
        normalization.normalisation_tables,
        "Batch normalisation gives each feature mean 0 and deviation 1 over the tokens of the batch; layer "
        "normalisation gives them to each token over its features, so that it does not matter who shares its batch. In "
        "the model a learned factor γ and offset β follow for each feature, at first 1 and 0.",
    ),
    "add-and-norm": Picture(
        "Add and norm",
        normalization.add_and_norm,
        "What stands around every sub-layer: the residual connection adds its input to its output, then each token of "
        "the sum is normalised, here with γ = 1 and β = 0.",
    ),
}
"""The pictures that need no trained model, in the order of a lesson, by the name of their file."""


def gallery(inspection: Inspection | None = None) -> dict[str, Picture]:
    """All pictures in order, by the name of their file; with an inspection also those of a trained translator."""
    if inspection is None:
        return GALLERY
    cross = attention.last_block(inspection, "decoder", "cross_attention")
    return GALLERY | {
        "translator-attention": Picture(
            "A translator’s attention",
            partial(attention.last_layers, inspection),
            "The last layers of a trained translator, averaged over their heads. Rows are queries, in the decoder "
            "what it has just read and what it writes then; columns are keys. The decoder’s self-attention is empty "
            "above the diagonal, where its mask hides the future.",
        ),
        "translator-heads": Picture(
            "Every head of one block",
            partial(attention.block_figure, inspection, cross),
            "The last cross-attention, head by head. A row is what the decoder has just read and what it writes then; "
            "its dark cells are what it looks at in the source to find that.",
        ),
        "translator-overview": Picture(
            "Every head of every layer",
            partial(attention.attention_overview, inspection.maps),
            "All attention maps of one translation. Diagonals follow the order of the words, columns are words that "
            "everyone looks at, triangles are the decoder’s causal mask.",
        ),
    }


def save_gallery(out: Path, suffix: str = "png", dpi: int = 200, inspection: Inspection | None = None) -> list[Path]:
    """Write every picture as NAME.png or NAME.svg and return the files in order; the same call writes the same bytes.

    Args:
        out: the folder; made if need be.
        suffix: "png" or "svg".
        dpi: pixels per inch of a PNG.
        inspection: whose attention to draw; without it the pictures of a translator are left out.

    Raises:
        DragomanError: a file can't be written.
    """
    make_folder(out)
    paths = []
    for name, picture in gallery(inspection).items():
        paths.append(out / f"{name}.{suffix}")
        save_figure(picture.draw(), paths[-1], dpi, picture.title, picture.caption)
    return paths


def save_attention(out: Path, inspection: Inspection) -> list[Path]:
    """Draw every attention block, a PNG each with a map for every head, and one overview; returns the files.

    Args:
        out: the folder; made if need be.
        inspection: what dragoman.inspect returned.

    Raises:
        DragomanError: a file can't be written.
    """
    make_folder(out)
    paths = [out / f"{block}.png" for block in inspection.maps]
    for block, path in zip(inspection.maps, paths, strict=True):
        save_figure(attention.block_figure(inspection, block, attention.block_in_words(block)), path)
    save_figure(attention.attention_overview(inspection.maps), out / "overview.png")
    return [*paths, out / "overview.png"]


def save_figure(figure: Figure, path: Path | str, dpi: int = 200, title: str = "", caption: str = "") -> None:
    """Write one figure as PNG or SVG, whichever the path ends with.

    Args:
        figure: from a function of this package.
        path: the file; its folder exists.
        dpi: pixels per inch of a PNG.
        title: for screen readers; kept in the file.
        caption: the same, in more words.

    Raises:
        DragomanError: the format is unknown, or the file can't be written.
    """
    path = Path(path)
    suffix = path.suffix.removeprefix(".").lower()
    if suffix not in FORMATS:
        raise DragomanError(
            f"{path}: figures are written as {' or '.join(FORMATS)}, not {suffix or 'without a suffix'}"
        )
    # No date and no version, so that equal figures are equal files.
    facts = {"Title": title or None, "Description": caption or None}
    metadata = facts | ({"Date": None, "Creator": None} if suffix == "svg" else {"Software": None})
    content = io.BytesIO()
    with style.styled():
        figure.savefig(content, format=suffix, dpi=dpi, metadata=metadata)
    write_atomically(path, content.getvalue())
