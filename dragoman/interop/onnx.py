"""ONNX: the encoder and one step of the decoder as graphs, for onnxruntime and other readers of ONNX.

encoder.onnx maps source (N, S) to memory_keys and memory_values (L, N, H, S, K). decoder.onnx takes source, the last
tokens (N), their position (1), the output of the encoder, and past_keys and past_values (L, N, H, T, K); it returns
logits (N, V) and the past with one more position. The first past has no position, T = 0.

Shapes: N sentences or hypotheses, S source length, T tokens so far, L decoder layers, H heads, K d_k, V vocabulary.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dragoman.checkpoint import ModelFolder
from dragoman.config import BOS, PAD, SearchConfig
from dragoman.inference.rules import NEVER_WRITTEN
from dragoman.inference.search import SearchState, log_sums, search
from dragoman.interop.parity import Array, Backend
from dragoman.model.attention import KeyValueCache
from dragoman.model.layers import LayerCache
from dragoman.model.masks import padding_mask
from dragoman.model.transformer import Transformer
from dragoman.runtime.optional_imports import import_optional
from dragoman.text.batches import pad_right
from dragoman.text.subwords import Vocabulary

ENCODER_FILE, DECODER_FILE = "encoder.onnx", "decoder.onnx"
ENCODER_OUTPUTS = ("memory_keys", "memory_values")
DECODER_INPUTS = ("source", "last", "position", *ENCODER_OUTPUTS, "past_keys", "past_values")
DECODER_OUTPUTS = ("logits", "keys", "values")
_OPSET = 18


class _Graph(nn.Module):
    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model


class EncoderGraph(_Graph):
    """The encoder, and the keys and values of the memory for every decoder layer."""

    def forward(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """source ids (N, S) -> keys and values of the memory, (L, N, H, S, K) each."""
        memory = self.model.encode(source, padding_mask(source, PAD))
        layers = self.model.start_cache(memory)
        keys = torch.stack([layer.memory_keys for layer in layers])
        return keys, torch.stack([layer.memory_values for layer in layers])


class DecoderGraph(_Graph):
    """One step of the decoder."""

    def forward(
        self, source: Tensor, last: Tensor, position: Tensor, memory_keys: Tensor, memory_values: Tensor,
        past_keys: Tensor, past_values: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
        """Logits (N, V) of the next token, and the keys and values of the past with the last token."""
        caches = [
            LayerCache(memory_keys[layer], memory_values[layer], KeyValueCache(past_keys[layer], past_values[layer]))
            for layer in range(len(memory_keys))  # an index is one node of the graph, unpacking would be two
        ]
        x = self.model.target_embedding(last[:, None]) + self.model.target_positions.table.index_select(0, position)
        x = self.model.decoder(x, caches, None, padding_mask(source, PAD))  # (N, 1, D)
        logits = self.model.softmax(x)[:, 0]
        keys, values = (torch.stack([getattr(cache.past, name) for cache in caches]) for name in ("keys", "values"))
        return logits, keys, values


def write_model(loaded: ModelFolder, out: Path) -> None:
    """Write both graphs and the subword models."""
    for module in ("onnx", "onnxscript"):
        import_optional(module, "onnx")
    model = loaded.model.cpu().eval()
    encoder, decoder = EncoderGraph(model), DecoderGraph(model)
    source, last, position = torch.full((2, 3), 5), torch.full((2,), 5), torch.tensor([2])
    memory = encoder(source)
    past = tuple(projected[:, :, :, :2] for projected in memory)
    sentences, length, steps = (torch.export.Dim(name) for name in ("sentences", "source_length", "steps"))
    by_source, by_step = {1: sentences, 3: length}, {1: sentences, 3: steps}
    shapes: list[Any] = [{0: sentences, 1: length}, {0: sentences}, None, by_source, by_source, by_step, by_step]
    for graph, inputs, input_names, output_names, name in (
        (encoder, (source,), DECODER_INPUTS[:1], ENCODER_OUTPUTS, ENCODER_FILE),
        (decoder, (source, last, position, *memory, *past), DECODER_INPUTS, DECODER_OUTPUTS, DECODER_FILE),
    ):
        program = to_onnx(graph, inputs, input_names, output_names, shapes[: len(inputs)])
        program.save(str(out / name), external_data=False)
    loaded.vocabulary.save(out)


def to_onnx(
    graph: nn.Module,
    inputs: tuple[Tensor, ...],
    input_names: Sequence[str],
    output_names: Sequence[str],
    shapes: Sequence[Any],
) -> torch.onnx.ONNXProgram:
    """Trace a module on inputs, whose dynamic shapes are given as torch.export takes them."""
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # it mentions libraries that are not needed here
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            graph,
            inputs,
            input_names=input_names,
            output_names=output_names,
            dynamic_shapes=tuple(shapes),
            opset_version=_OPSET,
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    for node in program.model.graph:
        node.metadata_props.clear()  # the lines of this installation that made the node
    return program


def export(loaded: ModelFolder, folder: Path, quantization: str) -> Backend:
    """Write a model in float32 into an empty folder, and load it from there."""
    write_model(loaded, folder)
    return OnnxBackend(folder)


class OnnxBackend(Backend):
    """Both graphs, run by onnxruntime, as a side of the proof; Dragoman's own loop searches."""

    def __init__(self, folder: Path) -> None:
        self.vocabulary = Vocabulary.load(folder)
        library = import_optional("onnxruntime", "onnx")
        self.name = f"onnxruntime {library.__version__}"
        self._encoder, self._decoder = (
            library.InferenceSession(str(folder / name), providers=["CPUExecutionProvider"])
            for name in (ENCODER_FILE, DECODER_FILE)
        )

    def search(self, sources: list[list[int]], beam: int, limit: int) -> list[list[int]]:
        """As Backend.search."""
        config = SearchConfig(beam=beam, length_penalty=0.0)
        found = search(self._step, self._start(sources), [limit] * len(sources), config, [NEVER_WRITTEN])
        return [hypotheses[0].tokens for hypotheses in found]

    def forced(self, source: list[int], target: list[int]) -> Array:
        """As Backend.forced: logits (T, V), token by token."""
        state = self._start([source])
        rows = [self._step(torch.tensor([token]), state)[0] for token in (BOS, *target[:-1])]
        return torch.cat(rows).numpy()

    def _start(self, sources: list[list[int]]) -> SearchState:
        source = pad_right(sources, 2**31)
        return _OnnxState(source, *self._encoder.run(None, {"source": source}))

    def _step(self, last: Tensor, state: SearchState) -> tuple[Tensor, Tensor]:
        assert isinstance(state, _OnnxState)
        position = np.array([state.past[0].shape[3]])
        arguments = (state.source, last.numpy(), position, *state.memory, *state.past)
        found = self._decoder.run(None, dict(zip(DECODER_INPUTS, arguments, strict=True)))
        state.past = (found[1], found[2])
        logits = torch.from_numpy(found[0])
        return logits, log_sums(logits)


class _OnnxState:
    """Source, memory and past of the hypotheses."""

    def __init__(self, source: Any, keys: Array, values: Array) -> None:
        self.source, self.memory = source, (keys, values)
        self.past = (keys[:, :, :, :0], values[:, :, :, :0])

    def select(self, hypotheses: Tensor, sentences: Tensor | None) -> None:
        kept = hypotheses.numpy()
        self.source = self.source[kept]
        self.memory = (self.memory[0][:, kept], self.memory[1][:, kept])
        self.past = (self.past[0][:, kept], self.past[1][:, kept])
