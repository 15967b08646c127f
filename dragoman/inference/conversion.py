"""The model as CTranslate2 reads it, written with that library's own specification classes."""

import random
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ctranslate2.specs
import numpy as np
import torch
from ctranslate2.specs.model_spec import NumpyVariable, Variable, visit_spec
from torch import Tensor

from dragoman.checkpoint import ModelFolder
from dragoman.config import BOS, EOS, UNK, DragomanError, ModelConfig
from dragoman.folder import CONVERTED, EXPORT_FILE, describe, model_key
from dragoman.inference.alignment import Array, alignment_layer
from dragoman.inference.ctranslate2 import CTranslate2Engine
from dragoman.inference.engine import Engine
from dragoman.model.embedding import sinusoids
from dragoman.runtime.console import say
from dragoman.runtime.files import make_folder, write_together
from dragoman.text.subwords import SPECIALS

_DEFAULT_INPUT_LIMIT = 1024  # subwords that CTranslate2 reads if nobody sets a limit; it writes 256
_PROOF_LENGTHS = range(1, 30, 3)  # subwords of the random sentences that both engines score
_MAX_DIFFERENCE = 1e-3  # nats for each subword


def convert(folder: Path) -> None:
    """Write a model folder's model as CTranslate2 reads it beside the weights: in each precision, in CONVERTED.

    Both engines score random sentences first, in float32, where rounding cannot hide a fault; a DragomanError if they
    do not agree.
    """
    key, loaded, copy = model_key(folder), ModelFolder.load(folder), folder / CONVERTED
    say(f"{folder}: making a copy for CTranslate2, once (--engine torch needs none)")
    try:
        with tempfile.TemporaryDirectory() as name:
            place, contents = Path(name), dict[Path, bytes]()
            for precision in ("float32", "int8"):
                (place / precision).mkdir()
                write_model(loaded, place / precision, precision)
                described = describe(loaded.direction, loaded.model.config, "ctranslate2", place / precision, key)
                (place / precision / EXPORT_FILE).write_bytes(described)
                contents |= {copy / precision / p.name: p.read_bytes() for p in sorted((place / precision).iterdir())}
            _prove(loaded, place / "float32")
        for parent in {path.parent for path in contents}:
            make_folder(parent)
        write_together(contents)
    except OSError as error:
        raise DragomanError(f"{copy}: can't be made ({error.strerror}); make room, or use --engine torch") from None


def _prove(loaded: ModelFolder, converted: Path) -> None:
    config, draw = loaded.model.config, random.Random(1)
    sources, targets = (
        [[*draw.choices(range(len(SPECIALS), size), k=min(k, config.max_length - 1)), EOS] for k in _PROOF_LENGTHS]
        for size in (config.source_vocab_size, config.target_vocab_size)
    )
    engines = (
        Engine(loaded.model, torch.device("cpu"), autocast=False),
        CTranslate2Engine(converted, loaded.vocabulary, config),
    )
    for here, there, target in zip(*(engine.score(sources, targets) for engine in engines), targets, strict=True):
        if not abs(here - there) <= _MAX_DIFFERENCE * len(target):
            found = f"CTranslate2 computes something else ({there:.3f}, not {here:.3f})"
            raise DragomanError(f"{found}: use --engine torch")


def write_model(loaded: ModelFolder, out: Path, quantization: str = "float32", tag: str = "") -> None:
    """Write a model of any kind into an empty folder as CTranslate2 reads it, which puts the tag before each source."""
    spec = specification(loaded)
    if tag:
        spec.config.bos_token, spec.config.add_source_bos = tag, True
    spec.validate()
    spec.optimize(quantization=None if quantization == "float32" else quantization)
    if quantization.startswith("int8"):
        visit_spec(spec, _use_7_bits)
    spec.save(str(out))
    for name, content in loaded.vocabulary.files().items():  # not save, which removes target_vocabulary.json
        (out / name).write_bytes(content)


def _use_7_bits(spec: Any, name: str, value: Any) -> None:
    """Halve a matrix of 8-bit integers, of which processors without VNNI add up two products in 16 bits."""
    if name.endswith("weight") and isinstance(value, Variable) and value.dtype == "int8":
        spec.weight = NumpyVariable(np.rint(value.numpy() / 2).astype(np.int8))
        spec.weight_scale = NumpyVariable(spec.weight_scale.numpy() / 2)


def specification(loaded: ModelFolder) -> Any:
    """The model as the input of CTranslate2's writer."""
    specs = ctranslate2.specs
    config = loaded.model.config
    weights = {name: _array(parameter) for name, parameter in loaded.model.named_parameters()}
    layers = (config.num_encoder_layers, config.num_decoder_layers)
    activation = getattr(specs.common_spec.Activation, config.activation.upper())
    pre_norm = config.norm == "pre"
    spec = specs.TransformerSpec.from_config(
        layers,
        config.num_heads,
        pre_norm=pre_norm,
        activation=activation,
        alignment_layer=alignment_layer(config.num_decoder_layers),
        alignment_heads=config.num_heads,
    )
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
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = SPECIALS[UNK:]
    spec.config.decoder_start_token, spec.config.add_source_eos = SPECIALS[BOS], True
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
