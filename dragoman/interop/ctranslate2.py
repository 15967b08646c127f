"""CTranslate2: the model in the format of the fast inference engine, written with its own specification classes.

The folder runs with `ctranslate2.Translator` and SentencePiece alone: it has the subword models as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dragoman.checkpoint import ModelFolder
from dragoman.config import ModelConfig, SearchConfig
from dragoman.inference.ctranslate2 import CTranslate2Engine
from dragoman.interop.parity import Array, Backend
from dragoman.model.embedding import sinusoids
from dragoman.runtime.optional_imports import import_optional
from dragoman.text.subwords import SPECIALS, Vocabulary

_DEFAULT_INPUT_LIMIT = 1024  # subwords that CTranslate2 reads if nobody sets a limit; it writes 256
_UNK, _BOS, _EOS = SPECIALS[1:]


def write_model(loaded: ModelFolder, out: Path, quantization: str = "float32") -> None:
    """Write a model of any kind into an empty folder as CTranslate2 reads it."""
    specs = import_optional("ctranslate2.specs", "ctranslate2")
    spec = specification(specs, loaded)
    spec.validate()
    spec.optimize(quantization=None if quantization == "float32" else quantization)
    spec.save(str(out))
    for name, content in loaded.vocabulary.files().items():  # not save, which removes target_vocabulary.json
        (out / name).write_bytes(content)


def specification(specs: Any, loaded: ModelFolder) -> Any:
    """The model as a specification of the module `ctranslate2.specs`, the input of its writer."""
    config = loaded.model.config
    weights = {name: _array(parameter) for name, parameter in loaded.model.named_parameters()}
    layers = (config.num_encoder_layers, config.num_decoder_layers)
    activation = getattr(specs.common_spec.Activation, config.activation.upper())
    pre_norm = config.norm == "pre"
    spec = specs.TransformerSpec.from_config(layers, config.num_heads, pre_norm=pre_norm, activation=activation)
    for part, name, language in ((spec.encoder, "encoder", "source"), (spec.decoder, "decoder", "target")):
        part.scale_embeddings = True
        part.position_encodings.encodings = _positions(config, weights, language)
        for number, layer in enumerate(part.layer):
            _set_layer(layer, weights, f"{name}.layers.{number}", cross=name == "decoder")
        if pre_norm:
            _set_norm(part.layer_norm, weights, f"{name}.final_norm")
    source = weights["source_embedding.weight"]
    target = source if config.share_embeddings else weights["target_embedding.weight"]
    spec.encoder.embeddings[0].weight, spec.decoder.embeddings.weight = source, target
    spec.decoder.projection.weight = target if config.tie_softmax else weights["softmax.weight"]
    if config.softmax_bias:
        spec.decoder.projection.bias = weights["softmax.bias"]
    spec.config.layer_norm_epsilon = config.layer_norm_eps
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = _UNK, _BOS, _EOS
    spec.config.decoder_start_token, spec.config.add_source_eos = _BOS, True
    spec.register_source_vocabulary(loaded.vocabulary.source.listed)
    spec.register_target_vocabulary(loaded.vocabulary.target.listed)
    return spec


def _array(tensor: Tensor) -> Array:
    return np.array(tensor.detach().float().cpu().numpy())  # a copy: quantization happens in place


def _positions(config: ModelConfig, weights: dict[str, Array], language: str) -> Array:
    """The table of positions (max_length or more, D), for CTranslate2's default limit too: Argos sets none."""
    rows = max(config.max_length, _DEFAULT_INPUT_LIMIT)
    if config.positions == "learned":  # beyond the positions it has learned, the last one is repeated
        return np.pad(weights[f"{language}_positions.table"], [(0, rows - config.max_length), (0, 0)], mode="edge")
    return _array(sinusoids(rows, config.d_model, config.positions))


def _set_layer(layer: Any, weights: dict[str, Array], name: str, cross: bool) -> None:
    _set_attention(layer.self_attention, weights, f"{name}.self_attention", [("query", "key", "value"), ("output",)])
    if cross:
        parts = [("query",), ("key", "value"), ("output",)]
        _set_attention(layer.attention, weights, f"{name}.cross_attention", parts)
    _set_linear(layer.ffn.linear_0, weights, [f"{name}.feed_forward.inner"])
    _set_linear(layer.ffn.linear_1, weights, [f"{name}.feed_forward.outer"])
    _set_norm(layer.ffn.layer_norm, weights, f"{name}.feed_forward_connection.layer_norm")


def _set_attention(spec: Any, weights: dict[str, Array], name: str, products: Sequence[Sequence[str]]) -> None:
    for linear, parts in zip(spec.linear, products, strict=True):
        _set_linear(linear, weights, [f"{name}.{part}" for part in parts])
    _set_norm(spec.layer_norm, weights, f"{name}_connection.layer_norm")


def _set_linear(spec: Any, weights: dict[str, Array], names: Sequence[str]) -> None:
    """Projections of the same input are one matrix."""
    spec.weight = np.concatenate([weights[f"{name}.weight"] for name in names])
    spec.bias = np.concatenate([weights[f"{name}.bias"] for name in names])


def _set_norm(spec: Any, weights: dict[str, Array], name: str) -> None:
    spec.gamma, spec.beta = weights[f"{name}.weight"], weights[f"{name}.bias"]


def export(loaded: ModelFolder, folder: Path, quantization: str) -> Backend:
    """Write a model into an empty folder, and load it from there."""
    write_model(loaded, folder, quantization)
    return CTranslate2Backend(folder, loaded.model.config, exact=quantization == "float32")


class CTranslate2Backend(Backend):
    """A folder in CTranslate2's format, as a side of the proof; exact if its weights are stored in float32."""

    renormalizes = True

    def __init__(self, folder: Path, config: ModelConfig, exact: bool) -> None:
        self.vocabulary = Vocabulary.load(folder)
        self.name = f"ctranslate2 {import_optional('ctranslate2', 'ctranslate2').__version__}"
        self.exact = exact
        self._engine = CTranslate2Engine(folder, self.vocabulary, config, threads=torch.get_num_threads())

    def search(self, sources: list[list[int]], beam: int, limit: int) -> list[list[int]]:
        """As Backend.search."""
        found = self._engine.hypotheses(sources, SearchConfig(beam=beam, length_penalty=0.0), [limit] * len(sources))
        return [hypotheses[0].tokens for hypotheses in found]

    def forced(self, source: list[int], target: list[int]) -> Array:
        """As Backend.forced: log-probabilities (T)."""
        return np.array(self._engine.token_scores([source], [target])[0], dtype=np.float32)
