from __future__ import annotations

import pytest
import torch

from dragoman.config import EOS, ModelConfig
from dragoman.interop.weight_mapping import PARTS, in_halves, layers_from_marian, layers_to_marian
from dragoman.model.transformer import Transformer
from tests.small_models import small_model

SOURCE, TARGET = torch.tensor([[7, 9, 30, EOS]]), torch.tensor([[2, 40, 11]])


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_sinusoids_in_halves_give_the_same_logits(norm: str) -> None:
    loaded = small_model(norm=norm)
    weights = in_halves(dict(loaded.model.named_parameters()))
    config = ModelConfig(**{**vars(loaded.model.config), "positions": "halves"})
    other = Transformer(config).eval()
    other.load_state_dict({**other.state_dict(), **weights, "softmax.weight": weights["source_embedding.weight"],
                           "target_embedding.weight": weights["source_embedding.weight"]})  # fmt: skip
    with torch.no_grad():
        torch.testing.assert_close(other(SOURCE, TARGET), loaded.model(SOURCE, TARGET), atol=1e-5, rtol=1e-5)
        other.load_state_dict({**other.state_dict(), **dict(loaded.model.named_parameters())}, strict=False)
        assert (other(SOURCE, TARGET) - loaded.model(SOURCE, TARGET)).abs().max() > 0.01, "the layout matters"


def test_layers_come_back_under_their_names() -> None:
    weights = dict(small_model().model.named_parameters())
    there = layers_to_marian(weights)
    assert all(name.startswith("model.") and "layers" in name for name in there)
    back = layers_from_marian(there)
    assert back.keys() == {name for name in weights if ".layers." in name}
    assert all(torch.equal(back[name], weights[name]) for name in back)


def test_every_part_has_a_name_of_its_own() -> None:
    assert len(set(PARTS.values())) == len(PARTS)
