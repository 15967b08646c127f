"""The weights of a model: which are shared, how many they are, how they start."""

import dataclasses
import math

import pytest
import torch
from torch import nn

from dragoman.config import model_preset
from dragoman.model.transformer import Transformer
from tests.model.small_transformers import TINY, assert_close, batch, loss, sentences, tiny


def test_shared_embeddings_and_tied_softmax_are_one_tensor_whose_gradients_add_up() -> None:
    model, (source, target, output) = tiny(), batch()
    assert model.source_embedding.weight is model.target_embedding.weight
    assert model.softmax.weight is model.target_embedding.weight
    apart = tiny(share_embeddings=False, tie_softmax=False)
    missing, unexpected = apart.load_state_dict(model.state_dict(), strict=False)
    assert (missing, unexpected) == ([], [])
    loss(model(source, target), output).backward()
    loss(apart(source, target), output).backward()
    parts = [m.weight.grad for m in (apart.source_embedding, apart.target_embedding, apart.softmax)]
    assert all(part is not None and part.abs().max() > 0 for part in parts)
    assert_close(model.softmax.weight.grad, sum(parts))  # type: ignore[arg-type]


@pytest.mark.parametrize("tie_softmax", [True, False])
@pytest.mark.parametrize("share_embeddings", [True, False])
def test_each_sharing_option_shares_what_it_says_and_nothing_else(share_embeddings: bool, tie_softmax: bool) -> None:
    model = tiny(share_embeddings=share_embeddings, tie_softmax=tie_softmax)
    assert (model.source_embedding.weight is model.target_embedding.weight) == share_embeddings
    assert (model.softmax.weight is model.target_embedding.weight) == tie_softmax
    table = 13 * 8
    fewest = tiny().num_parameters
    assert model.num_parameters == fewest + table * ((not share_embeddings) + (not tie_softmax))


@pytest.mark.parametrize(("preset", "papers_count"), [("base", 65e6), ("big", 213e6)])
def test_base_and_big_have_the_number_of_parameters_of_table_3(preset: str, papers_count: float) -> None:
    with torch.device("meta"):
        model = Transformer(model_preset(preset))
    assert model.num_parameters == pytest.approx(papers_count, rel=0.03)


@pytest.mark.parametrize("gain", [1.0, 0.5])
def test_matrices_start_within_glorots_bound_and_biases_at_zero(gain: float) -> None:
    model = Transformer(dataclasses.replace(TINY, d_model=32, d_ff=96, tie_softmax=False, init_gain=gain))
    linear = [module for module in model.modules() if isinstance(module, nn.Linear)]
    assert len(linear) == 2 * (4 + 2) + 3 * (8 + 2) + 1
    for module in linear:
        bound = gain * math.sqrt(6 / (module.in_features + module.out_features))
        assert 0.9 * bound < module.weight.abs().max().item() <= bound
        assert module.bias is None or (module.bias == 0).all()


@pytest.mark.parametrize("gain", [1.0, 0.3])
@pytest.mark.parametrize("shared", [True, False])
def test_tying_leaves_the_embedding_its_own_starting_values(gain: float, shared: bool) -> None:
    torch.manual_seed(0)
    sizes = {"d_model": 64, "source_vocab_size": 500, "target_vocab_size": 500}
    model = Transformer(dataclasses.replace(TINY, **sizes, embedding_gain=gain, share_embeddings=shared))
    assert model.softmax.weight is model.target_embedding.weight
    for embedding in model.source_embedding, model.target_embedding:
        assert embedding.weight.std().item() == pytest.approx(gain * 64**-0.5, rel=0.03)


def test_fixed_positions_let_saved_weights_serve_a_longer_model() -> None:
    short, long = tiny(max_length=10), tiny(max_length=40)
    assert not any("table" in name for name in short.state_dict())
    with torch.no_grad():
        for parameter in long.parameters():
            parameter.zero_()
    long.load_state_dict(short.state_dict())
    source, target, _ = batch()
    assert torch.equal(long(source, target), short(source, target))
    long(sentences([40]), sentences([40]))
