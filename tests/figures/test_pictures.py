"""The pictures show what the project's own modules compute."""

import math
import re

import numpy as np
import pytest
import torch
from matplotlib.patches import Rectangle

from dragoman.config import OptimizerConfig
from dragoman.figures import masks, normalization, parts, positions, style, training, walkthrough
from dragoman.model.attention import scaled_dot_product_attention
from dragoman.model.embedding import PositionalEncoding, sinusoids
from dragoman.model.masks import causal_mask, padding_mask
from dragoman.training.loss import label_smoothed_cross_entropy
from dragoman.training.optimizer import learning_rate

from .pictures import hatched, labels, shown_mask, tables, written


def test_drawing_uses_up_no_random_number_of_the_caller() -> None:
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    for draw in (
        parts.transformer.draw,
        parts.multi_head_attention.draw,
        positions.embedding_with_positions.draw,
        walkthrough.attention_walkthrough.draw,
        normalization.add_and_norm.draw,
    ):
        draw()
    assert torch.equal(torch.rand(1), expected)


# ---- parts


def test_every_part_of_the_model_is_in_the_picture_under_its_name() -> None:
    (ax,) = parts.transformer.draw().axes
    model = parts._small_model()
    sublayers = [*model.encoder.layers[0].children(), *model.decoder.layers[0].children()]
    ends = [model.source_embedding, model.source_positions, model.target_embedding, model.target_positions]
    named = [text.get_text() for text in ax.texts if text.get_color() == style.BLUE and text.get_text()]
    assert sorted(named) == sorted(type(part).__name__ for part in [*sublayers, *ends, model.softmax])
    assert written(ax).count("6 ×") == 2


def test_every_head_and_projection_is_in_the_picture() -> None:
    (ax,) = parts.multi_head_attention.draw().axes
    assert written(ax).count("scaled_dot_product_attention") == 3
    assert written(ax).count("Linear") == len(list(parts._small_model().encoder.layers[0].self_attention.children()))


# ---- masks


def test_padding_is_hidden_and_only_padding() -> None:
    (ax,) = masks.padding_grid.draw().axes
    assert np.array_equal(shown_mask(ax), padding_mask(masks.IDS, 0)[:, 0, 0])
    assert written(ax) == [str(token) for token in masks.IDS.flatten().tolist()]


def test_the_future_is_hidden() -> None:
    (ax,) = masks.causal_grid.draw().axes
    assert np.array_equal(shown_mask(ax), causal_mask(7)[0, 0])
    assert ax.yaxis_inverted()  # the first query on top: the triangle is the lower one
    legend = ax.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["may attend", "hidden"]


def test_target_masks_hide_the_future_and_the_padding() -> None:
    both = padding_mask(masks.IDS, 0) & causal_mask(7)
    for ax, mask, ids in zip(masks.target_grids.draw().axes, both, masks.IDS, strict=True):
        assert np.array_equal(shown_mask(ax), mask[0])
        # What the caption says: compared with the causal mask alone, only the rows of padding differ.
        differs = (shown_mask(ax) != causal_mask(7)[0, 0].numpy()).any(axis=1)
        assert np.array_equal(differs, (ids == 0).numpy())


def test_masks_are_repeated_for_every_head_and_sentence_as_attention_repeats_them() -> None:
    for part, mask in zip(masks.mask_blocks.draw().subfigs, (padding_mask(masks.IDS, 0), causal_mask(7)), strict=True):
        masked = torch.zeros(3, 3, 7, 7).masked_fill(~mask, 1.0) == 0  # what attention sees after broadcasting
        shown = np.array([shown_mask(ax) for ax in part.axes]).reshape(3, 3, 7, 7)
        assert np.array_equal(shown, masked)


def test_masked_scores_are_minus_infinity_and_get_no_weight() -> None:
    scores, masked, shares = masks.masked_weights.draw().axes
    weights = masks.SCORES.masked_fill(~causal_mask(4)[0, 0], -torch.inf).softmax(dim=1)
    assert tables(shares)[0] == pytest.approx(weights.numpy(), abs=1e-6)
    assert written(scores) == [f"{score:g}" for score in masks.SCORES.flatten().tolist()]
    hidden = (~causal_mask(4)).flatten().tolist()
    assert [text == "−∞" for text in written(masked)] == hidden
    assert written(shares) == [f"{weight:.2f}" for weight in weights.flatten().tolist()]
    assert len(hatched(masked)) == sum(hidden) == 6


@pytest.mark.parametrize("fallbacks", [True, False])
def test_each_step_sees_one_token_more_and_finds_the_next(fallbacks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not fallbacks:
        monkeypatch.setattr(style, "families", lambda: ["DejaVu Sans"])
    (ax,) = masks.decoding_steps.draw().axes
    assert np.array_equal(shown_mask(ax), causal_mask(14)[0, 0])
    tokens = ["<s>", *(masks.SENTENCE if style.can_draw(masks.SENTENCE) else masks.READINGS)]
    cells = [token for step in range(14) for token in tokens[: step + 1]]
    found = [f"→ {token}" for token in [*tokens[1:], "</s>"]]
    assert written(ax) == [*cells, *found, "finds"]
    assert [label.split("\n")[0] for label in labels(ax, "x")] == tokens
    assert [label.split("\n")[-1] for label in labels(ax, "x")][1:] == masks.READINGS


# ---- positions


def test_each_line_is_a_column_of_the_encoding() -> None:
    for ax, d_model, dimensions in zip(
        positions.waves_by_dimension.draw().axes, (16, 32), (range(4, 8), range(8, 16)), strict=True
    ):
        # What the model adds to an embedding of zeros, as the lines must show it.
        table = PositionalEncoding(d_model, 128, dropout=0.0)(torch.zeros(1, 128, d_model))[0].numpy()
        for line, dimension in zip(ax.lines, dimensions, strict=True):
            assert np.array_equal(line.get_ydata(), table[:, dimension])
            assert line.get_label() == f"dimension {dimension}"
        colours = [line.get_color() for line in ax.lines]
        assert colours[::2] == colours[1::2]  # a sine and its cosine
        assert len(set(colours)) == len(dimensions) / 2


def test_all_columns_stand_side_by_side_with_position_0_on_top() -> None:
    (ax,) = positions.waves_of_all_dimensions.draw().axes
    table = sinusoids(128, 16).numpy()
    for dimension, line in enumerate(ax.lines):
        assert np.array_equal(line.get_ydata(), np.arange(128))
        assert (np.asarray(line.get_xdata()) - dimension) / 0.42 == pytest.approx(table[:, dimension], abs=1e-5)
    assert len(ax.lines) == 16
    assert ax.yaxis_inverted()


def test_all_rows_stand_one_below_the_other() -> None:
    (ax,) = positions.waves_by_position.draw().axes
    table = sinusoids(16, 128).numpy()
    for number, line in enumerate(ax.lines):
        position, first = divmod(number, 2)
        # The axis points downwards, so a positive value is drawn above its place.
        drawn = (position - np.asarray(line.get_ydata())) / 0.42
        assert np.asarray(line.get_xdata()).tolist() == list(range(first, 128, 2))
        assert drawn == pytest.approx(table[position, first::2], abs=1e-5)
    assert len(ax.lines) == 2 * 16
    assert ax.yaxis_inverted()


def test_the_image_is_the_whole_table_and_its_zooms_are_its_corners() -> None:
    whole, first, last = (ax.images[0] for ax in positions.encoding_map.draw().axes if ax.images)
    table = sinusoids(128, 512).numpy()
    assert np.array_equal(whole.get_array(), table)
    assert np.array_equal(first.get_array(), table[:16, :32])
    assert np.array_equal(last.get_array(), table[:16, 480:])
    assert whole.get_extent() == [-0.5, 511.5, 127.5, -0.5]  # row 0 on top, column 0 on the left
    assert last.get_extent() == [479.5, 511.5, 15.5, -0.5]
    # What the caption says of the last dimensions.
    assert abs(table[:16, 480::2]).max() < 0.01
    assert table[:16, 481::2].min() > 0.99


def test_the_table_has_the_values_under_the_functions_that_make_them() -> None:
    (ax,) = positions.encoding_table.draw().axes
    heads = [label.split("\n") for label in labels(ax, "x")]
    assert len(written(ax)) == 6 * len(heads)
    for place, text in enumerate(written(ax)):
        position, column = divmod(place, len(heads))
        dimension, function, argument = heads[column]
        divisor = float(argument.removeprefix("(pos / ").removesuffix(")"))
        assert divisor == pytest.approx(10_000 ** (int(dimension) // 2 * 2 / 512), rel=1e-3)
        by_hand = {"sin": math.sin, "cos": math.cos}[function](position / divisor)
        assert float(text.replace("−", "-")) == pytest.approx(by_hand, abs=2e-3)


def test_the_product_of_two_positions_depends_on_their_distance_only() -> None:
    by_position, by_distance, _ = positions.products.draw().axes
    table = sinusoids(128, 512).double()
    assert np.asarray(by_position.images[0].get_array()) == pytest.approx((table @ table.T / 256).numpy())
    curve: dict[int, float] = {}
    for line in by_distance.lines:
        for distance, product in zip(np.asarray(line.get_xdata()), np.asarray(line.get_ydata()), strict=True):
            assert curve.setdefault(distance, product) == pytest.approx(product, abs=1e-5)  # one curve for all
    assert curve[0] == pytest.approx(1)


def test_what_enters_the_first_layer_is_the_sum() -> None:
    panels = positions.embedding_with_positions.draw().axes
    (embedded,), (encoding,), (total,) = map(tables, panels)
    assert total == pytest.approx(embedded + encoding)
    assert np.array_equal(encoding, sinusoids(4, 4).double())
    assert labels(panels[0], "y") == list(positions.WORDS)


# ---- normalisation


def test_batch_norm_levels_columns_and_layer_norm_rows() -> None:
    panels = normalization.normalisation_tables.draw().axes
    before, by_batch, by_layer = (tables(ax)[0] for ax in panels)
    assert np.array_equal(before, normalization.VALUES.double())
    assert by_batch.mean(axis=0) == pytest.approx(np.zeros(4), abs=1e-6)
    assert by_batch.var(axis=0) == pytest.approx(np.ones(4), abs=1e-4)
    assert by_layer.mean(axis=1) == pytest.approx(np.zeros(5), abs=1e-6)
    assert by_layer.var(axis=1) == pytest.approx(np.ones(5), abs=1e-4)
    for ax, table, groups in zip(panels, (before, by_batch, by_layer), (0, 4, 5), strict=True):
        at = {text.get_position(): text.get_text() for text in ax.texts}
        assert [at[column, 5] for column in range(4)] == style.numbers([table.mean(axis=0)], 1)[0]
        assert [at[5, row] for row in range(5)] == style.numbers([table.std(axis=1)], 1)[0]
        frames = {(*p.get_xy(), p.get_width(), p.get_height()) for p in ax.patches if isinstance(p, Rectangle)}
        columns, rows = {(x - 0.5, -0.5, 1, 5) for x in range(4)}, {(-0.5, y - 0.5, 4, 1) for y in range(5)}
        assert frames == {0: set(), 4: columns, 5: rows}[groups]


def test_add_and_norm_is_a_sum_whose_tokens_are_normalised() -> None:
    (x,), (output,), (total,), (norm,) = map(tables, normalization.add_and_norm.draw().axes)
    assert np.array_equal(x, normalization.VALUES[:3])
    assert np.array_equal(output, normalization.SUBLAYER)
    assert np.array_equal(total, x + output)
    centred = total - total.mean(axis=1, keepdims=True)
    assert norm == pytest.approx(centred / total.std(axis=1, keepdims=True), abs=1e-4)


# ---- training


def test_each_curve_is_the_trainers_schedule() -> None:
    paper, schedules = training.learning_rates.draw().axes
    settings = [(OptimizerConfig(warmup_steps=warmup), d_model) for d_model, warmup in training.SETTINGS]
    settings += [(config, 512) for config in training.SCHEDULES]
    for line, (config, d_model) in zip([*paper.lines, *schedules.lines], settings, strict=True):
        steps, rates = 1000 * np.asarray(line.get_xdata()), np.asarray(line.get_ydata()) / 1000
        by_hand = [learning_rate(config, d_model, round(step), step / 20_000) for step in steps]
        assert rates.tolist() == pytest.approx(by_hand)
        assert (steps[0], steps[-1]) == (1, 20_000)
        assert abs(steps[rates.argmax()] - config.warmup_steps) <= 50  # the grid of steps that are drawn
    assert [line.get_label() for line in schedules.lines] == ["paper", "inverse-sqrt", "linear", "cosine"]
    # What the caption says: a longer warm-up only cuts off the peak.
    short, long = (np.asarray(paper.lines[number].get_ydata()) for number in (1, 2))
    late = np.asarray(paper.lines[1].get_xdata()) >= 8
    assert np.array_equal(short[late], long[late])


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.7])
def test_the_smoothed_target_is_what_the_loss_asks_for(smoothing: float) -> None:
    expected = torch.full((8,), smoothing / 8, dtype=torch.float64)
    expected[2] += 1 - smoothing
    assert torch.allclose(training.smoothed_target(2, 8, smoothing), expected)
    probabilities = torch.tensor([[0.1, 0.1, 0.1, 0.7]])
    loss, _ = label_smoothed_cross_entropy(probabilities.log(), torch.tensor([3]), smoothing)
    assert training.smoothed_loss([0.7], 4, smoothing) == pytest.approx([loss.item()])


def test_the_loss_is_lowest_where_the_prediction_is_the_smoothed_target() -> None:
    bars, curves = training.label_smoothing.draw().axes
    assert [text.split(": ")[-1] for text in written(bars) if text] == ["0.0125"] * 7 + ["0.9125", "1"]
    assert labels(bars, "y") == list(training.TOKENS)
    lines = [line for line in curves.lines if len(np.asarray(line.get_xdata())) > 1]
    for line, smoothing in zip(lines, training.SMOOTHINGS, strict=True):
        at, losses = np.asarray(line.get_xdata()), np.asarray(line.get_ydata())
        lowest = 1 - smoothing + smoothing / 8
        assert at[losses.argmin()] == pytest.approx(lowest, abs=0.006)
        assert (np.diff(losses)[at[1:] < lowest - 0.006] < 0).all()  # down, then up
        assert (np.diff(losses)[at[:-1] > lowest + 0.006] > 0).all()
    assert written(curves) == ["lowest at 0.91", "lowest at 0.82"]


# ---- attention in six steps


def test_six_steps_are_scaled_dot_product_attention() -> None:
    steps = walkthrough.attention_steps()
    query, key, value = steps["q"], steps["k"], steps["v"]
    output, weights = scaled_dot_product_attention(*(x[None, None] for x in (query, key, value)), need_weights=True)
    assert weights is not None
    # Each step from the one before, and the last of them is what the model computes.
    assert torch.allclose(steps["score"], torch.stack([query[0] @ other for other in key]), atol=1e-6)
    assert torch.allclose(steps["scaled"], steps["score"] / 4**0.5)
    assert torch.allclose(steps["weight"], steps["scaled"].softmax(dim=0), atol=1e-6)
    assert torch.allclose(steps["weight"], weights[0, 0, 0])
    assert torch.allclose(steps["weighted"], steps["weight"][:, None] * value)
    assert torch.allclose(steps["output"], steps["weighted"].sum(dim=0))
    assert torch.allclose(steps["output"], output[0, 0, 0])


def test_every_number_of_every_step_is_in_the_picture_and_can_be_computed_in_the_head() -> None:
    (ax,) = walkthrough.attention_walkthrough.draw().axes
    steps = walkthrough.attention_steps()
    for name in ("x", "q", "k", "v", "score", "scaled"):
        assert torch.equal(steps[name], steps[name].round())
    matrices = [torch.from_numpy(table) for table in tables(ax) if len(table) > 1]
    strips = [torch.from_numpy(table[0]) for table in tables(ax) if len(table) == 1]
    for matrix, vectors in zip(matrices, (steps["q"], steps["k"], steps["v"]), strict=True):
        assert torch.equal(vectors.double(), steps["x"].double() @ matrix)  # by hand: there is no bias
    expected = [row.double() for name in "xqkv" for row in steps[name]]
    expected += [*steps["weighted"].double(), steps["output"].double()]
    assert len(strips) == len(expected)
    assert all(any(torch.equal(strip, row) for strip in strips) for row in expected)
    text = " ".join(written(ax))
    for n, (score, scaled, weight) in enumerate(zip(steps["score"], steps["scaled"], steps["weight"], strict=True)):
        index = "₁₂"[n]
        assert f"q₁ · k{index} = {score:g}" in text
        assert f"{score:g} ÷ 2 = {scaled:g}" in text
        assert f"exp({scaled:g}) ÷ Σ exp = {weight:.2g}" in text
        assert f"{weight:.2g} v{index}" in text
    blue = " ".join(t.get_text() for t in ax.texts if t.get_color() == style.BLUE)
    assert re.findall(r"\d", blue) == list("123456")
