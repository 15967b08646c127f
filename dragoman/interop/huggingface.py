"""Hugging Face: a folder that MarianMTModel and MarianTokenizer of `transformers` load.

Marian is a post-norm Transformer with sinusoids; its decoder usually begins with the padding's embedding, but takes any
token, here `<s>`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from dragoman.checkpoint import LONGEST_FACT, LONGEST_UNKNOWN, ModelFolder
from dragoman.config import BOS, EOS, PAD, UNK, DragomanError, ModelConfig, SearchConfig
from dragoman.interop.weight_mapping import Weights, in_halves, layers_to_marian
from dragoman.text.subwords import SPECIALS, SubwordModel

_SPECIAL_TOKENS = {"pad_token": SPECIALS[PAD], "unk_token": SPECIALS[UNK], "eos_token": SPECIALS[EOS]}
_EPSILON = 1e-5  # of Marian's LayerNorm; its configuration can't change it


def write_model(loaded: ModelFolder, out: Path) -> None:
    """Write a model as `transformers` reads it, with its tokenizer.

    Args:
        loaded: a post-norm model with sinusoids.
        out: an empty folder.

    Raises:
        DragomanError: Marian has no room for this kind of model.
    """
    config = loaded.model.config
    _require_expressible(config)
    tensors = {name: tensor.detach().float().cpu().contiguous().clone() for name, tensor in _tensors(loaded).items()}
    (out / "model.safetensors").write_bytes(safetensors.torch.save(tensors, metadata={"format": "pt"}))
    source, target = loaded.vocabulary.source, loaded.vocabulary.target
    (out / "source.spm").write_bytes(source.serialized)
    (out / "target.spm").write_bytes(target.serialized)
    _write_json(out / "vocab.json", _numbered(source))
    separate = _numbered(source) != _numbered(target)
    if separate:
        _write_json(out / "target_vocab.json", _numbered(target))
    _write_json(out / "config.json", _model_config(config))
    _write_json(out / "generation_config.json", _generation_config(loaded))
    _write_json(out / "tokenizer_config.json", _tokenizer_config(loaded, separate))
    _write_json(out / "special_tokens_map.json", _SPECIAL_TOKENS)


def _require_expressible(config: ModelConfig) -> None:
    alternative = "export it with --to ctranslate2 or --to onnx, or train with"
    for impossible, what, cure in (
        (config.norm == "pre", "pre-norm layers", "--model.norm post"),
        (config.positions == "learned", "learned positions", "--model.positions interleaved"),
        (config.layer_norm_eps != _EPSILON, f"layer_norm_eps {config.layer_norm_eps}", "--model.layer-norm-eps 1e-5"),
    ):
        if impossible:
            raise DragomanError(f"Hugging Face's Marian has no {what}: {alternative} {cure}")


def _tensors(loaded: ModelFolder) -> Weights:
    """All weights under Marian's names; what is tied is written once."""
    config = loaded.model.config
    own: dict[str, Tensor] = dict(loaded.model.named_parameters())
    weights = in_halves(own) if config.positions == "interleaved" else own
    tensors = layers_to_marian(weights)
    source = weights["source_embedding.weight"]
    target = weights.get("target_embedding.weight", source)
    if config.share_embeddings:
        tensors["model.shared.weight"] = source
    if not (config.share_embeddings and config.tie_softmax):
        tensors["model.encoder.embed_tokens.weight"] = source
        tensors["model.decoder.embed_tokens.weight"] = target
        tensors["lm_head.weight"] = weights.get("softmax.weight", target)
    bias = weights.get("softmax.bias", torch.zeros(config.target_vocab_size))
    tensors["final_logits_bias"] = bias[None, :]
    return tensors


def _numbered(subwords: SubwordModel) -> dict[str, int]:
    return {piece: number for number, piece in enumerate(subwords.pieces(range(len(subwords))))}


def _model_config(config: ModelConfig) -> dict[str, Any]:
    return {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "vocab_size": config.source_vocab_size,
        "decoder_vocab_size": config.target_vocab_size,
        "share_encoder_decoder_embeddings": config.share_embeddings,
        "tie_word_embeddings": config.tie_softmax,
        "d_model": config.d_model,
        "encoder_layers": config.num_encoder_layers,
        "decoder_layers": config.num_decoder_layers,
        "encoder_attention_heads": config.num_heads,
        "decoder_attention_heads": config.num_heads,
        "encoder_ffn_dim": config.d_ff,
        "decoder_ffn_dim": config.d_ff,
        "activation_function": config.activation,
        "dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
        "activation_dropout": config.activation_dropout,
        "max_position_embeddings": config.max_length,
        "scale_embedding": True,
        "static_position_embeddings": True,
        "normalize_before": False,
        "normalize_embedding": False,
        "add_final_layer_norm": False,
        "is_encoder_decoder": True,
        "pad_token_id": PAD,
        "eos_token_id": EOS,
        "forced_eos_token_id": EOS,  # or Marian's configuration puts its own number there
        "decoder_start_token_id": BOS,
        "dtype": "float32",
    }


def _generation_config(loaded: ModelFolder) -> dict[str, Any]:
    """How to search where nothing else is said, no longer than for the longest sentence that the model has seen."""
    seen = loaded.direction.facts.get(LONGEST_FACT)
    longest = seen if isinstance(seen, int) and seen > 1 else LONGEST_UNKNOWN
    return {
        "num_beams": 4,
        "early_stopping": False,
        "length_penalty": 0.6,
        "max_length": min(longest + SearchConfig().max_length + 1, loaded.model.config.max_length),
        "pad_token_id": PAD,
        "eos_token_id": EOS,
        "forced_eos_token_id": EOS,
        "decoder_start_token_id": BOS,
        "suppress_tokens": [PAD, UNK, BOS],
    }


def _tokenizer_config(loaded: ModelFolder, separate: bool) -> dict[str, Any]:
    return {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": loaded.direction.source,
        "target_lang": loaded.direction.target,
        **_SPECIAL_TOKENS,
        "model_max_length": loaded.model.config.max_length,
        "separate_vocabs": separate,
        "clean_up_tokenization_spaces": False,
    }


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
