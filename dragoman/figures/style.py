"""What a picture is, and how all of them look: colours, letters, tables of coloured cells.

Nothing here touches pyplot or changes Matplotlib's settings permanently: `styled` sets them for a while.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, wraps
from inspect import getdoc
from itertools import accumulate
from typing import Any

import matplotlib
import numpy as np
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

Array = NDArray[np.float64]

FULL_WIDTH = 7.0
"""Text width of a page, in inches. A wider figure would be shrunk, and its letters with it."""
TEXT, SMALL = 9.0, 8.0
"""Letter sizes in points; nothing is smaller than SMALL."""
# Okabe and Ito's colours, which people with any kind of colour vision can tell apart. Their yellow, orange and sky
# blue are too pale for lines and letters on white.
BLUE, VERMILLION, GREEN, BLACK = "#0072B2", "#D55E00", "#009E73", "#000000"
INK, GREY, PALE = "#222222", "#666666", "#f1f1f1"
SERIES = ((BLUE, "-"), (VERMILLION, "--"), (GREEN, "-."), (BLACK, ":"))
"""Colour and dashes of the first, second, … line: either alone tells them apart."""

BESIDE: dict[str, Any] = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)}
"""Place of a legend right of its axes."""

WEIGHTS: Colormap = LinearSegmentedColormap.from_list("weights", ["#ffffff", "#b9d7ea", BLUE, "#00243b"])
"""For values between 0 and 1: darker is more, also in a greyscale print."""
SIGNED: Colormap = LinearSegmentedColormap.from_list("signed", ["#e8a33d", "#ffffff", "#5aa9d6"])
"""For cells with a number in them: the number carries the sign, the colour only helps to find it."""
WAVES: Colormap = matplotlib.colormaps["cividis"]
"""For signed values without numbers: brightness alone gives the value."""

LATIN = "DejaVu Sans"  # comes with Matplotlib, so a figure has the same measures on every machine
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
"""Fonts for the characters that LATIN lacks; Matplotlib joins Arabic and Indic letters from version 3.11 on."""

SETTINGS: dict[str, Any] = {
    "font.family": [LATIN],
    "font.size": TEXT,
    "axes.titlesize": TEXT + 1,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.labelsize": TEXT,
    "axes.labelcolor": INK,
    "axes.edgecolor": GREY,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "text.color": INK,
    "lines.linewidth": 1.6,
    "hatch.linewidth": 0.7,
    "legend.frameon": False,
    "legend.fontsize": SMALL,
    "legend.title_fontsize": SMALL,
    "svg.hashsalt": "dragoman",  # the same figure is the same file
}


@contextmanager
def styled() -> Iterator[None]:
    """Set the figures' style during a `with` block or a decorated function; draw and save inside it."""
    # From Matplotlib's own defaults, so that a reader's settings change nothing; asking for the backend would load one.
    defaults: Any = {name: value for name, value in matplotlib.rcParamsDefault.items() if name != "backend"}
    with matplotlib.rc_context(defaults | SETTINGS):
        yield


@dataclass(frozen=True)
class Picture:
    """One picture of the gallery."""

    title: str
    caption: str
    draw: Callable[[], Figure]


def picture(width: float, height: float) -> Callable[[Callable[[Figure], None]], Picture]:
    """Make a picture of a documented function that draws on an empty figure of this size in inches."""

    def decorate(function: Callable[[Figure], None]) -> Picture:
        @styled()
        @wraps(function)
        def draw() -> Figure:
            figure = new_figure(width, height)
            function(figure)
            return figure

        return described(function, draw)

    return decorate


def described(function: Callable[..., Any], draw: Callable[[], Figure]) -> Picture:
    """Picture with its title and caption from the first line and the rest of the function's docstring."""
    title, caption = (getdoc(function) or "").split("\n\n")
    return Picture(title, caption.replace("\n", " "), draw)


def new_figure(width: float, height: float) -> Figure:
    """Empty figure of this size in inches, whose layout keeps its parts from overlapping."""
    return Figure(figsize=(width, height), layout="compressed")


def as_array(values: Tensor | ArrayLike) -> Array:
    """Values to draw, from any tensor or from anything that NumPy takes."""
    if isinstance(values, Tensor):
        values = values.detach().cpu().double().numpy()
    return np.asarray(values, dtype=np.float64)


@cache
def families() -> list[str]:
    """Return LATIN and the installed FALLBACKS: Matplotlib takes each character from the first that has it."""
    known = {font.fname for font in font_manager.fontManager.ttflist}
    for path in sorted({*font_manager.findSystemFonts()} - known):  # Matplotlib's own list is as old as its cache
        with suppress(OSError, RuntimeError):  # not a readable font
            font_manager.fontManager.addfont(path)
    installed = set(font_manager.get_font_names())
    return [LATIN, *(family for family in FALLBACKS if family in installed)]


def families_for(text: str) -> list[str]:
    """Families to write a text with: LATIN alone if that is enough, because looking up all of them takes time."""
    return [LATIN] if _characters(LATIN).issuperset(map(ord, text)) else families()


def can_draw(text: str) -> bool:
    """Whether the fonts of this machine have every character of the text."""
    return all(any(ord(character) in _characters(name) for name in families_for(text)) for character in text)


@cache
def _characters(family: str) -> frozenset[int]:
    return frozenset(font_manager.get_font(font_manager.findfont(family)).get_charmap())


def drawable(label: str, limit: int | None = None) -> str:
    """Label as it can be drawn on this machine, cut to the limit if there is one, with an ellipsis as its end.

    A character that no font has becomes its code point, such as U+52A8, instead of an empty box; so does a control
    character. Format characters and variation selectors are left out if no font has them.
    """
    parts = [_drawable_character(character) for character in label]
    if limit is None or sum(map(len, parts)) <= limit:
        return "".join(parts)
    ends = accumulate(map(len, parts))
    return "".join(part for part, end in zip(parts, ends, strict=True) if end < limit) + "…"


def _drawable_character(character: str) -> str:
    category = unicodedata.category(character)
    if character == "\n" or (category != "Cc" and can_draw(character)):
        return character
    return "" if category == "Cf" or "\ufe00" <= character <= "\ufe0f" else f"U+{ord(character):04X}"


def write_ticks(
    ax: Axes,
    columns: Iterable[object] | None = None,
    rows: Iterable[object] | None = None,
    limits: tuple[int | None, int | None] = (None, None),
    upright: bool = False,
) -> None:
    """Label the columns and rows 0, 1, 2, … of cells; an empty label leaves its place without a tick.

    The limits are those of drawable; upright turns the labels of the columns by 90°.
    """
    for axis, labels, limit in zip((ax.xaxis, ax.yaxis), (columns, rows), limits, strict=True):
        if labels is not None:
            texts = {place: drawable(str(label), limit) for place, label in enumerate(labels) if label != ""}
            look: dict[str, Any] = {"rotation": 90 if upright and axis is ax.xaxis else 0}
            look |= {"family": families_for("".join(texts.values())), "parse_math": False}  # $ is money, not a formula
            axis.set_ticks(list(texts), labels=list(texts.values()), **look)
            axis.set_tick_params(length=0)


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
    """Draw values (rows, columns) as a table of coloured cells with texts, with the first row on top.

    Args:
        ax: where; cell (i, j) is centred on x = j, y = i, counted from the origin.
        values: what the colours show.
        texts: for each cell, in black or white, whichever stands out.
        cmap: colours from the lowest to the highest of the bounds.
        bounds: values with the first and the last colour.
        origin: x and y of cell (0, 0).
        size: of the letters, in points.
        border: colour and width, in points, of the lines between cells.
    """
    table = as_array(values)
    x, y = (np.arange(length + 1) - 0.5 + start for length, start in zip(table.shape[::-1], origin, strict=True))
    norm = Normalize(*bounds, clip=True)
    ax.pcolormesh(x, y, table, cmap=cmap, norm=norm, edgecolors=border[0], linewidth=border[1])
    for (i, j), value in np.ndenumerate(table):
        if texts is not None and texts[i][j]:
            text, ink = drawable(texts[i][j]), ink_on(cmap(norm(value)))
            label = ax.text(j + origin[0], i + origin[1], text, ha="center", va="center", size=size, color=ink)
            # It lies within ax: nothing to measure.
            label.set(family=families_for(text), parse_math=False, in_layout=False)
    ax.spines[:].set_visible(False)
    if not ax.yaxis_inverted():
        ax.invert_yaxis()


def ink_on(colour: tuple[float, float, float, float]) -> str:
    """Black or white, whichever stands out more from this RGBA background: a contrast of at least 4.5."""
    luminance = np.power(colour[:3], 2.2) @ [0.2126, 0.7152, 0.0722]
    return "white" if luminance < 0.179 else BLACK  # WCAG 2: contrast is (lighter + 0.05) / (darker + 0.05)


def numbers(values: ArrayLike, digits: int = 2) -> list[list[str]]:
    """Texts for the cells of a table, with this many decimals and a real minus sign; never a negative zero."""
    rounded = np.round(as_array(values), digits) + 0.0
    return [[f"{value:.{digits}f}".replace("-", "−") for value in row] for row in rounded]
