"""The drawn waves, images and tables are those of the model's positional encoding."""

import math

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh

from dragoman.figures import positions, style
from dragoman.model.embedding import PositionalEncoding, sinusoids


def axes(number: int = 1) -> list[Axes]:
    with style.styled():
        return list(style.new_figure((6, 3)).subplots(1, number, squeeze=False)[0])


@pytest.mark.parametrize(("d_model", "dimensions"), [(16, range(4, 8)), (32, range(8, 16))])
def test_each_line_is_a_column_of_the_encoding(d_model: int, dimensions: range) -> None:
    (ax,) = axes()
    positions.waves_by_dimension(ax, d_model, 128, dimensions)
    # What the model adds to an embedding of zeros, as the lines must show it.
    table = PositionalEncoding(d_model, 128, dropout=0.0)(torch.zeros(1, 128, d_model))[0].numpy()
    assert len(ax.lines) == len(dimensions)
    for line, dimension in zip(ax.lines, dimensions, strict=True):
        assert np.array_equal(line.get_ydata(), table[:, dimension])
        assert line.get_label() == f"dimension {dimension}"
    assert [text.get_text() for text in ax.texts] == [line.get_label() for line in ax.lines]


def test_a_sine_and_its_cosine_share_a_colour_and_nothing_else_does() -> None:
    (ax,) = axes()
    positions.waves_by_dimension(ax, 32, dimensions=range(8, 16))
    colours = [line.get_color() for line in ax.lines]
    assert colours[::2] == colours[1::2]
    assert len(set(colours)) == 4
    assert {line.get_linestyle() for line in ax.lines[::2]} == {"-"}
    assert {line.get_linestyle() for line in ax.lines[1::2]} == {"--"}


def test_all_columns_stand_side_by_side_with_position_0_on_top() -> None:
    (ax,) = axes()
    positions.waves_of_all_dimensions(ax)
    table = sinusoids(128, 16).numpy()
    for dimension, line in enumerate(ax.lines):
        x = np.asarray(line.get_xdata())
        assert np.array_equal(line.get_ydata(), np.arange(128))
        assert np.corrcoef(x, table[:, dimension])[0, 1] == pytest.approx(1) or np.ptp(x) < 1e-4
        assert (np.abs(x - dimension) < 0.5).all()  # no wave reaches its neighbour's place
    assert len(ax.lines) == 16
    assert ax.yaxis_inverted()


def test_all_rows_stand_one_below_the_other() -> None:
    (ax,) = axes()
    positions.waves_by_position(ax)
    table = sinusoids(16, 128).numpy()
    assert len(ax.lines) == 2 * 16
    for number, line in enumerate(ax.lines):
        position, first = divmod(number, 2)
        # The axis points downwards, so a positive value is drawn above its place.
        drawn = (position - np.asarray(line.get_ydata())) / 0.42
        assert np.asarray(line.get_xdata()).tolist() == list(range(first, 128, 2))
        assert drawn == pytest.approx(table[position, first::2], abs=1e-5)
    assert ax.yaxis_inverted()


def test_the_image_is_the_whole_table_and_its_zooms_are_its_corners() -> None:
    panels = axes(3)
    positions.encoding_map_with_zooms(panels)
    table = sinusoids(128, 512).numpy()
    whole, first, last = (ax.images[0] for ax in panels)
    assert np.array_equal(whole.get_array(), table)
    assert np.array_equal(first.get_array(), table[:16, :32])
    assert np.array_equal(last.get_array(), table[:16, 480:])
    assert whole.get_extent() == [-0.5, 511.5, 127.5, -0.5]  # row 0 on top, column 0 on the left
    assert last.get_extent() == [479.5, 511.5, 15.5, -0.5]
    assert [text.get_text() for text in panels[0].texts] == ["A", "B"]


def test_the_zoom_shows_what_its_caption_says() -> None:
    table = sinusoids(128, 512)[:16, 480:]
    assert table[:, 0::2].abs().max() < 0.01  # sines stay close to 0
    assert table[:, 1::2].min() > 0.99  # cosines close to 1


def test_the_table_has_the_values_under_the_functions_that_make_them() -> None:
    (ax,) = axes()
    positions.encoding_table(ax)
    texts = [text.get_text() for text in ax.texts]
    heads = [label.get_text().split("\n") for label in ax.get_xticklabels()]
    assert len(texts) == 6 * len(heads)
    for place, text in enumerate(texts):
        position, column = divmod(place, len(heads))
        dimension, function, argument = heads[column]
        divisor = float(argument.removeprefix("(pos / ").removesuffix(")"))
        assert divisor == pytest.approx(10_000 ** (int(dimension) // 2 * 2 / 512), rel=1e-3)
        by_hand = {"sin": math.sin, "cos": math.cos}[function](position / divisor)
        assert float(text.replace("−", "-")) == pytest.approx(by_hand, abs=2e-3)
    (mesh,) = (artist for artist in ax.collections if isinstance(artist, QuadMesh))
    dimensions = [int(head[0]) for head in heads]
    assert np.array_equal(np.ravel(mesh.get_array()), sinusoids(6, 512)[:, dimensions].double().flatten())


def test_the_product_of_two_positions_depends_on_their_distance_only() -> None:
    by_position, by_distance = axes(2)
    positions.products_by_position(by_position)
    positions.products_by_distance(by_distance)
    table = sinusoids(128, 512).double()
    products = (table @ table.T / 256).numpy()
    assert np.asarray(by_position.images[0].get_array()) == pytest.approx(products)
    curve: dict[int, float] = {}
    for line in by_distance.lines:
        for distance, product in zip(np.asarray(line.get_xdata()), np.asarray(line.get_ydata()), strict=True):
            assert curve.setdefault(distance, product) == pytest.approx(product, abs=1e-5)  # one curve for all
    assert curve[0] == pytest.approx(1)
    assert all(curve[0] >= product and curve[-d] == pytest.approx(product, abs=1e-5) for d, product in curve.items())


def test_the_sum_is_the_sum_and_no_random_number_of_the_callers_is_used_up() -> None:
    panels = axes(3)
    torch.manual_seed(0)
    positions.embedding_with_positions(panels)
    after = torch.rand(1)
    torch.manual_seed(0)
    assert torch.equal(after, torch.rand(1))
    embedded, encoding, total = (np.asarray(ax.collections[0].get_array()).ravel() for ax in panels)
    assert total == pytest.approx(embedded + encoding)
    assert np.array_equal(encoding, sinusoids(4, 4).double().flatten())
    assert [label.get_text() for label in panels[0].get_yticklabels()] == list(positions.WORDS)
