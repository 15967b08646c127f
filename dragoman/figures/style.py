"""What a picture is, and how all of them look: colours, letters, tables of coloured cells.

Nothing here touches pyplot or changes Matplotlib's settings permanently: `styled` sets them for a while.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, wraps
from inspect import getdoc
from pathlib import Path
from typing import Any

import matplotlib.style
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
MOST_LABELS = 64
"""Along one side of a table or map; where there are more rows or columns, some stay without one."""
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

STYLE_FILE = Path(__file__).with_name("dragoman.mplstyle")
"""Sizes, colours and fonts of everything. The first font comes with Matplotlib: figures measure the same everywhere."""


@contextmanager
def styled() -> Iterator[None]:
    """Set the figures' style during a `with` block or a decorated function; draw and save inside it.

    The rest is as Matplotlib has it by default, so a reader's own settings change nothing.
    """
    with matplotlib.style.context([STYLE_FILE, {"font.family": families()}], after_reset=True):
        yield


@dataclass(frozen=True)
class Picture:
    """One picture of the gallery."""

    name: str
    """Of its file."""
    title: str
    caption: str
    draw: Callable[[], Figure]


def picture(name: str, width: float, height: float) -> Callable[[Callable[[Figure], None]], Picture]:
    """Make a picture of a documented function that draws on an empty figure of this size in inches."""

    def decorate(function: Callable[[Figure], None]) -> Picture:
        @styled()
        @wraps(function)
        def draw() -> Figure:
            figure = new_figure(width, height)
            function(figure)
            return figure

        return described(name, function, draw)

    return decorate


def described(name: str, function: Callable[..., Any], draw: Callable[[], Figure]) -> Picture:
    """Picture with its title and caption from the first line and the rest of the function's docstring."""
    title, caption = (getdoc(function) or "").split("\n\n")
    return Picture(name, title, caption.replace("\n", " "), draw)


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
    """Return the installed fonts of STYLE_FILE: Matplotlib takes each character from the first that has it."""
    known = matplotlib.rc_params_from_file(STYLE_FILE, use_default_template=False)["font.sans-serif"]
    installed = set(font_manager.get_font_names())
    return [family for family in known if family in installed]


def can_draw(text: str) -> bool:
    """Whether the fonts of this machine have every character of the text."""
    return all(any(ord(character) in _characters(name) for name in families()) for character in text)


@cache
def _characters(family: str) -> frozenset[int]:
    return frozenset(font_manager.get_font(font_manager.findfont(family)).get_charmap())


def drawable(label: str) -> str:
    """Label with □ for what no font of this machine has, of which Matplotlib would warn character by character."""
    return "".join(character if character == "\n" or can_draw(character) else "□" for character in label)


def write_ticks(ax: Axes, columns: Sequence[object], rows: Sequence[object], upright: bool = False) -> None:
    """Label the columns and rows 0, 1, 2, … of cells, at most MOST_LABELS each; upright turns those of the columns."""
    for axis, labels in ((ax.xaxis, columns), (ax.yaxis, rows)):
        every = math.ceil(len(labels) / MOST_LABELS) or 1
        axis.set_ticks(range(0, len(labels), every), [drawable(str(label)) for label in labels[::every]])
    ax.tick_params(length=0)
    ax.tick_params("x", rotation=90 if upright else 0)


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

    Cell (i, j) is centred on x = j, y = i, counted from the origin. The bounds are the values with the first and the
    last colour; the border is the colour and width, in points, of the lines between cells.
    """
    table = as_array(values)
    x, y = (np.arange(length + 1) - 0.5 + start for length, start in zip(table.shape[::-1], origin, strict=True))
    norm = Normalize(*bounds, clip=True)
    ax.pcolormesh(x, y, table, cmap=cmap, norm=norm, edgecolors=border[0], linewidth=border[1])
    for (i, j), value in np.ndenumerate(table):
        if texts is not None and texts[i][j]:
            look: Any = {"ha": "center", "va": "center", "size": size, "color": ink_on(cmap(norm(value)))}
            # It lies within ax: nothing to measure.
            ax.text(j + origin[0], i + origin[1], drawable(texts[i][j]), in_layout=False, **look)
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
