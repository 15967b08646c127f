"""The six steps arrive at the model's attention."""

import re

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes

from dragoman.figures import style, walkthrough
from dragoman.model.attention import MultiHeadAttention, scaled_dot_product_attention


@pytest.fixture
def ax() -> Axes:
    with style.styled():
        return style.new_figure((7, 5)).subplots()


def random_steps(position: int) -> tuple[walkthrough.AttentionSteps, MultiHeadAttention, torch.Tensor]:
    torch.manual_seed(3)
    attention, embedded = MultiHeadAttention(6, num_heads=1), torch.randn(5, 6)
    return walkthrough.attention_steps(attention, embedded, position), attention, embedded


@pytest.mark.parametrize("position", [0, 3])
def test_six_steps_are_scaled_dot_product_attention(position: int) -> None:
    steps, attention, embedded = random_steps(position)
    query, key, value = (layer(embedded)[None, None] for layer in (attention.query, attention.key, attention.value))
    output, weights = scaled_dot_product_attention(query, key, value, need_weights=True)
    assert weights is not None
    # Each step from the one before, and the last of them is what the model computes.
    biases = (attention.query.bias, attention.key.bias, attention.value.bias)
    tables = (steps.queries, steps.keys, steps.values)
    for table, projection, bias in zip(tables, steps.projections, biases, strict=True):
        assert torch.allclose(table, embedded @ projection + bias, atol=1e-6)
    assert torch.allclose(steps.scores, torch.stack([steps.queries[position] @ key for key in steps.keys]))
    assert torch.allclose(steps.scaled, steps.scores / 6**0.5)
    assert torch.allclose(steps.weights, steps.scaled.softmax(dim=0))
    assert torch.allclose(steps.weights, weights[0, 0, position])
    assert torch.allclose(steps.weighted, steps.weights[:, None] * steps.values)
    assert torch.allclose(steps.output, steps.weighted.sum(dim=0))
    assert torch.allclose(steps.output, output[0, 0, position])


def test_the_steps_are_those_of_the_whole_block() -> None:
    steps, attention, embedded = random_steps(2)
    whole = attention(embedded[None], embedded[None], embedded[None])
    assert torch.allclose(attention.output(steps.output), whole[0, 2], atol=1e-6)


def test_the_small_example_can_be_done_in_the_head() -> None:
    steps = walkthrough.small_example()
    for table in (steps.embedded, steps.queries, steps.keys, steps.values, steps.scores, steps.scaled):
        assert torch.equal(table, table.round())
    assert steps.keys.size(1) == 4  # so that the root is 2
    assert 0.2 < steps.weights.min() < steps.weights.max() < 0.8


def test_the_example_leaves_the_callers_random_numbers_alone() -> None:
    torch.manual_seed(0)
    walkthrough.small_example()
    after = torch.rand(1)
    torch.manual_seed(0)
    assert torch.equal(after, torch.rand(1))


def test_every_number_of_every_step_is_in_the_picture(ax: Axes) -> None:
    walkthrough.attention_walkthrough(ax)
    steps = walkthrough.small_example()
    matrices, strips = ([], [])
    for artist in ax.collections:
        table = torch.from_numpy(np.asarray(artist.get_array()))
        (strips if len(table) == 1 else matrices).append(table)
    assert all(torch.equal(a, b.double()) for a, b in zip(matrices, steps.projections, strict=True))
    for table, matrix in zip((steps.queries, steps.keys, steps.values), steps.projections, strict=True):
        assert torch.equal(table, steps.embedded @ matrix)  # by hand: there is no bias
    tables = [steps.embedded, steps.queries, steps.keys, steps.values, steps.weighted, steps.output[None]]
    expected = [row for table in tables for row in table.double()]
    assert len(strips) == len(expected)
    assert all(any(torch.equal(strip.ravel(), row) for strip in strips) for row in expected)
    written = " ".join(text.get_text() for text in ax.texts)
    for number, (score, scaled, weight) in enumerate(zip(steps.scores, steps.scaled, steps.weights, strict=True)):
        index = "₁₂"[number]
        assert f"q₁ · k{index} = {score:g}" in written
        assert f"{score:g} ÷ 2 = {scaled:g}" in written
        assert f"exp({scaled:g}) ÷ Σ exp = {weight:.2g}" in written
        assert f"{weight:.2g} v{index}" in written
    assert re.findall(r"\b[1-6]\b", " ".join(t.get_text() for t in ax.texts if t.get_color() == style.BLUE)) == list(
        "123456"
    )


def test_any_sentence_can_be_drawn(ax: Axes) -> None:
    steps, _, _ = random_steps(0)
    words = ["a", "b", "c", "d", "e"]
    walkthrough.attention_walkthrough(ax, steps, words)
    assert [text.get_text() for text in ax.texts if text.get_text() in words] == words
