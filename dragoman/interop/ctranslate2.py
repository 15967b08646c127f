"""CTranslate2: the model in the format of the fast inference engine, written with its own specification classes.

The folder runs with `ctranslate2.Translator` and SentencePiece alone: it holds CTranslate2's files (config.json,
model.bin and the vocabularies) and the subword models.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from dragoman.checkpoint import ModelFolder
from dragoman.config import ModelConfig
from dragoman.model.embedding import sinusoids
from dragoman.runtime.optional_imports import needed
from dragoman.text.subwords import SPECIALS, SubwordModel

Arrays = dict[str, "np.ndarray[Any, np.dtype[np.float32]]"]
QUANTIZATIONS = ("float32", "int8", "int16", "float16", "bfloat16")
_ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "swish": "SWISH"}
_MOST_READ = 1024  # subwords that CTranslate2 reads by itself; it writes 256
_UNK, _BOS, _EOS = SPECIALS[1:]


def write_model(loaded: ModelFolder, out: Path, quantization: str = "float32") -> None:
    """Write a model as CTranslate2 reads it.

    Args:
        loaded: any model of Dragoman's: both norms, all positions and activations, joint or separate vocabularies.
        out: an empty folder.
        quantization: one of QUANTIZATIONS; how weights are stored.

    Raises:
        DragomanError: CTranslate2 is not installed.
    """
    specs = needed("ctranslate2.specs", "ctranslate2")
    spec = specification(specs, loaded)
    spec.validate()
    spec.optimize(quantization=None if quantization == "float32" else quantization)
    spec.save(str(out))
    for name, content in loaded.vocabulary.files().items():
        (out / name).write_bytes(content)


def specification(specs: Any, loaded: ModelFolder) -> Any:
    """The model in the terms of `ctranslate2.specs`."""
    config = loaded.model.config
    weights = {name: _array(parameter) for name, parameter in loaded.model.named_parameters()}
    layers = (config.num_encoder_layers, config.num_decoder_layers)
    activation = getattr(specs.common_spec.Activation, _ACTIVATIONS[config.activation])
    spec = specs.TransformerSpec.from_config(
        layers, config.num_heads, pre_norm=config.norm == "pre", activation=activation
    )
    sides = ((spec.encoder, "encoder", "source"), (spec.decoder, "decoder", "target"))
    for side, name, language in sides:
        side.scale_embeddings = True
        side.position_encodings.encodings = _positions(config, weights, language)
        for number, layer in enumerate(side.layer):
            _set_layer(layer, weights, f"{name}.layers.{number}", cross=name == "decoder")
        if config.norm == "pre":
            _set_norm(side.layer_norm, weights, f"{name}.final_norm")
    source = weights["source_embedding.weight"]
    target = source if config.share_embeddings else weights["target_embedding.weight"]
    spec.encoder.embeddings[0].weight, spec.decoder.embeddings.weight = source, target
    spec.decoder.projection.weight = target if config.tie_softmax else weights["softmax.weight"]
    if config.softmax_bias:
        spec.decoder.projection.bias = weights["softmax.bias"]
    spec.config.layer_norm_epsilon = config.layer_norm_eps
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = _UNK, _BOS, _EOS
    spec.config.decoder_start_token, spec.config.add_source_eos = _BOS, True
    spec.register_source_vocabulary(_pieces(loaded.vocabulary.source))
    spec.register_target_vocabulary(_pieces(loaded.vocabulary.target))
    return spec


def _array(tensor: Tensor) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.array(tensor.detach().float().cpu().numpy())  # a copy: quantization happens in place


def _positions(config: ModelConfig, weights: Arrays, language: str) -> np.ndarray[Any, np.dtype[np.float32]]:
    """The table of positions (max_length or more, D).

    Left to itself, CTranslate2 would take sinusoids in two halves. Who asks for no other limit, as Argos does, can have
    it read and write beyond a small max_length, where it would otherwise stop with an error.
    """
    rows = max(config.max_length, _MOST_READ)
    if config.positions == "learned":  # beyond what it has learnt, all is as in the last place
        return np.pad(weights[f"{language}_positions.table"], [(0, rows - config.max_length), (0, 0)], mode="edge")
    return _array(sinusoids(rows, config.d_model, config.positions))


def _pieces(subwords: SubwordModel) -> list[str]:
    return subwords.pieces(range(len(subwords)))


def _set_layer(layer: Any, weights: Arrays, name: str, cross: bool) -> None:
    """Fill a layer's specification; what projects the same input is one matrix."""
    _set_attention(layer.self_attention, weights, f"{name}.self_attention", [("query", "key", "value"), ("output",)])
    if cross:
        parts = [("query",), ("key", "value"), ("output",)]
        _set_attention(layer.attention, weights, f"{name}.cross_attention", parts)
    _set_linear(layer.ffn.linear_0, weights, [f"{name}.feed_forward.inner"])
    _set_linear(layer.ffn.linear_1, weights, [f"{name}.feed_forward.outer"])
    _set_norm(layer.ffn.layer_norm, weights, f"{name}.feed_forward_connection.layer_norm")


def _set_attention(spec: Any, weights: Arrays, name: str, products: Sequence[Sequence[str]]) -> None:
    for linear, parts in zip(spec.linear, products, strict=True):
        _set_linear(linear, weights, [f"{name}.{part}" for part in parts])
    _set_norm(spec.layer_norm, weights, f"{name}_connection.layer_norm")


def _set_linear(spec: Any, weights: Arrays, names: Sequence[str]) -> None:
    spec.weight = np.concatenate([weights[f"{name}.weight"] for name in names])
    spec.bias = np.concatenate([weights[f"{name}.bias"] for name in names])


def _set_norm(spec: Any, weights: Arrays, name: str) -> None:
    spec.gamma, spec.beta = weights[f"{name}.weight"], weights[f"{name}.bias"]
