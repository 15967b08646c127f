"""How the figures look: colours, letters, numbered cells. The one place that decides it.

Nothing here touches pyplot or changes Matplotlib's settings for good: `styled` sets them for a while.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal

import matplotlib
import numpy as np
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

Array = NDArray[np.float64]

FULL_WIDTH = 7.0
"""Width of a page's text in inches; wider figures would be shrunk, and their letters with them."""
TEXT, SMALL = 9.0, 8.0
"""Sizes of the letters in points; nothing is smaller than SMALL."""

# Okabe and Ito's colours, which people with any kind of colour vision tell apart. Their yellow, orange and sky blue
# are too pale for lines and letters on white.
BLUE, VERMILLION, GREEN, PURPLE, BLACK = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000"
INK, GREY, PALE = "#222222", "#666666", "#f1f1f1"
SERIES = ((BLUE, "-"), (VERMILLION, "--"), (GREEN, "-."), (BLACK, ":"))
"""Colour and dashes of the first, second, … line: either alone tells them apart."""

WEIGHTS: Colormap = LinearSegmentedColormap.from_list("weights", ["#ffffff", "#b9d7ea", BLUE, "#00243b"])
"""For what lies between 0 and 1: the darker the more, on paper, too."""
SIGNED: Colormap = LinearSegmentedColormap.from_list("signed", ["#e8a33d", "#ffffff", "#5aa9d6"])
"""For cells with a number in them; the number carries the sign, the colour only helps to find it."""
WAVES: Colormap = matplotlib.colormaps["cividis"]
"""For signed values without numbers: its brightness alone gives the value."""

LATIN = "DejaVu Sans"  # comes with Matplotlib, so that a figure has the same measures on every machine
FALLBACKS = (
    *("Noto Sans CJK SC", "Noto Sans CJK JP", "Source Han Sans SC", "Source Han Sans CN", "Noto Sans SC"),
    *("WenQuanYi Micro Hei", "WenQuanYi Zen Hei", "Droid Sans Fallback", "PingFang SC", "Hiragino Sans GB"),
    *("Heiti TC", "Microsoft YaHei", "SimHei", "Noto Serif CJK SC", "Noto Serif CJK JP", "AR PL UMing CN"),
    *("Malgun Gothic", "Apple SD Gothic Neo", "Yu Gothic", "MS Gothic", "Noto Sans Arabic", "Noto Sans Hebrew"),
    *("Noto Sans Devanagari", "Noto Sans Bengali", "Noto Sans Gurmukhi", "Noto Sans Gujarati", "Noto Sans Tamil"),
    *("Noto Sans Telugu", "Noto Sans Kannada", "Noto Sans Malayalam", "Noto Sans Sinhala", "Noto Sans Thai"),
    *("Noto Sans Lao", "Noto Sans Khmer", "Noto Sans Myanmar", "Noto Sans Ethiopic", "Noto Sans Georgian"),
    *("Noto Sans Armenian", "Noto Sans Tibetan", "Nirmala UI", "Leelawadee UI", "Ebrima", "Arial Unicode MS"),
)
"""Fonts for what LATIN lacks, the first that is installed and has the character.

Matplotlib joins the letters of Arabic and of the scripts of India from version 3.11 on; earlier ones set them singly.
"""


@contextmanager
def styled() -> Iterator[None]:
    """The figures' style, for the time of a `with` block; draw and save inside it."""
    settings: dict[str, Any] = {
        "font.family": [LATIN],
        "font.size": TEXT,
        "axes.titlesize": TEXT + 1,
        "axes.titlelocation": "left",
        "axes.titleweight": "bold",
        "axes.labelsize": TEXT,
        "axes.labelcolor": INK,
        "axes.edgecolor": GREY,
        "axes.linewidth": 0.8,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.unicode_minus": True,
        "xtick.labelsize": SMALL,
        "ytick.labelsize": SMALL,
        "xtick.color": GREY,
        "ytick.color": GREY,
        "xtick.labelcolor": INK,
        "ytick.labelcolor": INK,
        "text.color": INK,
        "text.usetex": False,
        "lines.linewidth": 1.6,
        "hatch.linewidth": 0.7,
        "legend.frameon": False,
        "legend.fontsize": SMALL,
        "figure.facecolor": "white",
        "figure.dpi": 100,
        "savefig.facecolor": "white",
        "savefig.bbox": None,
        "svg.fonttype": "path",
        "svg.hashsalt": "dragoman",
    }
    # From Matplotlib's own defaults, so that a reader's settings change nothing; asking for the backend would load one.
    defaults: Any = {name: value for name, value in matplotlib.rcParamsDefault.items() if name != "backend"}
    with matplotlib.rc_context(defaults | settings):
        yield


def new_figure(size: tuple[float, float]) -> Figure:
    """An empty figure of this width and height, in inches, that keeps its parts from overlapping."""
    return Figure(figsize=size, layout="compressed")


def as_array(values: Tensor | ArrayLike) -> Array:
    """Values to draw: of a tensor on any device and of any type, or of anything NumPy takes."""
    if isinstance(values, Tensor):
        values = values.detach().cpu().double().numpy()
    return np.asarray(values, dtype=np.float64)


@cache
def _characters(family: str) -> frozenset[int]:
    return frozenset(font_manager.get_font(font_manager.findfont(family)).get_charmap())


@cache
def _find_new_fonts() -> None:
    """Tell Matplotlib, which keeps a list of fonts from the first time that it ran, of those installed since."""
    known = {Path(font.fname) for font in font_manager.fontManager.ttflist}
    for path in map(Path, font_manager.findSystemFonts()):
        if path not in known:
            with suppress(OSError, RuntimeError):  # a font that can't be read is no font
                font_manager.fontManager.addfont(path)


def installed_fallbacks() -> list[str]:
    """The FALLBACKS that this machine has."""
    _find_new_fonts()
    installed = set(font_manager.get_font_names())
    return [family for family in FALLBACKS if family in installed]


def can_write(text: str) -> bool:
    """Whether the fonts of this machine have every character of the text."""
    return lettering([text])[0] == [text]


def lettering(labels: Sequence[str], limit: int | None = None) -> tuple[list[str], list[str]]:
    """Labels as they can be drawn here, and the fonts it takes.

    A character that no font has becomes its code point, such as U+52A8, instead of an empty box; so do control
    characters. Characters that only steer the layout of others are left out when no font has them.

    Args:
        labels: texts of any language.
        limit: cut labels to this many characters, the last of them an ellipsis; never within a code point.

    Returns:
        As many labels, and font families for Matplotlib's `fontfamily`.
    """
    families, covered = [LATIN], set(_characters(LATIN))
    unknown = {ord(character) for label in labels for character in label} - covered
    for family in installed_fallbacks() if unknown else ():
        if unknown & _characters(family):
            families.append(family)
            covered |= _characters(family)
            unknown -= covered
    return [_cut([_legible(character, covered) for character in label], limit) for label in labels], families


def _cut(parts: Sequence[str], limit: int | None) -> str:
    """The parts together, as many as fit."""
    if limit is None or sum(map(len, parts)) <= limit:
        return "".join(parts)
    lengths = accumulate(map(len, parts))
    return "".join(part for part, end in zip(parts, lengths, strict=True) if end < limit) + "…"


def _legible(character: str, covered: set[int]) -> str:
    category = unicodedata.category(character)
    if (ord(character) in covered and category != "Cc") or character == "\n":
        return character
    steers = category == "Cf" or 0xFE00 <= ord(character) <= 0xFE0F  # format characters, variation selectors
    return "" if steers else f"U+{ord(character):04X}"


def write_ticks(
    ax: Axes,
    axis: Literal["x", "y"],
    labels: Sequence[str],
    limit: int | None = None,
    upright: bool = False,
    every: int = 1,
) -> None:
    """Label the rows ("y") or columns ("x") 0, 1, 2, … of cells.

    Args:
        ax: the cells.
        axis: the one to label.
        labels: one for each row or column.
        limit: longest label, see lettering.
        upright: turn the labels by 90°.
        every: label only each so-many-th, where there is no room for more.
    """
    texts, families = lettering(labels[::every], limit)
    chosen = ax.xaxis if axis == "x" else ax.yaxis
    # A dollar sign in a sentence is money, not the beginning of a formula.
    chosen.set_ticks(
        np.arange(0, len(labels), every), labels=texts, family=families, rotation=90 if upright else 0, parse_math=False
    )
    ax.tick_params(axis=axis, length=0)


def cells(
    ax: Axes,
    values: ArrayLike,
    texts: Sequence[Sequence[str]] | None = None,
    cmap: Colormap = SIGNED,
    bounds: tuple[float, float] = (-1.0, 1.0),
    origin: tuple[float, float] = (0.0, 0.0),
    size: float = SMALL,
    border: tuple[str, float] = ("#cccccc", 0.4),
) -> None:
    """Draw a table of coloured cells, with the first row on top.

    Args:
        ax: where; cell (i, j) is centred on x = j, y = i, counted from the origin.
        values: (rows, columns).
        texts: what to write into the cells, (rows, columns), in a dark or light ink, whichever stands out.
        cmap: colours from the lowest to the highest of the bounds.
        bounds: lowest and highest value that the colours tell apart.
        origin: x and y of cell (0, 0).
        size: of the letters, in points.
        border: colour and width, in points, of the lines between cells.
    """
    table = np.asarray(values, dtype=np.float64)
    (rows, columns), (line, width) = table.shape, border
    x, y = np.arange(columns + 1) - 0.5 + origin[0], np.arange(rows + 1) - 0.5 + origin[1]
    norm = Normalize(*bounds, clip=True)
    ax.pcolormesh(x, y, table, cmap=cmap, norm=norm, edgecolors=line, linewidth=width)
    if texts is not None:
        families = lettering(["".join(row) for row in texts])[1]
        for i, row in enumerate(texts):
            for j, text in enumerate(lettering(row)[0]):
                ink = ink_on(cmap(norm(table[i, j])))
                place = (j + origin[0], i + origin[1])
                artist = ax.text(*place, text, ha="center", va="center", size=size, color=ink, family=families)
                artist.set_parse_math(False)
                artist.set_in_layout(False)  # it lies within ax: nothing to measure
    ax.spines[:].set_visible(False)
    if not ax.yaxis_inverted():
        ax.invert_yaxis()


def ink_on(colour: tuple[float, float, float, float]) -> str:
    """Black or white letters, whichever stand out more from this RGBA background: at least 4.5 : 1."""
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour[:3])
    luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue  # WCAG 2: contrast is (lighter + 0.05) / (darker + 0.05)
    return "white" if 1.05 / (luminance + 0.05) > (luminance + 0.05) / 0.05 else BLACK


def numbers(values: ArrayLike, digits: int = 2) -> list[list[str]]:
    """Texts for the cells of a table, with this many decimals and a real minus sign; never a negative zero."""
    rounded = np.round(np.asarray(values, dtype=np.float64), digits) + 0.0
    return [[f"{value:.{digits}f}".replace("-", "−") for value in row] for row in rounded]


def spread(values: Sequence[float], gap: float, lowest: float = -np.inf) -> list[float]:
    """Move values apart until any two differ by the gap at least, no further than need be, in the same order.

    None of them ends below the lowest.
    """
    order = np.argsort(values, kind="stable")
    blocks: list[tuple[float, int]] = []  # mean and size: what collides moves as one block (isotonic regression)
    for i, index in enumerate(order):
        blocks.append((float(values[index]) - i * gap, 1))
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (low, few), (high, many) = blocks[-2:]
            blocks[-2:] = [((low * few + high * many) / (few + many), few + many)]
    means = [max(mean, lowest) for mean, size in blocks for _ in range(size)]
    result = [0.0] * len(means)
    for i, index in enumerate(order):
        result[index] = means[i] + i * gap
    return result


def label_ends(ax: Axes, lines: Sequence[Line2D], gap: float = 0.09, heading: str = "") -> None:
    """Write each line's label where it ends at the right edge, instead of a legend.

    Args:
        ax: the lines must reach its right edge, and its limits must be final.
        lines: what to label.
        gap: least distance between two labels, as a part of the height of ax.
        heading: what stands above the labels.
    """
    low, high = ax.get_ylim()
    ends = [(float(np.asarray(line.get_ydata())[-1]) - low) / (high - low) for line in lines]
    places = spread(ends, gap, lowest=0.0)
    if heading:
        ax.text(1.05, max(places) + gap, heading, transform=ax.transAxes, va="center", size=SMALL, color=GREY)
    for line, end, place in zip(lines, ends, places, strict=True):
        stroke = {"arrowstyle": "-", "color": line.get_color(), "linestyle": line.get_linestyle(), "lw": 1.2}
        ax.annotate(
            str(line.get_label()),
            xy=(1.0, end),
            xytext=(1.05, place),
            xycoords="axes fraction",
            textcoords="axes fraction",
            arrowprops={**stroke, "shrinkA": 0, "shrinkB": 0, "relpos": (0, 0.5)},
            va="center",
            size=SMALL,
            annotation_clip=False,
        )
