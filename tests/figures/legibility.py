"""What a reader can read: nothing cut off, nothing too small, nothing written over."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import combinations

from matplotlib.figure import Figure
from matplotlib.text import Text

from dragoman.figures import style


@contextmanager
def warnings_are_errors() -> Iterator[None]:
    """A glyph that is missing or a layout that does not fit fails the test."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # Matplotlib before 3.11 calls its parser by old names; newer parsers say so.
        warnings.filterwarnings("ignore", message="'\\w+' deprecated - use ", category=DeprecationWarning)
        yield


def assert_legible(figure: Figure, name: str = "figure") -> None:
    """Every text of the figure is large enough, lies on its page and touches no other text."""
    figure.draw_without_rendering()
    page = figure.bbox
    boxes = {}
    for text in texts(figure):
        box = Text.get_window_extent(text)  # of an annotation, without its arrow
        assert text.get_size() >= style.SMALL, f"{name}: {text.get_text()!r} has {text.get_size()} points"
        inside = page.x0 <= box.x0 and box.x1 <= page.x1 and page.y0 <= box.y0 and box.y1 <= page.y1
        assert inside, f"{name}: {text.get_text()!r} leaves the page"
        boxes[text] = box.padded(-0.5)
    assert boxes
    for (one, here), (other, there) in combinations(boxes.items(), 2):
        assert not here.overlaps(there), f"{name}: {one.get_text()!r} and {other.get_text()!r} overlap"


def texts(figure: Figure) -> list[Text]:
    """What is written and shown."""
    found = figure.findobj(lambda artist: isinstance(artist, Text) and artist.get_visible() and artist.get_text())
    # Ticks beyond the end of an axis are not drawn, nor is what belongs to an axis that is switched off.
    shown = {id(text) for text in figure.findobj(Text)}
    for ax in figure.findobj(lambda artist: hasattr(artist, "get_xticklabels")):
        for axis, (low, high) in ((ax.xaxis, sorted(ax.get_xlim())), (ax.yaxis, sorted(ax.get_ylim()))):
            for tick in [*axis.get_major_ticks(), *axis.get_minor_ticks()]:
                outside = not low - 1e-9 <= tick.get_loc() <= high + 1e-9
                if outside or not ax.axison:
                    shown -= {id(tick.label1), id(tick.label2)}
            if not ax.axison:
                shown -= {id(axis.label), id(axis.offsetText)}
    return [text for text in found if id(text) in shown]
