"""The drawn maps are the given weights, under the given labels."""

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from dragoman.config import ModelConfig
from dragoman.figures import attention, style
from dragoman.model.transformer import Transformer

from .legibility import assert_legible

QUERIES, KEYS = ["<s>", "Bonjour", "le", "monde"], ["Hello", "world", "</s>"]


def weights(*shape: int) -> NDArray[np.float64]:
    return np.random.default_rng(0).dirichlet(np.ones(shape[-1]), shape[:-1])


def empty(size: tuple[float, float] = (7, 5)) -> Figure:
    return style.new_figure(size)


def labels(ax: Axes, axis: str) -> list[str]:
    ticks = ax.get_xticklabels() if axis == "x" else ax.get_yticklabels()
    return [label.get_text() for label in ticks]


def test_a_map_has_queries_downwards_and_keys_to_the_right() -> None:
    with style.styled():
        ax = empty().subplots()
        table = weights(4, 3)
        image = attention.attention_map(ax, table, QUERIES, KEYS)
    assert np.array_equal(image.get_array(), table)
    assert image.get_extent() == [-0.5, 2.5, 3.5, -0.5]  # the first query on top
    assert labels(ax, "y") == QUERIES
    assert labels(ax, "x") == KEYS
    assert image.get_clim() == (0, table.max())


def test_the_darkest_shade_can_be_fixed() -> None:
    with style.styled():
        image = attention.attention_map(empty().subplots(), weights(4, 3), QUERIES, KEYS, highest=1.0)
    assert image.get_clim() == (0, 1)


def test_tensors_are_taken_as_they_come_from_the_model() -> None:
    table = torch.rand(4, 3, dtype=torch.bfloat16, requires_grad=True)
    with style.styled():
        image = attention.attention_map(empty().subplots(), table, QUERIES, KEYS)
    assert np.array_equal(image.get_array(), table.detach().double())


@pytest.mark.parametrize("shape", [(3, 4), (4, 4), (2, 4, 3)])
def test_labels_must_be_as_many_as_rows_and_columns(shape: tuple[int, ...]) -> None:
    with style.styled(), pytest.raises(ValueError, match="4 queries and 3 keys"):
        attention.attention_map(empty().subplots(), weights(*shape), QUERIES, KEYS)


def test_rows_of_heads_are_as_even_as_can_be() -> None:
    words = [f"word{i}" for i in range(9)]  # three maps would fit beside each other
    with style.styled():
        figure = empty(attention.attention_heads_size(4, words, words))
        axes = attention.attention_heads(figure, weights(4, 9, 9), words, words)
        figure.draw_without_rendering()
    left, top = ([round(getattr(ax.get_position(), side), 3) for ax in axes] for side in ("x0", "y1"))
    assert (left[0], left[1]) == (left[2], left[3])
    assert (top[0], top[2]) == (top[1], top[3])
    assert len(set(left)) == len(set(top)) == 2


@pytest.mark.parametrize("num_heads", [1, 3, 8])
def test_every_head_is_drawn_on_one_scale(num_heads: int) -> None:
    table = weights(num_heads, 4, 3)
    with style.styled():
        figure = empty(attention.attention_heads_size(num_heads, QUERIES, KEYS))
        axes = attention.attention_heads(figure, table, QUERIES, KEYS, "decoder 2")
    assert len(axes) == num_heads
    for head, ax in enumerate(axes):
        assert np.array_equal(ax.images[0].get_array(), table[head])
        assert ax.get_title(loc="left") == f"head {head + 1}"
        assert ax.images[0].get_clim() == (0, table.max())
    assert figure.get_suptitle() == "decoder 2"
    assert len(figure.axes) == num_heads + 1  # no empty frames; one colour bar


def test_outer_maps_carry_the_labels_for_the_inner_ones() -> None:
    with style.styled():
        figure = empty(attention.attention_heads_size(7, QUERIES, KEYS))
        axes = attention.attention_heads(figure, weights(7, 4, 3), QUERIES, KEYS)
        figure.draw_without_rendering()
    columns = 4
    for head, ax in enumerate(axes):
        has_queries = any(tick.label1.get_visible() for tick in ax.yaxis.get_major_ticks())
        has_keys = any(tick.label1.get_visible() for tick in ax.xaxis.get_major_ticks())
        assert has_queries == (head % columns == 0)
        assert has_keys == (head + columns >= 7)  # nothing below it


def test_an_overview_has_a_row_for_every_block_of_a_model_and_a_column_for_every_head() -> None:
    config = ModelConfig(
        d_model=8, d_ff=8, num_heads=2, num_encoder_layers=1, num_decoder_layers=2,
        source_vocab_size=9, target_vocab_size=9,
    )  # fmt: skip
    maps: dict[str, torch.Tensor] = {}
    Transformer(config).eval()(torch.tensor([[4, 5, 6, 3]]), torch.tensor([[2, 7, 8]]), maps)
    with style.styled():
        figure = empty(attention.attention_overview_size(len(maps), 2))
        axes = attention.attention_overview(figure, {name: table[0] for name, table in maps.items()})
    assert [row[0].get_ylabel().replace("\n", " ") for row in axes] == [
        "encoder layer 1 self-attention",
        "decoder layer 1 self-attention",
        "decoder layer 1 cross-attention",
        "decoder layer 2 self-attention",
        "decoder layer 2 cross-attention",
    ]
    for row, table in zip(axes, maps.values(), strict=True):
        for head, ax in enumerate(row):
            assert np.array_equal(ax.images[0].get_array(), table[0, head].detach().double())
            assert ax.images[0].get_clim() == (0, 1)


def test_blocks_with_fewer_heads_leave_room() -> None:
    with style.styled():
        figure = empty()
        axes = attention.attention_overview(figure, {"a": weights(1, 2, 2), "b": weights(3, 2, 2)})
        figure.draw_without_rendering()
    assert [len(row) for row in axes] == [1, 3]
    assert len(figure.axes) == 1 + 3 + 1  # maps and the colour bar


def test_the_three_kinds_share_rows_and_columns() -> None:
    tables = {
        "encoder self-attention": weights(3, 3),
        "decoder self-attention": weights(4, 4),
        "cross-attention": weights(4, 3),
    }
    with style.styled():
        steps = [f"{query} → …" for query in QUERIES]
        figure = empty(attention.attention_kinds_size(KEYS, QUERIES, steps))
        axes = attention.attention_kinds(figure, tables, {"source": KEYS, "target": QUERIES}, steps)
        figure.draw_without_rendering()
    for kind, table in tables.items():
        assert np.array_equal(axes[kind].images[0].get_array(), table)
    source, target, cross = (axes[kind].get_position() for kind in tables)
    assert (cross.x0, cross.x1) == pytest.approx((source.x0, source.x1))  # the same keys
    assert (cross.y0, cross.y1) == pytest.approx((target.y0, target.y1))  # the same queries
    assert labels(axes["cross-attention"], "y") == steps
    assert labels(axes["cross-attention"], "x") == KEYS
    assert labels(axes["decoder self-attention"], "x") == QUERIES


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("encoder.0.self_attention", "encoder layer 1 self-attention"),
        ("decoder.11.cross_attention", "decoder layer 12 cross-attention"),
        ("something else", "something else"),
        ("a.b.c", "a.b.c"),
    ],
)
def test_block_names_are_put_into_words(name: str, words: str) -> None:
    assert attention.block_in_words(name) == words


def test_a_very_long_sentence_stays_a_picture_that_can_be_written() -> None:
    words = [f"word{i}" for i in range(1000)]
    for width, height in (
        attention.attention_map_size(words, words),
        attention.attention_heads_size(16, words, words),
        attention.attention_kinds_size(words, words, words),
    ):
        assert max(width, height) * 200 < 2**16  # Matplotlib's limit for an image's side, in pixels
    with style.styled():
        ax = empty().subplots()
        attention.attention_map(ax, weights(1000, 1000), words, words)
    assert len(labels(ax, "x")) <= attention.MOST_LABELS
    assert labels(ax, "x")[1] == words[int(ax.get_xticks()[1])]  # what is labelled is labelled rightly


@pytest.mark.parametrize("length", [3, 12, 24])
def test_labels_have_room_however_long_the_sentence(length: int) -> None:
    words = [f"Wörterbuch{i}" for i in range(length)]
    with style.styled():
        figure = empty(attention.attention_heads_size(2, words, words))
        attention.attention_heads(figure, weights(2, length, length), words, words, "a title")
        assert_legible(figure)
        figure = empty(attention.attention_map_size(words, words))
        attention.attention_map(figure.subplots(), weights(length, length), words, words)
        assert_legible(figure)


def test_long_labels_are_cut_and_others_are_not() -> None:
    with style.styled():
        ax = empty().subplots()
        attention.attention_map(ax, weights(1, 2), ["q"], ["Donaudampfschifffahrt", "ist"])
    assert labels(ax, "x") == ["Donaudampfsch…", "ist"]
