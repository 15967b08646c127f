"""Import of a Marian or OPUS-MT folder in Hugging Face's format. Nothing is ever unpickled."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dragoman.checkpoint import ModelFolder, build_model, read_weights
from dragoman.config import ConfigError, DragomanError, ModelConfig
from dragoman.folder import EXPORT_FILE, IMPORTED_FACT, WEIGHTS_FILE, Direction, read_exported
from dragoman.interop.huggingface import ABSENT_BIAS, Weights, layers_from_marian
from dragoman.runtime.files import checksum, read_json
from dragoman.text.subwords import SPECIALS, ListedModel, SubwordModel, Vocabulary

_ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "swish", "silu": "swish"}
_CURE = "save the folder as transformers saves a MarianMTModel with its MarianTokenizer"
# With these settings transformers would load another file, or fetch a kernel.
_LOADS_MORE = ["transformers_weights", "quantization_config", "auto_map"]
_LOADS_MORE += ["attn_implementation", "_attn_implementation", "_attn_implementation_internal"]


@dataclass(frozen=True)
class _Numbering:
    """The subwords of one language in Dragoman's order, and Marian's numbers for them."""

    listed: list[str]
    rows: list[int]  # Marian's number of each subword; -1 if it has none
    absent: list[int]  # subwords that never get probability: Marian has none, or has it in another place already


@dataclass(frozen=True)
class ImportedModel:
    """A model that was imported, and what the proof must know about the original."""

    loaded: ModelFolder
    rows: tuple[list[int], list[int]]  # Marian's number of each source and target subword; -1 if it has none
    absent: list[int]  # target subwords that Marian has no probability for


def read_marian(folder: Path, source: str = "", target: str = "") -> ImportedModel:
    """Read a Marian folder; by default, tokenizer_config.json says the language codes."""
    settings = _read_json(folder / "config.json")
    _require_marian(folder, settings)
    names = ["vocab.json", "target_vocab.json" if (folder / "target_vocab.json").is_file() else "vocab.json"]
    if not (path := folder / WEIGHTS_FILE).is_file():
        raise DragomanError(f"{path}: no such file (pickled weights, which may be programs, are not read); {_CURE}")
    tensors = {name: tensor.float() for name, tensor in read_weights(path).items()}
    direction = _direction(folder, source, target)
    try:
        numberings = [_number(_read_json(folder / name), settings) for name in names]
        weights = _weights(tensors, settings, *numberings)
        config = _config(settings, weights, *numberings)
        model = build_model(config, weights, folder)
    except (KeyError, TypeError, ValueError, IndexError, RuntimeError, OverflowError, ConfigError) as error:
        reason = f"{error.args[0]} is missing" if isinstance(error, KeyError) else error
        raise DragomanError(f"{folder}: its files do not fit together ({reason}); {_CURE}") from None
    vocabulary = _vocabulary(folder, *(numbering.listed for numbering in numberings))
    rows = (numberings[0].rows, numberings[1].rows)
    return ImportedModel(ModelFolder(model, vocabulary, direction), rows, numberings[1].absent)


def _read_json(path: Path) -> dict[str, Any]:
    if content := read_json(path):
        return content
    raise DragomanError(f"{path}: missing or damaged; {_CURE}")


def _require_marian(folder: Path, settings: dict[str, Any]) -> None:
    if (kind := settings.get("model_type")) != "marian":
        raise DragomanError(f"{folder}: its model_type is {kind}; only Marian models can be imported")
    if (activation := settings.get("activation_function")) not in _ACTIVATIONS:
        raise DragomanError(f"{folder}: its activation is {activation}; known are {', '.join(_ACTIVATIONS)}")
    if unsafe := [name for name in _LOADS_MORE if settings.get(name) not in (None, "eager", "sdpa")]:
        raise DragomanError(f"{folder}: its config.json has {unsafe[0]}; {_CURE}")


def _direction(folder: Path, source: str, target: str) -> Direction:
    """The languages, and the facts about the model: all of them if it still has the weights that Dragoman exported."""
    names = read_json(folder / "tokenizer_config.json")
    source, target = source or str(names.get("source_lang") or ""), target or str(names.get("target_lang") or "")
    if not source or not target:
        raise ConfigError(f"{folder}: does not say its languages; pass --source and --target")
    facts = {IMPORTED_FACT: folder.resolve().name}
    if (folder / EXPORT_FILE).is_file():
        exported = read_exported(folder)
        if exported.checksums.get(WEIGHTS_FILE) == checksum(folder / WEIGHTS_FILE):
            facts = exported.direction.facts
    return Direction(source, target, facts)


def _number(numbers: dict[str, int], settings: dict[str, Any]) -> _Numbering:
    """PAD, UNK, BOS and EOS first, then Marian's subwords in its own order."""
    pieces = {number: piece for piece, number in numbers.items()}
    if sorted(pieces) != list(range(len(numbers))):
        raise ValueError("vocab.json does not number its subwords from 0 on, each once")
    start, eos, unk = settings["decoder_start_token_id"], settings["eos_token_id"], numbers[SPECIALS[1]]
    pad = numbers.get(SPECIALS[0], settings["pad_token_id"])  # config.json has the source's
    # <s> takes the row that the decoder starts from. If that is <pad>'s, which transformers added to what Marian had
    # learned, Dragoman's <pad> has no row, and neither gets probability. If it is another's, such as </s>'s, that one
    # keeps it as well.
    rows, absent = [-1 if start == pad else pad, unk, start, eos], [0, 2] if start == pad else []
    absent += [2] if start in (eos, unk) else []
    rest = [number for number in range(len(numbers)) if number not in rows]
    named = [f"{pieces[n]}#{n}" if pieces[n] in SPECIALS else pieces[n] for n in rest]
    return _Numbering([*SPECIALS, *named], rows + rest, absent)


def _weights(tensors: Weights, settings: dict[str, Any], source: _Numbering, target: _Numbering) -> Weights:
    """Dragoman's weights; without those that are shared or tied, and without a bias of zeros.

    The bias of Marian's logits becomes the softmax layer's; embeddings that it does not scale are divided by √d_model.
    """
    left = dict(tensors)
    shared = left.pop("model.shared.weight", None)
    encoder = left.pop("model.encoder.embed_tokens.weight", shared)
    decoder = left.pop("model.decoder.embed_tokens.weight", shared)
    if encoder is None or decoder is None:
        raise KeyError("model.shared.weight")
    softmax = left.pop("lm_head.weight", decoder if settings.get("tie_word_embeddings", True) else None)
    if softmax is None:
        raise KeyError("lm_head.weight")
    bias = _rows(left.pop("final_logits_bias", torch.zeros(1, len(softmax)))[0], target)
    bias[target.absent] = ABSENT_BIAS
    for part in ("encoder", "decoder"):
        left.pop(f"model.{part}.embed_positions.weight", None)  # always sinusoids in two halves
    if unknown := [name for name in sorted(left) if not layers_from_marian({name: left[name]})]:
        raise ValueError(f"the tensor {unknown[0]} is unknown to Marian")
    scale = 1.0 if settings.get("scale_embedding", False) else 1 / math.sqrt(encoder.size(1))
    weights = layers_from_marian(left) | {"source_embedding.weight": _rows(encoder, source) * scale}
    is_shared = settings.get("share_encoder_decoder_embeddings", True)
    if not (is_shared and source == target and torch.equal(encoder, decoder)):
        weights["target_embedding.weight"] = _rows(decoder, target) * scale
    if scale != 1.0 or not torch.equal(softmax, decoder):
        weights["softmax.weight"] = _rows(softmax, target)
    return weights | ({"softmax.bias": bias} if bias.any() else {})


def _rows(table: Tensor, numbering: _Numbering) -> Tensor:
    """The rows of a table (V vocabulary, …) in Dragoman's order; zeros for what Marian does not have."""
    if len(table) != max(numbering.rows) + 1:
        raise ValueError(f"an embedding is {tuple(table.shape)}, but there are {max(numbering.rows) + 1:,} subwords")
    places = torch.tensor(numbering.rows)
    found = table[places.clamp(min=0)].clone()
    found[places < 0] = 0.0
    return found


def _config(settings: dict[str, Any], weights: Weights, source: _Numbering, target: _Numbering) -> ModelConfig:
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
        softmax_bias="softmax.bias" in weights,
        max_length=settings["max_position_embeddings"],
        source_vocab_size=len(source.listed),
        target_vocab_size=len(target.listed),
    )


def _vocabulary(folder: Path, source: Sequence[str], target: Sequence[str]) -> Vocabulary:
    """The subword models with their lists; without the lists if SentencePiece's own numbers are the same."""
    models = []
    for name, listed in (("source.spm", source), ("target.spm", target)):
        if not (path := folder / name).is_file():
            raise DragomanError(f"{path}: missing; {_CURE}")
        models.append(ListedModel(path.read_bytes(), str(path), listed))
    if not all(model.has_own_ids for model in models):
        return Vocabulary(*models)
    first, second = (SubwordModel(model.serialized) for model in models)
    return Vocabulary(first, first if first.serialized == second.serialized else second)
