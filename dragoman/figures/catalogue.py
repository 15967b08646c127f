"""The figures that need no trained model, with their captions and sizes, in the order of a lesson."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from matplotlib.figure import Figure

from dragoman.figures import masks, normalization, parts, positions, style, training, walkthrough
from dragoman.model.masks import causal_mask, padding_mask


@dataclass(frozen=True)
class GalleryFigure:
    """One figure of the gallery."""

    title: str
    """A few words."""
    caption: str
    """One or two sentences: what there is to see."""
    draw: Callable[[Figure], None]
    """Draws it on an empty figure of the right size."""
    size: tuple[float, float]
    """Width and height, in inches."""

    def figure(self) -> Figure:
        """The figure, drawn in the gallery's style; save it with gallery.save_figure."""
        with style.styled():
            figure = style.new_figure(self.size)
            self.draw(figure)
        return figure


def _padding(figure: Figure) -> None:
    masks.padding_grid(figure.subplots())


def _causal(figure: Figure) -> None:
    masks.causal_grid(figure.subplots())


def _target(figure: Figure) -> None:
    masks.target_grids(list(figure.subplots(1, len(masks.SENTENCES))))


def _blocks(figure: Figure) -> None:
    ids = torch.tensor(masks.SENTENCES)
    both = {"padding mask": padding_mask(ids, 0), "causal mask": causal_mask(ids.size(1))}
    grid = figure.add_gridspec(1, len(both), wspace=0.04)
    for number, (title, mask) in enumerate(both.items()):
        part = figure.add_subfigure(grid[number])
        masks.mask_block(part.subplots(len(ids), 3), mask)
        part.suptitle(title, x=0.02, ha="left", weight="bold", size=style.TEXT + 1)
    figure.legend(handles=masks.legend_handles(), loc="outside lower center", ncols=2, handlelength=1.4)


def _decoding(figure: Figure) -> None:
    masks.decoding_steps(figure.subplots())


def _waves(figure: Figure) -> None:
    axes = figure.subplots(2, 1, sharex=True)
    positions.waves_by_dimension(axes[0])
    positions.waves_by_dimension(axes[1], d_model=32, dimensions=range(8, 16))
    axes[0].set(title="d_model = 16", xlabel="")
    axes[1].set_title("d_model = 32")


def _all_waves(figure: Figure) -> None:
    positions.waves_of_all_dimensions(figure.subplots())


def _rows(figure: Figure) -> None:
    positions.waves_by_position(figure.subplots())


def _encoding_map(figure: Figure) -> None:
    axes = figure.subplot_mosaic("WW;AB")
    positions.encoding_map_with_zooms([axes["W"], axes["A"], axes["B"]])


def _encoding_table(figure: Figure) -> None:
    positions.encoding_table(figure.subplots())


def _embedding(figure: Figure) -> None:
    positions.embedding_with_positions(list(figure.subplots(1, 3)))


def _products(figure: Figure) -> None:
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.15))
    positions.products_by_position(left)
    left.set_title("dot products of positions")
    positions.products_by_distance(right)
    right.set_title("by their distance")


def _transformer(figure: Figure) -> None:
    parts.transformer(figure.subplots())


def _heads(figure: Figure) -> None:
    parts.multi_head(figure.subplots())


def _schedules(figure: Figure) -> None:
    left, right = figure.subplots(1, 2)
    training.paper_schedule(left)
    left.set_title("the paper’s schedule")
    training.schedules(right)
    right.set_title("all schedules")


def _smoothing(figure: Figure) -> None:
    left, right = figure.subplots(1, 2)
    training.target_bars(left)
    left.set_title("the target")
    training.loss_curves(right)
    right.set_title("the loss")


def _walkthrough(figure: Figure) -> None:
    walkthrough.attention_walkthrough(figure.subplots())


def _masked_weights(figure: Figure) -> None:
    masks.masked_weights(list(figure.subplots(1, 3)))


def _add_and_norm(figure: Figure) -> None:
    normalization.add_and_norm(list(figure.subplots(1, 4)))


def _normalisation(figure: Figure) -> None:
    normalization.normalisation_tables(list(figure.subplots(1, 3)))


GALLERY: dict[str, GalleryFigure] = {
    "transformer": GalleryFigure(
        "The whole model",
        "Figure 1 of the paper, with the names that the parts have in the code. The encoder reads the source once; the "
        "decoder reads what is written so far and, by cross-attention (“encoder-decoder attention” in the paper), the "
        "encoder’s memory.",
        _transformer,
        (6.6, 8.2),
    ),
    "multi-head-attention": GalleryFigure(
        "Multi-head attention",
        "The right half of the paper’s figure 2, with three heads. Each head has its own part of the three projections "
        "and attends by itself; their outputs, side by side, are projected once more.",
        _heads,
        (7.0, 4.0),
    ),
    "padding-mask": GalleryFigure(
        "Padding mask",
        "Sentences of different lengths are padded with 0 to make one batch. No query may attend to a padded key, "
        "whatever its own position, so one row serves the whole sentence.",
        _padding,
        (5.2, 1.7),
    ),
    "causal-mask": GalleryFigure(
        "Causal mask",
        "A target position attends to itself and to what stands before it, never to what comes after: in training all "
        "positions are predicted at once, and none may look up its own answer.",
        _causal,
        (4.4, 3.0),
    ),
    "target-mask": GalleryFigure(
        "Both masks together",
        "A key is visible where both masks let it through. Compare with the causal mask alone: only the rows of "
        "padding differ. With the padding on the right, the rows of real tokens need no padding mask.",
        _target,
        (7.0, 2.5),
    ),
    "mask-blocks": GalleryFigure(
        "One mask for all heads",
        "Broadcasting repeats the padding mask for every query and every head, but each sentence keeps its own; the "
        "causal mask is the same for every sentence, too.",
        _blocks,
        (7.0, 3.6),
    ),
    "masked-weights": GalleryFigure(
        "What a mask does to the numbers",
        "Scores of the future become −∞ before the softmax. exp(−∞) is 0, so they get no weight at all, and the "
        "rest of each row adds up to 1 again.",
        _masked_weights,
        (7.0, 2.9),
    ),
    "decoding-steps": GalleryFigure(
        "Decoding, step by step",
        "“The animal didn’t cross the street because it was tired”, into Chinese. Step t sees the first t tokens, "
        "(1, 0, 0, …), (1, 1, 0, …) and so on: row t of the causal mask. What it finds, the next step sees.",
        _decoding,
        (7.0, 6.0),
    ),
    "sinusoids-by-dimension": GalleryFigure(
        "Sinusoids by dimension",
        "Each dimension of the encoding is a wave along the positions. Dimensions come in pairs, a sine (solid) and "
        "its cosine (dashed), and each pair is slower than the one before.",
        _waves,
        (7.0, 4.2),
    ),
    "sinusoids-all-dimensions": GalleryFigure(
        "All dimensions, all positions",
        "The whole encoding for d_model = 16, standing as the model sees it: a row for each position, a column for "
        "each dimension. On the left the waves are fast, on the right they hardly begin to turn.",
        _all_waves,
        (7.0, 4.0),
    ),
    "sinusoids-by-position": GalleryFigure(
        "Sinusoids by position",
        "The same read along the rows: every position is a curve of its own over the 128 dimensions, and neighbouring "
        "positions have similar curves.",
        _rows,
        (7.0, 5.2),
    ),
    "encoding-map": GalleryFigure(
        "128 positions in 512 dimensions",
        "Most of the change is in the first dimensions (A). In the last ones (B) the sines stay close to 0 and the "
        "cosines close to 1, which makes the stripes.",
        _encoding_map,
        (7.0, 5.0),
    ),
    "encoding-table": GalleryFigure(
        "The numbers themselves",
        "Some entries of the table for d_model = 512, under the function that each column tabulates: dimension 0 is "
        "sin(pos) itself, the last ones have barely moved after five positions.",
        _encoding_table,
        (7.0, 2.4),
    ),
    "embedding-plus-position": GalleryFigure(
        "Embedding plus position",
        "What enters the first layer is a sum. Thanks to the factor √d_model the embeddings are about as large as the "
        "encodings; without it the positions would drown the words.",
        _embedding,
        (7.0, 2.2),
    ),
    "encoding-products": GalleryFigure(
        "How far apart are two positions?",
        "The dot product of two encodings depends on their distance only: in the image each diagonal has one colour, "
        "on the right the curves from four positions are the same curve.",
        _products,
        (7.0, 3.0),
    ),
    "learning-rate": GalleryFigure(
        "Learning rate",
        "The paper’s rate rises along a line during the warm-up, then falls with the inverse square root of the step. "
        "A wider model takes smaller steps; a longer warm-up only cuts off the peak.",
        _schedules,
        (7.0, 2.8),
    ),
    "label-smoothing": GalleryFigure(
        "Label smoothing",
        "A tenth of the probability asked for is spread evenly over the vocabulary. So the loss is lowest where the "
        "model is nearly, not entirely sure of the right token; at the very right the curves rise again.",
        _smoothing,
        (7.0, 3.0),
    ),
    "attention-in-six-steps": GalleryFigure(
        "Attention in six steps",
        "How the first word gathers what it needs: its query meets every key, the scores become weights, and the "
        "weights mix the values. Every number follows from those above it: q₁ is x₁ times W^Q, and so on.",
        _walkthrough,
        (7.0, 7.5),
    ),
    "normalisation": GalleryFigure(
        "Batch and layer normalisation",
        "Batch normalisation gives each feature mean 0 and deviation 1 over the tokens of the batch; layer "
        "normalisation gives them to each token over its features, so that it does not matter who shares its batch. In "
        "the model a learned factor γ and offset β follow for each feature, at first 1 and 0.",
        _normalisation,
        (7.0, 2.7),
    ),
    "add-and-norm": GalleryFigure(
        "Add and norm",
        "What stands around every sub-layer: the residual connection adds its input to its output, then each token of "
        "the sum is normalised, here with γ = 1 and β = 0.",
        _add_and_norm,
        (7.0, 1.7),
    ),
}
"""The figures that need no trained model, in order, by the name of their file."""
