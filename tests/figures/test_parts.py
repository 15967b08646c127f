"""The pictures of the parts name what is there."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from matplotlib.axes import Axes

from dragoman.figures import parts, style
from dragoman.model import attention
from dragoman.model.transformer import Transformer


@pytest.fixture
def ax() -> Axes:
    return style.new_figure((7.0, 7.0)).subplots()


def named(ax: Axes) -> list[str]:
    return [text.get_text() for text in ax.texts if text.get_color() == style.BLUE and text.get_text()]


def test_every_part_of_the_model_is_in_the_picture_under_its_name(ax: Axes) -> None:
    parts.transformer(ax)
    model = parts._small_model()
    encoder, decoder = model.encoder.layers[0], model.decoder.layers[0]
    sublayers = [*encoder.children(), *decoder.children()]
    ends = [model.source_embedding, model.source_positions, model.target_embedding, model.target_positions]
    assert sorted(named(ax)) == sorted(type(part).__name__ for part in [*sublayers, *ends, model.softmax])
    written = [text.get_text() for text in ax.texts]
    assert written.count("6 ×") == 2
    assert isinstance(model, Transformer)


def test_every_head_is_in_the_picture(ax: Axes) -> None:
    parts.multi_head(ax, num_heads=4)
    names = named(ax)
    assert names.count("scaled_dot_product_attention") == 4
    assert hasattr(attention, "scaled_dot_product_attention")
    assert names.count("Linear") == len(list(parts._small_model().encoder.layers[0].self_attention.children()))


@pytest.mark.parametrize("draw", [parts.transformer, parts.multi_head])
def test_drawing_takes_no_random_numbers_from_others(draw: Callable[[Axes], None], ax: Axes) -> None:
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    draw(ax)
    assert torch.equal(torch.rand(1), expected)
