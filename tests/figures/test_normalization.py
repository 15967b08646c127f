"""Batch and layer normalisation: who is averaged with whom."""

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from dragoman.config import ModelConfig
from dragoman.figures import normalization, style
from dragoman.model.layers import SublayerConnection

VALUES = torch.tensor(normalization.VALUES)


@pytest.fixture
def panels() -> list[Axes]:
    with style.styled():
        axes = list(style.new_figure((7, 3)).subplots(1, 3))
        normalization.normalisation_tables(axes)
    return axes


def table(ax: Axes) -> np.ndarray:
    return np.asarray(ax.collections[0].get_array()).reshape(VALUES.shape)


def test_batch_norm_levels_columns_and_layer_norm_rows(panels: list[Axes]) -> None:
    before, by_batch, by_layer = (table(ax) for ax in panels)
    assert np.array_equal(before, VALUES.double())
    assert by_batch.mean(axis=0) == pytest.approx(np.zeros(4), abs=1e-6)
    assert by_batch.var(axis=0) == pytest.approx(np.ones(4), abs=1e-4)
    assert by_layer.mean(axis=1) == pytest.approx(np.zeros(5), abs=1e-6)
    assert by_layer.var(axis=1) == pytest.approx(np.ones(5), abs=1e-4)
    assert abs(by_batch.mean(axis=1)).max() > 0.1  # and neither does the other's work
    assert abs(by_layer.mean(axis=0)).max() > 0.1


def test_layer_norm_is_the_models() -> None:
    connection = SublayerConnection(ModelConfig(d_model=4, num_heads=1, dropout=0.0)).eval()
    with torch.no_grad():
        models = connection(VALUES, torch.zeros_like)  # post-norm of x + 0
    assert torch.allclose(normalization.normalised(VALUES)[1], models)


def test_a_tokens_layer_norm_does_not_depend_on_its_batch_but_its_batch_norm_does() -> None:
    whole, part = normalization.normalised(VALUES), normalization.normalised(VALUES[:3])
    assert torch.allclose(whole[1][:3], part[1])
    assert not torch.allclose(whole[0][:3], part[0], atol=0.1)


def test_frames_hold_what_is_averaged_together(panels: list[Axes]) -> None:
    def frames(ax: Axes) -> list[tuple[float, float, float, float]]:
        return [
            (patch.get_x(), patch.get_y(), patch.get_width(), patch.get_height())
            for patch in ax.patches
            if isinstance(patch, Rectangle)
        ]

    assert frames(panels[0]) == []
    assert frames(panels[1]) == [(column - 0.5, -0.5, 1, 5) for column in range(4)]
    assert frames(panels[2]) == [(-0.5, row - 0.5, 4, 1) for row in range(5)]


def test_bold_moments_are_the_ones_that_were_levelled(panels: list[Axes]) -> None:
    for ax, groups in zip(panels, (0, 4, 5), strict=True):
        bold = [text.get_text() for text in ax.texts if text.get_weight() == "bold"]
        assert bold == ["0.0"] * groups + ["1.0"] * groups


def test_written_moments_are_those_of_the_table(panels: list[Axes]) -> None:
    for ax in panels:
        values, written = table(ax), {text.get_position(): text.get_text() for text in ax.texts}
        below = [written[place] for place in sorted(p for p in written if p[1] > 4.5 and p[0] < 4 and p[1] < 5.5)]
        assert below == style.numbers([values.mean(axis=0)], 1)[0]


def test_add_and_norm_is_a_sum_whose_tokens_are_normalised() -> None:
    with style.styled():
        axes = list(style.new_figure((7, 2)).subplots(1, 4))
        normalization.add_and_norm(axes)
    x, output, total, normal = (np.asarray(ax.collections[0].get_array()).reshape(3, 4) for ax in axes)
    assert np.array_equal(x, normalization.VALUES[:3])
    assert np.array_equal(output, normalization.SUBLAYER)
    assert np.array_equal(total, x + output)
    centred = total - total.mean(axis=1, keepdims=True)
    assert normal == pytest.approx(centred / total.std(axis=1, keepdims=True), abs=1e-4)
