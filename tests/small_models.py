"""Small models of every kind that have learnt a few dozen sentences by heart, so that their translations end."""

import functools
import itertools
from collections.abc import Iterator
from typing import Any

import torch

from dragoman.checkpoint import ModelFolder
from dragoman.config import BOS, EOS, ModelConfig, TextConfig
from dragoman.folder import Direction
from dragoman.model.transformer import Transformer
from dragoman.text.batches import pad_right
from dragoman.text.subwords import Vocabulary
from dragoman.training.loss import TrainingObjective

WORDS = "the a cat dog house green old sees eats under over likes bird quickly never".split()  # noqa: SIM905
LINES = [" ".join(WORDS[(i * j) % len(WORDS)] for j in range(1, 2 + i % 9)) for i in range(40)]
TARGETS = [" ".join(word[::-1] for word in line.split()) for line in LINES]
_STEPS = 60


SHARING = [(True, True, True), (True, True, False), (True, False, True), (True, False, False), (False, False, True),
           (False, False, False)]  # fmt: skip
"""Joint vocabulary, shared embeddings, tied softmax."""


def kinds(
    norms: tuple[str, ...] = ("post", "pre"), positions: tuple[str, ...] = ("interleaved", "halves", "learned")
) -> Iterator[dict[str, Any]]:
    """The arguments of small_model for every kind of model there is."""
    for norm, layout, activation, (joint, share, tie) in itertools.product(
        norms, positions, ("relu", "gelu", "swish"), SHARING
    ):
        settings = {"norm": norm, "positions": layout, "activation": activation}
        yield settings | {"joint": joint, "share_embeddings": share, "tie_softmax": tie}


@functools.cache
def _vocabulary(joint: bool, symbols: bool = False) -> Vocabulary:
    kind = "joint" if joint else "separate"
    config = TextConfig(vocab_size=330, vocabulary=kind, placeholders=0.1 if symbols else 0.0)
    return Vocabulary.learn((LINES, TARGETS), config)


def small_model(joint: bool = True, symbols: bool = False, **settings: Any) -> ModelFolder:
    """A model folder, always a fresh one; symbols are those for placeholders; settings those of ModelConfig."""
    vocabulary = _vocabulary(joint, symbols)
    sizes = {"d_model": 32, "d_ff": 64, "num_heads": 4, "num_encoder_layers": 2, "num_decoder_layers": 2}
    config = ModelConfig(
        **{**sizes, "max_length": 64, "dropout": 0.0, "share_embeddings": joint, **settings},
        source_vocab_size=len(vocabulary.source),
        target_vocab_size=len(vocabulary.target),
    )
    model = Transformer(config).eval()
    model.load_state_dict(_learnt(config, joint, symbols))
    return ModelFolder(model, vocabulary, Direction("en", "ne", {"longest_training_side": 30}))


@functools.cache
def _learnt(config: ModelConfig, joint: bool, symbols: bool) -> dict[str, torch.Tensor]:
    vocabulary = _vocabulary(joint, symbols)
    source, output = (
        torch.from_numpy(pad_right([[*ids, EOS] for ids in side.encode(lines)], 64))
        for side, lines in ((vocabulary.source, LINES), (vocabulary.target, TARGETS))
    )
    target = torch.cat((torch.full((len(LINES), 1), BOS), output[:, :-1]), dim=1)
    torch.manual_seed(1)
    model = Transformer(config)
    with torch.no_grad():  # what begins at 0 or 1 would hide mistakes
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter), alpha=0.1)
    objective, optimizer = TrainingObjective(model, 0.1), torch.optim.Adam(model.parameters(), lr=4e-3)
    for _ in range(_STEPS):
        optimizer.zero_grad()
        (objective(source, target, output) / 200).backward()
        optimizer.step()
    return model.state_dict()
