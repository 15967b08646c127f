"""Models of a few hundred weights, in folders."""

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dragoman.checkpoint import ModelFolder
from dragoman.config import ModelConfig, TextConfig
from dragoman.folder import Direction
from dragoman.model.transformer import Transformer
from dragoman.text.subwords import Vocabulary

SIDES = (["the cat sees a dog", "a bird sings"], ["die Katze sieht einen Hund", "ein Vogel singt"])


def vocabulary(kind: str = "joint", size: int = 300) -> Vocabulary:
    return Vocabulary.learn(SIDES, TextConfig(vocab_size=size, vocabulary=kind))  # type: ignore[arg-type]


def model_folder(kind: str = "joint", seed: int = 1, **settings: Any) -> ModelFolder:
    words = vocabulary(kind)
    torch.manual_seed(seed)
    config = ModelConfig(
        d_model=8,
        d_ff=16,
        num_heads=2,
        num_encoder_layers=1,
        num_decoder_layers=1,
        source_vocab_size=len(words.source),
        target_vocab_size=len(words.target),
        share_embeddings=words.joint,
        max_length=32,
        **settings,
    )
    facts = {"steps": 12, "note": "größer"}
    return ModelFolder(Transformer(config).eval(), words, Direction("en", "de", facts))


def parameters(model: Transformer) -> dict[str, Tensor]:
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def same(first: dict[str, Tensor], second: dict[str, Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def change_config(folder: Path, **changes: Any) -> None:
    """Change what is written in config.json, of the model's shape or beside it."""
    path = folder / "config.json"
    settings = json.loads(path.read_text(encoding="utf-8"))
    shape = {name: changes.pop(name) for name in list(changes) if name in settings["model"]}
    path.write_text(json.dumps(settings | changes | {"model": settings["model"] | shape}), encoding="utf-8")
