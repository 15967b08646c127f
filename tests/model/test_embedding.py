"""Embeddings and positions."""

import math
from typing import Literal

import pytest
import torch
from torch import nn

from dragoman.model.embedding import PositionalEncoding, ScaledEmbedding, sinusoids

Layout = Literal["interleaved", "halves"]
LAYOUTS: list[Layout] = ["interleaved", "halves"]
POSITIONS: list[Literal["interleaved", "halves", "learned"]] = ["interleaved", "halves", "learned"]


@pytest.mark.parametrize("d_model", [2, 6, 512])
def test_sinusoids_are_the_formula_of_section_3_5(d_model: int) -> None:
    # The base is 10000 (some notes have 1000), and each sine lies beside its cosine (some have halves).
    table = sinusoids(60, d_model)
    assert table.shape == (60, d_model)
    for pos in (0, 1, 2, 31, 59):
        for i in range(d_model // 2):
            angle = pos / 10000 ** (2 * i / d_model)
            assert table[pos, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-6)
            assert table[pos, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-6)


def test_wavelengths_form_a_geometric_progression_from_two_pi_to_almost_ten_thousand_two_pi() -> None:
    angles = torch.atan2(sinusoids(2, 64)[1, 0::2].double(), sinusoids(2, 64)[1, 1::2].double())  # at position 1
    assert angles[0].item() == pytest.approx(1.0, rel=1e-6)
    assert (angles[1:] / angles[:-1]).tolist() == pytest.approx([10000 ** (-2 / 64)] * 31, rel=1e-4)


def test_halves_has_all_sines_then_all_cosines_of_the_same_table() -> None:
    interleaved, halves = sinusoids(30, 16), sinusoids(30, 16, "halves")
    assert torch.equal(halves, torch.cat([interleaved[:, 0::2], interleaved[:, 1::2]], dim=1))
    assert not torch.equal(halves, interleaved)


def test_positions_far_out_are_as_precise_as_the_first() -> None:
    # Angles computed in float32 would be wrong in the fifth digit here.
    angles = [50_000 / 10000 ** (2 * i / 6) for i in range(3)]
    last = sinusoids(50_001, 6)[50_000].tolist()
    assert last == pytest.approx([wave(angle) for angle in angles for wave in (math.sin, math.cos)], abs=1e-7)


@pytest.mark.parametrize("d_model", [7, 64])
def test_embeddings_are_multiplied_by_the_square_root_of_d_model(d_model: int) -> None:
    embedding = ScaledEmbedding(11, d_model)
    ids = torch.tensor([[3, 0, 10], [3, 3, 1]])
    torch.testing.assert_close(embedding(ids), embedding.weight[ids] * math.sqrt(d_model))
    assert embedding.weight.shape == (11, d_model)


@pytest.mark.parametrize("d_model", [16, 256])
@pytest.mark.parametrize("gain", [1.0, 0.3])
def test_fresh_embeddings_come_out_with_the_variance_of_the_gain_at_any_width(d_model: int, gain: float) -> None:
    torch.manual_seed(0)
    out = ScaledEmbedding(2000, d_model, gain)(torch.arange(2000)[None])
    assert out.std().item() == pytest.approx(gain, rel=0.03)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_fixed_positions_are_a_buffer_that_is_neither_learned_nor_saved(layout: Layout) -> None:
    encoding = PositionalEncoding(8, 20, 0.0, layout)
    assert list(encoding.parameters()) == []
    assert encoding.state_dict() == {}
    assert [name for name, _ in encoding.named_buffers()] == ["table"]  # and so moves with .to(device)
    assert torch.equal(encoding.table, sinusoids(20, 8, layout))


def test_learned_positions_begin_as_large_as_embeddings_before_they_are_scaled() -> None:
    torch.manual_seed(1)
    table = PositionalEncoding(64, 4000, 0.0, "learned").table
    assert table.std().item() == pytest.approx(64**-0.5, rel=0.02)
    assert table.mean().item() == pytest.approx(0.0, abs=1e-3)


def test_learned_positions_are_a_parameter_that_is_saved() -> None:
    encoding = PositionalEncoding(8, 20, 0.0, "learned")
    assert isinstance(encoding.table, nn.Parameter)
    assert set(encoding.state_dict()) == {"table"}
    encoding(torch.zeros(2, 5, 8)).sum().backward()
    assert encoding.table.grad is not None
    assert (encoding.table.grad[:5] == 2).all()
    assert (encoding.table.grad[5:] == 0).all()


@pytest.mark.parametrize("positions", POSITIONS)
def test_an_offset_continues_where_the_last_piece_ended(positions: Literal["interleaved", "halves", "learned"]) -> None:
    encoding = PositionalEncoding(8, 20, 0.0, positions)
    x = torch.randn(2, 9, 8)
    pieces = [encoding(x[:, :4]), encoding(x[:, 4:5], offset=4), encoding(x[:, 5:], offset=5)]
    assert torch.equal(torch.cat(pieces, dim=1), encoding(x))


@pytest.mark.parametrize("positions", POSITIONS)
def test_the_last_position_fits_and_one_more_is_refused(positions: Literal["interleaved", "halves", "learned"]) -> None:
    encoding = PositionalEncoding(8, 20, 0.0, positions)
    encoding(torch.zeros(1, 20, 8))
    encoding(torch.zeros(1, 1, 8), offset=19)
    with pytest.raises(ValueError, match=r"21 .* 20"):
        encoding(torch.zeros(1, 21, 8))
    with pytest.raises(ValueError, match=r"21 .* 20"):
        encoding(torch.zeros(1, 1, 8), offset=20)


def test_dropout_falls_on_the_sum_of_embedding_and_position_in_training_only() -> None:
    torch.manual_seed(0)
    encoding = PositionalEncoding(64, 50, 0.5)
    x = torch.full((4, 50, 64), 3.0)  # so that no sum is zero by itself
    dropped = encoding(x)
    kept = dropped != 0
    assert 0.45 < kept.float().mean() < 0.55
    torch.testing.assert_close(dropped[kept], 2 * (x + encoding.table)[kept])
    assert torch.equal(encoding.eval()(x), x + encoding.table)
