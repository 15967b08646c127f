"""The Transformer on one page computes what Dragoman's modules compute, and learns its task."""

import re

import pytest
import torch
from torch import nn

from dragoman.config import ModelConfig, OptimizerConfig
from dragoman.model.embedding import sinusoids
from dragoman.model.transformer import Transformer
from dragoman.training.loss import label_smoothed_cross_entropy
from dragoman.training.optimizer import learning_rate
from learn import one_page as page

SOURCE, INPUT, OUTPUT = page.batch(["a", "attention", "is", "all", "you", "need"])


@torch.no_grad()
def test_the_same_logits_and_attention() -> None:
    layers, size = page.LAYERS, len(page.VOCABULARY)
    shape = ModelConfig(page.D_MODEL, page.D_FF, page.HEADS, layers, layers, 0.0).__dict__
    whole = Transformer(ModelConfig(**shape | {"source_vocab_size": size, "target_vocab_size": size})).eval()
    small = page.Transformer().eval()
    weights = {re.sub(r"^(encoder|decoder)\.", r"\1.layers.", name): w for name, w in small.state_dict().items()}
    table = weights.pop("embedding.weight")
    whole.load_state_dict(
        weights | dict.fromkeys((f"{n}.weight" for n in ("source_embedding", "softmax")), table), False
    )
    maps: dict[str, torch.Tensor] = {}
    torch.testing.assert_close(small(SOURCE, INPUT), whole(SOURCE, INPUT, maps), rtol=1e-4, atol=1e-5)
    for number, layer in enumerate(small.decoder):
        for name in ("self_attention", "cross_attention"):
            torch.testing.assert_close(getattr(layer, name).weights, maps[f"decoder.{number}.{name}"])


def test_the_same_positions_loss_and_learning_rate() -> None:
    torch.testing.assert_close(page.positions(40), sinusoids(40, page.D_MODEL), rtol=0, atol=1e-5)
    logits = torch.randn(*OUTPUT.shape, len(page.VOCABULARY))
    loss, count = label_smoothed_cross_entropy(logits, OUTPUT, page.SMOOTHING)
    own = nn.CrossEntropyLoss(ignore_index=page.PAD, label_smoothing=page.SMOOTHING)
    torch.testing.assert_close(own(logits.flatten(0, 1), OUTPUT.flatten()), loss / count)
    settings = OptimizerConfig(schedule="paper", warmup_steps=page.WARMUP)
    for step in (1, page.WARMUP, page.STEPS):
        assert page.paper_rate(step) == pytest.approx(learning_rate(settings, page.D_MODEL, step))


@pytest.mark.slow
def test_it_learns_to_spell_backwards() -> None:
    torch.manual_seed(1)
    page.random.seed(1)
    model = page.Transformer()
    page.train(model)
    words = [page.random_word() for _ in range(50)]
    assert sum(page.backwards(model, word) == word[::-1] for word in words) >= 40
