"""Colours that can be told apart, letters that can be drawn, and settings that stay as they were."""

import logging

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_rgba

from dragoman.figures import style

from .legibility import warnings_are_errors


def luminance(colour: object) -> float:
    """Relative luminance, as WCAG 2 defines it."""
    parts = np.array(to_rgba(colour)[:3])  # type: ignore[arg-type]
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def contrast(one: object, other: object) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("colours", [style.WEIGHTS, style.WAVES], ids=["weights", "waves"])
def test_without_colour_brightness_alone_tells_the_value(colours: matplotlib.colors.Colormap) -> None:
    brightness = [luminance(colours(value)) for value in np.linspace(0, 1, 64)]
    steps = np.diff(brightness)
    assert (steps > 0).all() or (steps < 0).all()
    assert abs(brightness[-1] - brightness[0]) > 0.5


def test_lines_differ_in_dashes_as_well_as_colour_and_stand_out_from_paper() -> None:
    colours, dashes = zip(*style.SERIES, strict=True)
    assert len(set(colours)) == len(set(dashes)) == len(style.SERIES)
    assert all(contrast(colour, "white") >= 3 for colour in colours)  # WCAG 2.1, 1.4.11


@pytest.mark.parametrize("ink", [style.INK, style.GREY])
def test_letters_stand_out_from_paper(ink: str) -> None:
    assert contrast(ink, "white") >= 4.5


@pytest.mark.parametrize("colours", [style.WEIGHTS, style.SIGNED, style.WAVES], ids=["weights", "signed", "waves"])
def test_letters_stand_out_from_every_cell(colours: matplotlib.colors.Colormap) -> None:
    for value in np.linspace(0, 1, 64):
        assert contrast(style.ink_on(colours(value)), colours(value)) >= 4.5


def test_what_no_font_has_becomes_a_square_and_all_else_stays() -> None:
    for label in ["▁The", "d'", "Ελλάδα", "русский", "dòng", "→ √d", "two\nlines"]:
        assert style.drawable(label) == label
    assert style.drawable("a\U0010fffd\tb") == "a□□b"  # private use, and a control character


def test_every_script_is_drawn_without_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with warnings_are_errors(), caplog.at_level(logging.WARNING), style.styled():
        figure = style.new_figure(2, 2)
        style.write_ticks(figure.subplots(), (), ["动物", "🚀", "한국어", "مرحبا"])
        figure.draw_without_rendering()
    assert not caplog.records


def test_dollars_are_money() -> None:
    with style.styled():
        figure = style.new_figure(2, 2)
        ax = figure.subplots()
        style.write_ticks(ax, ["$5$", "$x^2$"], ())
        style.cells(ax, [[0.0]], [["$1$"]])
        figure.draw_without_rendering()
        labels = [*ax.get_xticklabels(), *ax.texts]
        assert [label.get_text() for label in labels] == ["$5$", "$x^2$", "$1$"]
        assert not any(label.get_parse_math() for label in labels)


def test_cells_stand_where_their_row_and_column_say() -> None:
    values = np.arange(6.0).reshape(2, 3)
    texts = [["a", "b", "c"], ["d", "e", "f"]]
    with style.styled():
        ax = style.new_figure(2, 2).subplots()
        style.cells(ax, values, texts, origin=(10, 20))
    (mesh,) = ax.collections
    assert np.array_equal(np.asarray(mesh.get_array()).reshape(2, 3), values)
    assert {text.get_text(): text.get_position() for text in ax.texts} == {
        texts[i][j]: (10 + j, 20 + i) for i in range(2) for j in range(3)
    }
    assert ax.yaxis_inverted()  # the first row on top


def test_numbers_have_a_real_minus_and_no_negative_zero() -> None:
    assert style.numbers([[-1.234, -0.001, 0.0, 9.999]]) == [["−1.23", "0.00", "0.00", "10.00"]]
