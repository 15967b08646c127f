"""ONNX: the encoder and one step of the decoder as graphs, for onnxruntime and whatever else reads ONNX.

encoder.onnx takes source (N, S) and gives memory_keys and memory_values (L, N, H, S, K). decoder.onnx takes source, the
last tokens (N), their position (1), these two and past_keys and past_values (L, N, H, T, K); it gives logits (N, V) and
the past with one position more. The first past has no position, T = 0.

Shapes: N sentences or hypotheses, S source length, T tokens so far, L decoder layers, H heads, K d_k, V vocabulary.
"""

from __future__ import annotations

import logging
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from dragoman.checkpoint import ModelFolder
from dragoman.config import PAD
from dragoman.model.layers import DecoderLayer
from dragoman.model.masks import padding_mask
from dragoman.model.transformer import Transformer
from dragoman.runtime.optional_imports import needed

ENCODER_FILE, DECODER_FILE = "encoder.onnx", "decoder.onnx"
ENCODER_OUTPUTS = ("memory_keys", "memory_values")
DECODER_INPUTS = ("source", "last", "position", *ENCODER_OUTPUTS, "past_keys", "past_values")
DECODER_OUTPUTS = ("logits", "keys", "values")
_OPSET = 18


class EncoderGraph(nn.Module):
    """The encoder, and what every decoder layer makes of the memory."""

    def __init__(self, model: Transformer) -> None:
        """Wrap a model."""
        super().__init__()
        self.model = model

    def forward(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """source ids (N, S) -> keys and values of the memory, (L, N, H, S, K) each."""
        memory = self.model.encode(source, padding_mask(source, PAD))
        projected = [layer.cross_attention.project(memory, memory) for layer in self.model.decoder.layers]  # type: ignore[union-attr,operator]
        return torch.stack([keys for keys, _ in projected]), torch.stack([values for _, values in projected])


class DecoderGraph(nn.Module):
    """One step of the decoder."""

    def __init__(self, model: Transformer) -> None:
        """Wrap a model."""
        super().__init__()
        self.model = model

    def forward(
        self, source: Tensor, last: Tensor, position: Tensor, memory_keys: Tensor, memory_values: Tensor,
        past_keys: Tensor, past_values: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
        """Logits (N, V) of the token after the last ones (N), and the past with them."""
        source_mask = padding_mask(source, PAD)
        x = self.model.target_embedding(last[:, None])  # (N, 1, D)
        x = x + self.model.target_positions.table.index_select(0, position)
        keys, values = [], []
        for number, layer in enumerate(self.model.decoder.layers):
            memory, past = (memory_keys[number], memory_values[number]), (past_keys[number], past_values[number])
            x, grown = _advance(layer, x, source_mask, memory, past)  # type: ignore[arg-type]
            keys.append(grown[0])
            values.append(grown[1])
        logits = self.model.softmax(self.model.decoder.final_norm(x))[:, 0]
        return logits, torch.stack(keys), torch.stack(values)


Two = tuple[Tensor, Tensor]


def _advance(layer: DecoderLayer, x: Tensor, source_mask: Tensor, memory: Two, past: Two) -> tuple[Tensor, Two]:
    """One position through one layer: x (N, 1, D); memory and past are keys and values (N, H, …, K)."""
    grown: list[Tensor] = []

    def look_back(y: Tensor) -> Tensor:
        newest = layer.self_attention.project(y, y)
        grown.extend(torch.cat(pair, dim=2) for pair in zip(past, newest, strict=True))
        return layer.self_attention.attend(y, grown[0], grown[1])

    x = layer.self_attention_connection(x, look_back)
    x = layer.cross_attention_connection(x, lambda y: layer.cross_attention.attend(y, *memory, source_mask))
    return layer.feed_forward_connection(x, layer.feed_forward), (grown[0], grown[1])


def write_model(loaded: ModelFolder, out: Path) -> None:
    """Write both graphs and the subword models.

    Raises:
        DragomanError: onnx or onnxscript is not installed.
    """
    for module in ("onnx", "onnxscript"):
        needed(module, "onnx")
    model, dim = loaded.model.cpu().eval(), torch.export.Dim
    sentences, length, steps = dim("sentences"), dim("source_length"), dim("steps")
    by_source, by_step = {1: sentences, 3: length}, {1: sentences, 3: steps}
    source, last, position = torch.full((2, 3), 5), torch.full((2,), 5), torch.tensor([2])
    memory = EncoderGraph(model)(source)
    past = tuple(side[:, :, :, :2] for side in memory)
    shapes: tuple[Any, ...] = ({0: sentences, 1: length},)
    _export(EncoderGraph(model), (source,), out / ENCODER_FILE, ("source",), ENCODER_OUTPUTS, shapes)
    shapes = (*shapes, {0: sentences}, None, by_source, by_source, by_step, by_step)
    arguments = (source, last, position, *memory, *past)
    _export(DecoderGraph(model), arguments, out / DECODER_FILE, DECODER_INPUTS, DECODER_OUTPUTS, shapes)
    for name, content in loaded.vocabulary.files().items():
        (out / name).write_bytes(content)


def _export(
    graph: nn.Module, arguments: tuple[Tensor, ...], path: Path, inputs: tuple[str, ...], outputs: tuple[str, ...],
    shapes: tuple[Any, ...],
) -> None:  # fmt: skip
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # it tells of libraries that are not needed here
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            graph, arguments, input_names=inputs, output_names=outputs, dynamic_shapes=shapes, opset_version=_OPSET,
            dynamo=True, verbose=False,
        )  # fmt: skip
        assert program is not None
        program.save(str(path), external_data=False)
