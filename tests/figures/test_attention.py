"""The drawn maps are the given weights, under the given labels."""

import numpy as np
import pytest
import torch

from dragoman.config import ModelConfig
from dragoman.figures import attention, style
from dragoman.figures.gallery import gallery
from dragoman.inspection.record import Inspection
from dragoman.model.transformer import Transformer
from tests.inspection.records import an_inspection

from .legibility import assert_legible
from .pictures import labels, maps, random_weights

QUERIES, KEYS = ["<s>", "Bonjour", "le", "monde"], ["Hello", "world", "</s>"]


@pytest.fixture(scope="module")
def inspection() -> Inspection:
    lengths = {
        "encoder.{}.self_attention": (3, 3),
        "decoder.{}.self_attention": (4, 4),
        "decoder.{}.cross_attention": (4, 3),
    }
    weights = {name.format(layer): random_weights(2, *shape) for layer in (0, 2, 10) for name, shape in lengths.items()}
    return an_inspection(["▁Hello", "▁world"], ["▁Bonjour", "▁le", "▁monde"], maps=weights)


def test_a_map_has_queries_downwards_and_keys_to_the_right() -> None:
    table = torch.rand(1, 4, 3, dtype=torch.bfloat16, requires_grad=True)  # as it may come from a model
    figure = attention.attention_heads(table, QUERIES, KEYS)
    (ax,) = maps(figure)
    assert np.array_equal(ax.images[0].get_array(), table[0].detach().double())
    assert ax.images[0].get_extent() == [-0.5, 2.5, 3.5, -0.5]  # the first query on top
    assert labels(ax, "y") == QUERIES
    assert labels(ax, "x") == KEYS


def test_labels_must_be_as_many_as_rows_and_columns() -> None:
    with pytest.raises(ValueError, match="4 queries and 3 keys"):
        attention.attention_heads(random_weights(1, 3, 4), QUERIES, KEYS)


@pytest.mark.parametrize("num_heads", [3, 7])
def test_every_head_is_drawn_on_one_scale_and_labelled_at_the_outside(num_heads: int) -> None:
    table = random_weights(num_heads, 4, 3)
    figure = attention.attention_heads(table, QUERIES, KEYS, "decoder 2")
    figure.draw_without_rendering()
    axes = maps(figure)
    assert len(axes) == num_heads
    assert len(figure.axes) == num_heads + 1  # no empty frames; one colour bar
    assert figure.get_suptitle() == "decoder 2"
    columns = min(num_heads, 4)
    for head, ax in enumerate(axes):
        assert np.array_equal(ax.images[0].get_array(), table[head])
        assert ax.get_title(loc="left") == f"head {head + 1}"
        assert ax.images[0].get_clim() == (0, table.max())
        has_queries = any(tick.label1.get_visible() for tick in ax.yaxis.get_major_ticks())
        has_keys = any(tick.label1.get_visible() for tick in ax.xaxis.get_major_ticks())
        assert has_queries == (head % columns == 0)
        assert has_keys == (head + columns >= num_heads)  # nothing below it


def test_an_overview_has_a_row_for_every_block_of_a_model_and_a_column_for_every_head() -> None:
    config = ModelConfig(
        d_model=8, d_ff=8, num_heads=2, num_encoder_layers=1, num_decoder_layers=2,
        source_vocab_size=9, target_vocab_size=9,
    )  # fmt: skip
    weights: dict[str, torch.Tensor] = {}
    Transformer(config).eval()(torch.tensor([[4, 5, 6, 3]]), torch.tensor([[2, 7, 8]]), weights)
    shown = an_inspection(["▁a"], ["▁b"], maps={name: table[0].detach().numpy() for name, table in weights.items()})
    axes = maps(attention.attention_overview(shown))
    assert [ax.get_ylabel().replace("\n", " ") for ax in axes[::2]] == [
        "encoder layer 1 self-attention",
        "decoder layer 1 self-attention",
        "decoder layer 1 cross-attention",
        "decoder layer 2 self-attention",
        "decoder layer 2 cross-attention",
    ]
    tables = [head.double().detach() for table in weights.values() for head in table[0]]
    for ax, table in zip(axes, tables, strict=True):
        assert np.array_equal(ax.images[0].get_array(), table)
        assert ax.images[0].get_clim() == (0, 1)


def test_a_translators_figures_show_its_last_layers(inspection: Inspection) -> None:
    pictures = {name: gallery(inspection)[name].draw() for name in list(gallery(inspection))[-3:]}
    kinds = {ax.get_title(loc="left"): ax for ax in maps(pictures["translator-attention"])}
    steps, source, target = attention.steps_of(inspection), KEYS, QUERIES
    for title, block, rows, columns in (
        ("encoder self-attention", "encoder.10.self_attention", source, source),
        ("decoder self-attention", "decoder.10.self_attention", steps, target),
        ("cross-attention", "decoder.10.cross_attention", steps, source),
    ):
        mean = np.asarray(inspection.maps[block]).mean(axis=0)
        assert np.asarray(kinds[title].images[0].get_array()) == pytest.approx(mean)
        assert labels(kinds[title], "y") in (rows, [])  # none where a neighbour has them
        assert labels(kinds[title], "x") in (columns, [])
    heads = [ax.images[0].get_array() for ax in maps(pictures["translator-heads"])]
    assert np.array_equal(heads, inspection.maps["decoder.10.cross_attention"])
    assert len(maps(pictures["translator-overview"])) == 2 * len(inspection.maps)
    for name, figure in pictures.items():
        assert_legible(figure, name)


def test_a_step_names_what_is_read_and_what_is_written() -> None:
    steps = attention.steps_of(an_inspection(["▁a"], ["▁Haus", "▁و"]))
    # The marks of direction keep the arrow between what is read and what is written, whatever their scripts.
    assert steps[2] == "\u200eو\u200e → \u200e</s>"
    assert [step.replace("\u200e", "") for step in steps[:2]] == ["<s> → Haus", "Haus → و"]


def test_a_very_long_sentence_stays_a_picture_that_can_be_written() -> None:
    words = [f"word{i}" for i in range(1000)]
    figure = attention.attention_heads(random_weights(1, 1000, 1000), words, words)
    assert max(figure.get_size_inches()) * 200 < 2**16  # Matplotlib's limit for an image's side, in pixels
    (ax,) = maps(figure)
    assert len(labels(ax, "x")) <= style.MOST_LABELS
    assert labels(ax, "x")[1] == words[int(ax.get_xticks()[1])]  # what is labelled is labelled rightly


@pytest.mark.parametrize("length", [3, 24])
def test_labels_have_room_however_long_the_sentence(length: int) -> None:
    words = [f"Wörterbuch{i}" for i in range(length)]
    assert_legible(attention.attention_heads(random_weights(2, length, length), words, words, "a title"))
