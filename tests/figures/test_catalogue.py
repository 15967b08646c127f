"""Every figure of the gallery: complete, legible, and drawn without a warning."""

import logging
from collections.abc import Iterator

import pytest
from matplotlib.figure import Figure

from dragoman.figures import style
from dragoman.figures.catalogue import GALLERY

from .legibility import assert_legible, warnings_are_errors


@pytest.fixture(scope="module", params=GALLERY)
def drawn(request: pytest.FixtureRequest) -> Iterator[tuple[str, Figure]]:
    """Name and figure, laid out, in a session in which every warning is an error."""
    messages: list[logging.LogRecord] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = messages.append  # type: ignore[method-assign, assignment]
    logging.getLogger("matplotlib").addHandler(handler)
    with warnings_are_errors(), style.styled():
        yield request.param, GALLERY[request.param].figure()
    logging.getLogger("matplotlib").removeHandler(handler)
    assert not messages


def test_nothing_written_is_cut_off_or_too_small_or_written_over(drawn: tuple[str, Figure]) -> None:
    name, figure = drawn
    assert_legible(figure, name)


def test_without_a_chinese_font_the_chinese_figure_is_as_legible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(style, "installed_fallbacks", list)
    with warnings_are_errors(), style.styled():
        assert_legible(GALLERY["decoding-steps"].figure())


def test_it_fits_on_a_page(drawn: tuple[str, Figure]) -> None:
    name, figure = drawn
    assert tuple(figure.get_size_inches()) == GALLERY[name].size
    assert 3.4 <= GALLERY[name].size[0] <= style.FULL_WIDTH


@pytest.mark.parametrize("name", GALLERY)
def test_it_has_a_short_title_and_a_caption_of_a_sentence_or_more(name: str) -> None:
    entry = GALLERY[name]
    assert 0 < len(entry.title) <= 40
    assert not entry.title.endswith(".")
    assert 60 <= len(entry.caption) <= 320
    assert entry.caption.endswith(".")
    assert name == name.lower()
    assert " " not in name


def test_no_two_figures_say_the_same() -> None:
    assert len({entry.title for entry in GALLERY.values()}) == len(GALLERY)
    assert len({entry.caption for entry in GALLERY.values()}) == len(GALLERY)
