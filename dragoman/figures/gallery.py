"""All figures, those of a trained translator among them, and how to write them into a folder."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure
from numpy.typing import ArrayLike
from torch import Tensor

from dragoman.config import DragomanError
from dragoman.figures import attention, style
from dragoman.figures.catalogue import GALLERY, GalleryFigure
from dragoman.runtime.files import make_folder, write_atomically

FORMATS = ("png", "svg")
_LONGEST_READ, _LONGEST_WRITTEN = 10, 14
_LEFT_TO_RIGHT = "\u200e"


@dataclass(frozen=True)
class TranslatorMaps:
    """The attention of a trained translator while it translates one sentence."""

    weights: Mapping[str, Tensor | ArrayLike]
    """(H, T, S) by block, under the model's names: "encoder.0.self_attention", "decoder.0.cross_attention", …"""
    source: Sequence[str]
    """The source's subwords, as the encoder reads them: S labels."""
    target: Sequence[str]
    """The target's subwords, as the decoder reads them: T labels, beginning with `<s>`."""
    written: Sequence[str]
    """What the decoder writes after each of them: T labels, ending with `</s>`."""

    @property
    def steps(self) -> list[str]:
        """The decoder's queries, what is read and what is written then: T labels."""
        halves = style.lettering(self.target, _LONGEST_READ)[0], style.lettering(self.written, _LONGEST_WRITTEN)[0]
        # Without the marks Arabic and Hebrew would turn the arrow around.
        return [
            f"{_LEFT_TO_RIGHT}{read}{_LEFT_TO_RIGHT} → {_LEFT_TO_RIGHT}{written}"
            for read, written in zip(*halves, strict=True)
        ]

    def labels(self, block: str) -> tuple[Sequence[str], Sequence[str]]:
        """The labels of a block's queries and keys."""
        encoder, cross = block.startswith("encoder."), block.endswith(".cross_attention")
        return self.source if encoder else self.steps, self.source if encoder or cross else self.target

    def last(self, part: str, kind: str) -> str:
        """The name of the last layer's block of "encoder" or "decoder", "self_attention" or "cross_attention".

        Raises:
            ValueError: there is none.
        """
        blocks = [name for name in self.weights if name.startswith(f"{part}.") and name.endswith(f".{kind}")]
        if not blocks:
            raise ValueError(f"no {part} {kind} among {', '.join(self.weights)}")
        return max(blocks, key=lambda name: int(name.split(".")[1]))


def gallery(maps: TranslatorMaps | None = None) -> dict[str, GalleryFigure]:
    """All figures in order, by the name of their file; with maps also those of a trained translator."""
    return GALLERY | (_translator_figures(maps) if maps else {})


def save_gallery(
    out: Path | str, formats: Sequence[str] = ("png",), dpi: int = 200, maps: TranslatorMaps | None = None
) -> list[Path]:
    """Write every figure, once in each format, as NAME.png or NAME.svg.

    The same call writes the same bytes again.

    Args:
        out: the folder; made if need be.
        formats: "png", "svg" or both.
        dpi: pixels per inch of a PNG.
        maps: the attention of a trained translator; without them its figures are left out.

    Returns:
        The files, in order.

    Raises:
        DragomanError: a format is unknown, or a file can't be written.
    """
    for wanted in formats:
        _require_format(wanted, f"{out}")
    out = Path(out)
    make_folder(out)
    paths = []
    for name, entry in gallery(maps).items():
        figure = entry.figure()
        for wanted in formats:
            paths.append(out / f"{name}.{wanted}")
            save_figure(figure, paths[-1], dpi, entry.title, entry.caption)
    return paths


def save_figure(figure: Figure, path: Path | str, dpi: int = 200, title: str = "", caption: str = "") -> None:
    """Write one figure as PNG or SVG, whichever the path ends with, in the gallery's style.

    Args:
        figure: from GalleryFigure.figure or style.new_figure.
        path: the file; its folder exists.
        dpi: pixels per inch of a PNG.
        title: for screen readers; kept in the file.
        caption: the same, at more length.

    Raises:
        DragomanError: the format is unknown, or the file can't be written.
    """
    path = Path(path)
    wanted = path.suffix.removeprefix(".").lower()
    _require_format(wanted, f"{path}")
    # No date and no version, so that equal figures are equal files.
    facts = {"Title": title or None, "Description": caption or None}
    metadata = facts | ({"Date": None, "Creator": None} if wanted == "svg" else {"Software": None})
    content = io.BytesIO()
    with style.styled():
        figure.savefig(content, format=wanted, dpi=dpi, metadata=metadata)
    write_atomically(path, content.getvalue())


def _require_format(wanted: str, place: str) -> None:
    if wanted not in FORMATS:
        raise DragomanError(
            f"{place}: figures are written as {' or '.join(FORMATS)}, not {wanted or 'without a suffix'}"
        )


def _translator_figures(maps: TranslatorMaps) -> dict[str, GalleryFigure]:
    cross = maps.last("decoder", "cross_attention")
    steps, keys = maps.labels(cross)
    heads = style.as_array(maps.weights[cross])
    kinds = {
        "encoder self-attention": maps.last("encoder", "self_attention"),
        "decoder self-attention": maps.last("decoder", "self_attention"),
        "cross-attention": cross,
    }
    means = {kind: style.as_array(maps.weights[block]).mean(axis=0) for kind, block in kinds.items()}

    def draw_kinds(figure: Figure) -> None:
        attention.attention_kinds(figure, means, {"source": maps.source, "target": maps.target}, steps)

    def draw_heads(figure: Figure) -> None:
        attention.attention_heads(figure, heads, steps, keys)

    def draw_overview(figure: Figure) -> None:
        attention.attention_overview(figure, maps.weights)

    return {
        "translator-attention": GalleryFigure(
            "A translator’s attention",
            "The last layers of a trained translator, averaged over their heads. Rows are queries, in the decoder "
            "what it has just read and what it writes then; columns are keys. The decoder’s self-attention is empty "
            "above the diagonal, where its mask hides the future.",
            draw_kinds,
            attention.attention_kinds_size(maps.source, maps.target, steps),
        ),
        "translator-heads": GalleryFigure(
            "Every head of one block",
            "The last cross-attention, head by head. A row is what the decoder has just read and what it writes then; "
            "its dark cells are what it looks at in the source to find that.",
            draw_heads,
            attention.attention_heads_size(len(heads), steps, keys),
        ),
        "translator-overview": GalleryFigure(
            "Every head of every layer",
            "All attention maps of one translation. Diagonals follow the order of the words, columns are words that "
            "everyone looks at, triangles are the decoder’s causal mask.",
            draw_overview,
            attention.attention_overview_size(
                len(maps.weights), max(len(style.as_array(w)) for w in maps.weights.values())
            ),
        ),
    }
