"""Untrained translators of a few words, and lines for them."""

import pytest
import torch

from dragoman.checkpoint import ModelFolder
from dragoman.config import BOS, EOS, ModelConfig, TextConfig
from dragoman.folder import Direction
from dragoman.inference.results import Translation
from dragoman.inference.translator import Translator
from dragoman.model.attention import AttentionMaps
from dragoman.model.transformer import Transformer
from dragoman.text.subwords import Vocabulary

WORDS = "the a cat dog house green old sees eats under over likes bird quickly never".split()  # noqa: SIM905
LINES = [" ".join(WORDS[(i * j) % len(WORDS)] for j in range(1, 2 + i % 9)) for i in range(40)]


def build(joint: bool = True, norm: str = "post", max_length: int = 64) -> Translator:
    """A translator with random weights, sharp enough to prefer some words."""
    torch.manual_seed(3)
    kind = "joint" if joint else "separate"
    vocabulary = Vocabulary.learn(
        (LINES, [line[::-1] for line in LINES]), TextConfig(placeholders=0.0, vocab_size=310, vocabulary=kind)
    )
    config = ModelConfig(
        d_model=32,
        d_ff=64,
        num_heads=4,
        num_encoder_layers=2,
        num_decoder_layers=2,
        share_embeddings=joint,
        norm=norm,  # type: ignore[arg-type]
        max_length=max_length,
        source_vocab_size=len(vocabulary.source),
        target_vocab_size=len(vocabulary.target),
    )
    model = Transformer(config)
    with torch.no_grad():
        model.softmax.weight.mul_(3.0)
    return Translator(ModelFolder(model.eval(), vocabulary, Direction("en", "ne")))


SENTENCES = [f"{line.capitalize()}{mark}" for line, mark in zip(LINES[:12], ".!?" * 4, strict=True)]


def folder_of(translator: Translator) -> ModelFolder:
    return ModelFolder(translator.torch_engine.model, translator.vocabulary, translator.direction)


def with_facts(translator: Translator, target: str = "ne", **facts: object) -> Translator:
    direction = Direction("en", target, {name.replace("_", " "): value for name, value in facts.items()})
    return Translator(ModelFolder(translator.torch_engine.model, translator.vocabulary, direction))


def texts(translations: list[Translation]) -> list[str]:
    return [translation.text for translation in translations]


def close(one: Translation, other: Translation) -> None:
    """The same but for what the company in a batch does to the last digits."""
    assert (one.text, one.subwords, one.parts) == (other.text, other.subwords, other.parts)
    assert one.score == pytest.approx(other.score, abs=1e-3)
    assert one.log_prob == pytest.approx(other.log_prob, abs=1e-3)


def forced(translator: Translator, sentence: str, target: list[int]) -> tuple[torch.Tensor, AttentionMaps]:
    """An explicit forward pass, unpadded: log-probabilities (T, V), and the maps (1, H, T, S)."""
    source = torch.tensor([[*translator.vocabulary.source.encode([sentence])[0], EOS]])
    maps: AttentionMaps = {}
    with torch.no_grad():
        logits = translator.torch_engine.model(source, torch.tensor([[BOS, *target]]), maps)
    return logits[0].log_softmax(dim=-1), maps
