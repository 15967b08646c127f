"""Models from elsewhere: a Marian or OPUS-MT folder in Hugging Face's format becomes a model of Dragoman's.

What is peculiar to Marian finds a place: its decoder begins with the embedding of `<pad>`, which becomes that of
`<s>`; the bias of its logits is the softmax layer's; its list of subwords is kept beside the SentencePiece models; its
embeddings, where they are not scaled, are divided by √d_model. Nothing is ever unpickled.

Shapes: V vocabulary, D d_model.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dragoman.checkpoint import (
    EXPORT_FILE,
    IMPORTED_FACT,
    LONGEST_FACT,
    WEIGHTS_FILE,
    Direction,
    ModelFolder,
    build_model,
    read_weights,
)
from dragoman.config import ConfigError, DragomanError, ModelConfig
from dragoman.exported import is_as_exported, read_description
from dragoman.interop.weight_mapping import Weights, layers_from_marian, layers_to_marian
from dragoman.model.embedding import sinusoids
from dragoman.model.transformer import Transformer
from dragoman.text.subwords import SPECIALS, ListedModel, SubwordModel, Vocabulary

ABSENT = -100.0
"""Bias of a subword that Marian does not have: no probability that a float32 could tell from none."""
_LEAST_KNOWN = 0.5
"""Of the subwords of a SentencePiece model, in its vocabulary: Marian's own lack some, of another model most."""
_ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "swish", "silu": "swish"}
_CURE = "take a folder as transformers saves a MarianMTModel with its MarianTokenizer"


@dataclass(frozen=True)
class _Side:
    """The subwords of one language in Dragoman's order, and where Marian has them."""

    listed: list[str]
    rows: list[int]
    """Marian's row of each subword; -1 where it has none."""
    absent: list[int]
    """Subwords that must never get probability: Marian has none, or has it in another place already."""


@dataclass(frozen=True)
class Arrival:
    """A model that was imported."""

    loaded: ModelFolder
    rows: tuple[list[int], list[int]]
    """Marian's number of each of Dragoman's source and target subwords; -1 where it has none."""
    absent: list[int]
    """Target subwords that Marian has no probability for."""


def read_marian(folder: Path, source: str = "", target: str = "") -> Arrival:
    """Read a Marian folder.

    Args:
        folder: with config.json, model.safetensors, vocab.json, source.spm and target.spm.
        source: source language code; by default what tokenizer_config.json says.
        target: target language code; likewise.

    Raises:
        DragomanError: a file is missing, damaged or does not fit the others, or the model is of a kind that Dragoman
            does not have.
    """
    settings = _read_json(folder / "config.json")
    _require_kind(folder, settings)
    separate = (folder / "target_vocab.json").is_file()
    numbers = _read_numbers(folder / "vocab.json")
    target_numbers = _read_numbers(folder / "target_vocab.json") if separate else numbers
    tensors = _read_tensors(folder)
    sides = (_arrange(numbers, settings, folder), _arrange(target_numbers, settings, folder))
    for name, side in (("vocab_size", sides[0]), ("decoder_vocab_size", sides[1])):
        if (size := settings.get(name)) not in (None, max(side.rows) + 1):
            raise DragomanError(
                f"{folder}: {name} is {size!r} in config.json, but there are {max(side.rows) + 1:,} subwords"
            )
    weights, has_bias = _weights(tensors, settings, sides, folder)
    config = _config(settings, sides, weights, has_bias, folder)
    _require_layers(config, tensors, folder / "model.safetensors")
    direction = _direction(folder, source, target)
    loaded = ModelFolder(build_model(config, weights, folder), _vocabulary(folder, sides), direction)
    return Arrival(loaded, (sides[0].rows, sides[1].rows), sides[1].absent)


def _direction(folder: Path, source: str, target: str) -> Direction:
    """Languages, and what is known about the model: all of it where it has the weights that Dragoman exported."""
    names = _read_json(folder / "tokenizer_config.json") if (folder / "tokenizer_config.json").is_file() else {}
    source, target = source or str(names.get("source_lang") or ""), target or str(names.get("target_lang") or "")
    if not source or not target:
        raise ConfigError(f"{folder}: does not say its languages; give them with --source and --target")
    known = {IMPORTED_FACT: folder.resolve().name}
    if (folder / EXPORT_FILE).is_file():
        facts = read_description(folder)[0].facts
        seen = {name: facts[name] for name in (LONGEST_FACT,) if name in facts}
        known = facts if is_as_exported(folder, WEIGHTS_FILE) else known | seen
    try:
        return Direction(source, target, known)
    except ConfigError as error:
        raise ConfigError(f"{folder}: {error}; give the right ones with --source and --target") from None


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DragomanError(f"{path}: no such file; {_CURE}") from None
    except (OSError, ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise DragomanError(f"{path}: damaged; {_CURE}")
    return content


def _read_numbers(path: Path) -> dict[str, int]:
    numbers = _read_json(path)
    if sorted(map(str, numbers.values())) != sorted(map(str, range(len(numbers)))):
        raise DragomanError(f"{path}: does not number its subwords from 0 on, each once; {_CURE}")
    return {piece: int(number) for piece, number in numbers.items()}


def _require_kind(folder: Path, settings: dict[str, Any]) -> None:
    kind = settings.get("model_type")
    if kind != "marian":
        found = f"a {kind} model" if kind else "no model of Hugging Face's (its config.json names no model_type)"
        raise DragomanError(f"{folder}: {found}; only Marian models can be imported")
    for name, wanted in (
        ("normalize_before", False),
        ("normalize_embedding", False),
        ("static_position_embeddings", True),
    ):
        if settings.get(name, wanted) != wanted:
            raise DragomanError(f"{folder}: {name} is {settings[name]} in its config.json, which transformers ignores")
    for name in ("transformers_weights", "quantization_config", "auto_map"):
        if settings.get(name):
            raise DragomanError(f"{folder}: its config.json has {name}: {_CURE}")
    for name in ("attn_implementation", "_attn_implementation", "_attn_implementation_internal"):
        if settings.get(name) not in (None, "eager", "sdpa"):  # transformers would fetch a kernel of that name
            raise DragomanError(f"{folder}: its config.json has {name}: {_CURE}")
    for ours, theirs in (("attention_heads", "attention heads"), ("ffn_dim", "feed-forward width")):
        if settings.get(f"encoder_{ours}") != settings.get(f"decoder_{ours}"):
            raise DragomanError(f"{folder}: encoder and decoder differ in {theirs}; Dragoman has one number for both")
    if settings.get("activation_function") not in _ACTIVATIONS:
        known = ", ".join(_ACTIVATIONS)
        raise DragomanError(f"{folder}: its activation is {settings.get('activation_function')}; known are {known}")


def _read_tensors(folder: Path) -> Weights:
    path, again = folder / "model.safetensors", "load the model with transformers and save it again"
    if not path.is_file():
        if parts := sorted(folder.glob("model-*.safetensors")):
            raise DragomanError(f"{parts[0]}: only a part of the weights; {again} with max_shard_size='100GB'")
        if pickled := [*folder.glob("*.bin"), *folder.glob("*.pt"), *folder.glob("*.npz")]:
            raise DragomanError(
                f"{pickled[0]}: pickled weights could run any program and are not read; {again}, which writes "
                f"{path.name}"
            )
        raise DragomanError(f"{path}: no such file; {_CURE}")
    tensors = {name: tensor.float() for name, tensor in read_weights(path).items()}
    for name, tensor in tensors.items():
        if not tensor.isfinite().all():
            raise DragomanError(f"{path}: the tensor {name} has values that are no numbers; get the folder again")
    return tensors


def _arrange(numbers: dict[str, int], settings: dict[str, Any], folder: Path) -> _Side:
    """PAD, UNK, BOS and EOS first, then Marian's subwords in its own order."""
    by_number = sorted(numbers, key=numbers.__getitem__)
    found = [settings.get(f"{name}_token_id") for name in ("pad", "eos", "decoder_start")]
    numbered = [number for number in found if type(number) is int]
    if SPECIALS[1] not in numbers or len(numbered) < len(found):
        raise DragomanError(f"{folder}: lacks a special token: <unk> in vocab.json, or the numbers in config.json")
    if not all(0 <= number < len(numbers) for number in numbered):
        raise DragomanError(f"{folder}: config.json numbers a special token beyond the {len(numbers):,} in vocab.json")
    (pad, eos, start), unk = numbered, numbers[SPECIALS[1]]
    pad = numbers.get(SPECIALS[0], pad)  # config.json has the source's
    # The row that the decoder starts from is <s>'s. Where that is <pad>'s, Dragoman's <pad>, which nothing ever looks
    # at, has none, and neither gets probability: transformers added that row to what Marian had learnt. Where it is
    # another's, such as </s>'s, that one keeps it, too.
    rows, absent = [-1 if start == pad else pad, unk, start, eos], [0, 2] if start == pad else []
    absent += [2] if start in (eos, unk) else []
    rest = [number for number in range(len(numbers)) if number not in rows]
    named = [by_number[number] for number in rest]
    listed = [
        *SPECIALS,
        *(f"{piece}#{n}" if piece in SPECIALS else piece for piece, n in zip(named, rest, strict=True)),
    ]
    return _Side(listed, rows + rest, absent)


def _weights(
    tensors: Weights, settings: dict[str, Any], sides: tuple[_Side, _Side], folder: Path
) -> tuple[Weights, bool]:
    """Dragoman's weights, and whether the softmax layer needs its bias."""
    path, left = folder / "model.safetensors", dict(tensors)
    shared = settings.get("share_encoder_decoder_embeddings", True)
    encoder = _take(left, ["model.encoder.embed_tokens.weight", "model.shared.weight"], path)
    decoder = _take(left, ["model.decoder.embed_tokens.weight", "model.shared.weight"], path)
    tied = settings.get("tie_word_embeddings", True)
    head = decoder if tied and "lm_head.weight" not in left else _take(left, ["lm_head.weight"], path)
    for name in ("shared", "encoder.embed_tokens", "decoder.embed_tokens"):
        left.pop(f"model.{name}.weight", None)
    left.pop("lm_head.weight", None)
    _drop_positions(left, path)
    for side, table, name in ((sides[0], encoder, "source"), (sides[1], decoder, "target"), (sides[1], head, "target")):
        if table.dim() != 2 or len(table) != max(side.rows) + 1:
            shape = tuple(table.shape)
            raise DragomanError(
                f"{path}: an embedding is {shape}, but there are {max(side.rows) + 1:,} {name} subwords"
            )
    bias = left.pop("final_logits_bias", torch.zeros(1, len(head)))
    if bias.shape != (1, len(head)):
        raise DragomanError(f"{path}: final_logits_bias is {tuple(bias.shape)}, not {(1, len(head))}")
    weights = layers_from_marian(left)
    if strange := [name for name in sorted(left) if not layers_from_marian({name: left[name]})]:
        raise DragomanError(f"{path}: the tensor {strange[0]} is unknown to Marian; {_CURE}")
    scale = 1.0 if settings.get("scale_embedding", False) else 1 / math.sqrt(encoder.size(1))
    weights["source_embedding.weight"] = _rows(encoder, sides[0]) * scale
    if not (shared and sides[0] == sides[1] and torch.equal(encoder, decoder)):
        weights["target_embedding.weight"] = _rows(decoder, sides[1]) * scale
    if scale != 1.0 or not torch.equal(head, decoder):
        weights["softmax.weight"] = _rows(head, sides[1])
    own_bias = _rows(bias.T, sides[1])[:, 0]
    own_bias[sides[1].absent] = ABSENT
    has_bias = bool(own_bias.any())
    return weights | ({"softmax.bias": own_bias} if has_bias else {}), has_bias


def _require_layers(config: ModelConfig, tensors: Weights, path: Path) -> None:
    """Raise DragomanError, in Marian's names, unless the layers are those of the configuration."""
    known = len(tensors) + 1  # more layers than tensors can't be, whatever a damaged configuration says
    encoder, decoder = min(config.num_encoder_layers, known), min(config.num_decoder_layers, known)
    layers = replace(config, num_encoder_layers=encoder, num_decoder_layers=decoder, max_length=1)
    try:
        with torch.device("meta"):
            model = Transformer(layers)
    except (RuntimeError, TypeError, OverflowError):
        raise DragomanError(f"{path.parent}: its config.json speaks of a model beyond all memory") from None
    expected = {name: tuple(weight.shape) for name, weight in layers_to_marian(dict(model.named_parameters())).items()}
    found = {name: tuple(tensor.shape) for name, tensor in tensors.items() if layers_from_marian({name: tensor})}
    if differing := sorted(expected.keys() ^ found.keys()):
        problem = "is missing" if differing[0] in expected else "belongs to no layer of config.json"
        raise DragomanError(f"{path}: the tensor {differing[0]} {problem}; {_CURE}")
    for name, shape in expected.items():
        if found[name] != shape:
            raise DragomanError(f"{path}: the tensor {name} is {found[name]}, not {shape} as config.json says; {_CURE}")


def _take(tensors: Weights, names: Sequence[str], path: Path) -> Tensor:
    """The first of these tensors that there is."""
    found = next((tensors[name] for name in names if name in tensors), None)
    if found is None:
        raise DragomanError(f"{path}: the tensor {names[-1]} is missing; {_CURE}")
    return found


def _drop_positions(tensors: Weights, path: Path) -> None:
    """Forget tables of positions, which are sinusoids in two halves or else can't be kept."""
    for side in ("encoder", "decoder"):
        table = tensors.pop(f"model.{side}.embed_positions.weight", None)
        if table is None:
            continue
        even = table.dim() == 2 and table.size(1) % 2 == 0
        if not even or not torch.allclose(table, sinusoids(table.size(0), table.size(1), "halves"), atol=2e-3):
            raise DragomanError(f"{path}: the positions of the {side} are no sinusoids; transformers would ignore them")


def _rows(table: Tensor, side: _Side) -> Tensor:
    """The rows of a table (V, …) in Dragoman's order; zeros for what Marian does not have."""
    places = torch.tensor(side.rows)
    found = table[places.clamp(min=0)].clone()
    found[places < 0] = 0.0
    return found


def _config(
    settings: dict[str, Any], sides: tuple[_Side, _Side], weights: Weights, has_bias: bool, folder: Path
) -> ModelConfig:
    try:
        return ModelConfig(
            d_model=settings["d_model"],
            d_ff=settings["encoder_ffn_dim"],
            num_heads=settings["encoder_attention_heads"],
            num_encoder_layers=settings["encoder_layers"],
            num_decoder_layers=settings["decoder_layers"],
            dropout=settings.get("dropout", 0.1),
            attention_dropout=settings.get("attention_dropout", 0.0),
            activation_dropout=settings.get("activation_dropout", 0.0),
            positions="halves",
            activation=_ACTIVATIONS[settings["activation_function"]],  # type: ignore[arg-type]
            share_embeddings="target_embedding.weight" not in weights,
            tie_softmax="softmax.weight" not in weights,
            softmax_bias=has_bias,
            max_length=settings["max_position_embeddings"],
            source_vocab_size=len(sides[0].listed),
            target_vocab_size=len(sides[1].listed),
        )
    except (KeyError, TypeError, ConfigError) as error:
        raise DragomanError(f"{folder / 'config.json'}: not a usable configuration ({error}); {_CURE}") from None


def _vocabulary(folder: Path, sides: tuple[_Side, _Side]) -> Vocabulary:
    """The subword models with their lists; without them where SentencePiece's own ids are the same."""
    found: list[SubwordModel] = []
    for name, side in (("source.spm", sides[0]), ("target.spm", sides[1])):
        path = folder / name
        if not path.is_file():
            raise DragomanError(f"{path}: no such file; {_CURE}")
        model = ListedModel(path.read_bytes(), side.listed, str(path))
        if model.known_share() < _LEAST_KNOWN:
            raise DragomanError(f"{path}: {model.known_share():.0%} of its subwords are in the vocabulary; {_CURE}")
        found.append(model)
    source, target = (_plain(model) for model in found)
    if source is not None and target is not None:
        return Vocabulary(source, source if source.serialized == target.serialized else target)
    return Vocabulary(found[0], found[1])


def _plain(model: SubwordModel) -> SubwordModel | None:
    """The model without its list, where the list says nothing new."""
    try:
        plain = SubwordModel(model.serialized)
    except DragomanError:
        return None
    same = len(plain) == len(model) and plain.pieces(range(len(plain))) == model.pieces(range(len(model)))
    return plain if same else None
