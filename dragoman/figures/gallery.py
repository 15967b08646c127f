"""All pictures in one table, and how to write them into a folder."""

import io
from functools import partial
from pathlib import Path

from matplotlib.figure import Figure

from dragoman.figures import attention, masks, normalization, parts, positions, style, training, walkthrough
from dragoman.figures.style import Picture
from dragoman.inspection.record import Inspection
from dragoman.runtime.files import make_folder, write_atomically

GALLERY: dict[str, Picture] = {
    picture.name: picture
    for module in (parts, masks, positions, training, walkthrough, normalization)
    for picture in vars(module).values()
    if isinstance(picture, Picture)
}
"""The pictures that need no trained model, in the order of a lesson, by the name of their file."""


def gallery(inspection: Inspection | None = None) -> dict[str, Picture]:
    """All pictures in order, by the name of their file; with an inspection also those of a trained translator."""
    if inspection is None:
        return GALLERY
    drawn = {
        "translator-attention": attention.last_layers,
        "translator-heads": attention.last_cross_attention,
        "translator-overview": attention.attention_overview,
    }
    return GALLERY | {name: style.described(name, draw, partial(draw, inspection)) for name, draw in drawn.items()}


def save_gallery(out: Path, suffix: str = "png", dpi: int = 200, inspection: Inspection | None = None) -> list[Path]:
    """Write every picture as NAME.png or NAME.svg and return the files in order; the same call writes the same bytes.

    With an inspection, the attention of its translator is drawn as well.
    """
    make_folder(out)
    paths = []
    for name, picture in gallery(inspection).items():
        paths.append(out / f"{name}.{suffix}")
        save_figure(picture.draw(), paths[-1], dpi, picture.title, picture.caption)
    return paths


def save_attention(out: Path, inspection: Inspection) -> list[Path]:
    """Draw every attention block, a PNG each with a map for every head, and one overview; returns the files."""
    make_folder(out)
    paths = [out / f"{block}.png" for block in inspection.maps]
    for block, path in zip(inspection.maps, paths, strict=True):
        save_figure(attention.block_figure(inspection, block, attention.block_in_words(block)), path)
    save_figure(attention.attention_overview(inspection), out / "overview.png")
    return [*paths, out / "overview.png"]


def save_figure(figure: Figure, path: Path | str, dpi: int = 200, title: str = "", caption: str = "") -> None:
    """Write one figure as PNG or SVG, whichever the path ends with; title and caption are for screen readers."""
    suffix = Path(path).suffix.removeprefix(".").lower()
    # No date and no version, so that equal figures are equal files.
    facts = {"Title": title or None, "Description": caption or None}
    metadata = facts | ({"Date": None, "Creator": None} if suffix == "svg" else {"Software": None})
    content = io.BytesIO()
    with style.styled():
        figure.savefig(content, format=suffix, dpi=dpi, metadata=metadata)
    write_atomically(Path(path), content.getvalue())
