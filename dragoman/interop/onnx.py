"""ONNX: the encoder and one step of the decoder as graphs, for onnxruntime, transformers.js and other readers of ONNX.

Their inputs and outputs are those of MarianMTModel in transformers.js, except that the encoder returns the keys and
values of the memory for all decoder layers side by side, which that library only passes on. The decoder also returns
the cross-attention that alignments are read from. The first past has no position, T = 0.

Shapes: N sentences or hypotheses, S source length, T tokens so far, L decoder layers, D d_model, H heads, K d_k,
V vocabulary.
"""

import logging
import warnings
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dragoman.checkpoint import ModelFolder
from dragoman.config import BOS, PAD, SearchConfig
from dragoman.inference.alignment import alignment_layer
from dragoman.inference.rules import forbid_specials
from dragoman.inference.search import SearchState, log_sums, search
from dragoman.interop.parity import Array, Backend
from dragoman.model.attention import AttentionMaps, KeyValueCache
from dragoman.model.layers import LayerCache
from dragoman.model.masks import padding_mask
from dragoman.model.transformer import Transformer
from dragoman.runtime.optional_imports import import_optional
from dragoman.text.batches import pad_right
from dragoman.text.subwords import Vocabulary

ENCODER_FILE, DECODER_FILE = "encoder.onnx", "decoder.onnx"
ENCODER_INPUTS = ("input_ids", "attention_mask")
DECODER_INPUTS = ("encoder_attention_mask", "input_ids", "encoder_hidden_states")
DECODER_OUTPUTS = ("logits", "cross_attentions")
_OPSET = 18


class EncoderGraph(nn.Module):
    """The encoder, and the keys and values of the memory for every decoder layer."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Source ids (N, S) and which of them are real (N, S) -> keys and values of layer after layer (N, S, 2LD)."""
        memory = self.model.encode(input_ids, padding_mask(attention_mask, 0))
        blocks: list[Any] = [layer.cross_attention for layer in self.model.decoder.layers]
        return torch.cat([project(memory) for block in blocks for project in (block.key, block.value)], dim=2)


class DecoderGraph(nn.Module):
    """One step of the decoder; embedding and softmax share a table where the model does, so that it is stored once."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model
        self.table = nn.Parameter(model.softmax.weight.detach().t().contiguous())  # (D, V)

    def forward(self, mask: Tensor, last: Tensor, memory: Tensor, *past: Tensor) -> tuple[Tensor, ...]:
        """Logits (N, 1, V), cross-attention (N, 1, S) as the mean of the heads, and the past with one more position.

        Args:
            mask: which source ids are real (N, S).
            last: the last tokens (N, 1).
            memory: what the encoder returned.
            past: keys and values (N, H, T, K) of layer after layer.
        """
        model = self.model
        count, size = model.config.num_heads, past[0].size(3)
        heads = (x.view(*x.shape[:2], count, size).transpose(1, 2) for x in memory.chunk(len(past), dim=2))
        caches = [
            LayerCache(next(heads), next(heads), KeyValueCache(keys, values))
            for keys, values in zip(past[::2], past[1::2], strict=True)
        ]
        if model.config.tie_softmax:
            x = self.table.index_select(1, last[:, 0]).t()[:, None] * model.target_embedding.scale  # (N, 1, D)
        else:
            x = model.target_embedding(last)
        maps: AttentionMaps = {}
        x = model.target_positions(x, past[0].size(2))
        x = model.decoder(x, caches, None, padding_mask(mask, 0), maps)  # (N, 1, D)
        logits = x @ self.table if model.softmax.bias is None else x @ self.table + model.softmax.bias
        weights = maps[f"decoder.{alignment_layer(len(caches))}.cross_attention"]
        return logits, weights.mean(dim=1), *(x for one in caches for x in (one.past.keys, one.past.values))


def write_graphs(model: Transformer, encoder_file: Path, decoder_file: Path, quantization: str = "float32") -> None:
    """Write the graphs, with weights in float32 or int8."""
    for module in ("onnx", "onnxscript"):
        import_optional(module, "onnx")
    for program, place in zip(_graphs(model), (encoder_file, decoder_file), strict=True):
        _write(program, place, quantization)


@lru_cache(maxsize=1)  # tracing takes seconds, and what is written in int8 is written in float32 before, for the proof
def _graphs(model: Transformer) -> tuple[torch.onnx.ONNXProgram, torch.onnx.ONNXProgram]:
    model = model.cpu().eval()
    # In the first past, transformers.js takes 0 for every dimension that is not called batch_size.
    sentences, length = torch.export.Dim("batch_size"), torch.export.Dim("source_length")
    steps = torch.export.Dim("steps", max=model.config.max_length - 1)
    by_source, by_step = {0: sentences, 1: length}, {0: sentences, 2: steps}
    source = torch.full((2, 3), 5)
    mask, encoder, decoder = torch.ones_like(source), EncoderGraph(model), DecoderGraph(model)
    first = _trace(encoder, (source, mask), ENCODER_INPUTS, ("last_hidden_state",), (by_source, by_source))
    heads, width, layers = model.config.num_heads, model.config.d_model, len(model.decoder.layers)
    past = tuple(torch.zeros(2, heads, 2, width // heads) for _ in range(2 * layers))
    cached = [f"{layer}.decoder.{side}" for layer in range(layers) for side in ("key", "value")]
    return first, _trace(
        decoder,
        (mask, source[:, :1], encoder(source, mask), *past),
        (*DECODER_INPUTS, *(f"past_key_values.{name}" for name in cached)),
        (*DECODER_OUTPUTS, *(f"present.{name}" for name in cached)),
        (by_source, {0: sentences}, by_source, tuple(by_step for _ in past)),
    )


def _trace(
    graph: nn.Module, inputs: tuple[Tensor, ...], names: Sequence[str], outputs: Sequence[str], shapes: tuple[Any, ...]
) -> torch.onnx.ONNXProgram:
    """Trace a module on inputs, whose dynamic shapes are given as torch.export takes them."""
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # it mentions libraries that are not needed here
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            graph,
            inputs,
            input_names=names,
            output_names=outputs,
            dynamic_shapes=shapes,
            opset_version=_OPSET,
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    for node in program.model.graph:
        node.metadata_props.clear()  # the lines of this installation that made the node
    return program


def _write(program: torch.onnx.ONNXProgram, place: Path, quantization: str) -> None:
    if quantization == "float32":
        program.save(str(place), external_data=False)
        return
    library = import_optional("onnxruntime.quantization", "onnx")
    logging.disable(logging.WARNING)  # it recommends a step that changes nothing here
    try:
        # Unsigned, as the products of signed weights overflow on processors with AVX2 alone.
        library.quantize_dynamic(program.model_proto, str(place), weight_type=library.QuantType.QUInt8)
    finally:
        logging.disable(logging.NOTSET)


def write_model(loaded: ModelFolder, out: Path) -> None:
    """Write both graphs and the subword models."""
    write_graphs(loaded.model, out / ENCODER_FILE, out / DECODER_FILE)
    loaded.vocabulary.save(out)


def export(loaded: ModelFolder, folder: Path, quantization: str) -> Backend:
    """Write a model in float32 into an empty folder, and load it from there."""
    write_model(loaded, folder)
    return OnnxBackend(folder)


class OnnxBackend(Backend):
    """Both graphs, run by onnxruntime, as a side of the proof; Dragoman's own loop searches."""

    def __init__(self, folder: Path) -> None:
        self.vocabulary = Vocabulary.load(folder)
        self._open(folder / ENCODER_FILE, folder / DECODER_FILE)

    def _open(self, encoder_file: Path, decoder_file: Path) -> None:
        library = import_optional("onnxruntime", "onnx")
        self.name = f"onnxruntime {library.__version__}"
        self._encoder, self._decoder = (
            library.InferenceSession(str(place), providers=["CPUExecutionProvider"])
            for place in (encoder_file, decoder_file)
        )

    def search(self, sources: list[list[int]], beam: int, limits: list[int]) -> list[list[int]]:
        """As Backend.search."""
        config = SearchConfig(beam=beam, length_penalty=0.0)
        found = search(self._step, self._start(sources), limits, config, [forbid_specials])
        return [hypotheses[0].tokens for hypotheses in found]

    def forced(self, source: list[int], target: list[int]) -> Array:
        """As Backend.forced: logits (T, V), token by token."""
        state = self._start([source])
        rows = [self._step(torch.tensor([token]), state)[0] for token in (BOS, *target[:-1])]
        return torch.cat(rows).numpy()

    def _start(self, sources: list[list[int]]) -> SearchState:
        source = pad_right(sources)
        mask = (source != PAD).astype(np.int64)
        (memory,) = self._encoder.run(None, dict(zip(ENCODER_INPUTS, (source, mask), strict=True)))
        empty = [(len(source), *past.shape[1:2], 0, *past.shape[3:]) for past in self._decoder.get_inputs()[3:]]
        return _State([mask, memory], [np.zeros(shape, dtype=np.float32) for shape in empty])

    def _step(self, last: Tensor, state: SearchState) -> tuple[Tensor, Tensor]:
        assert isinstance(state, _State)
        mask, memory = state.fixed
        given = (mask, last[:, None].numpy(), memory, *state.past)
        names = (node.name for node in self._decoder.get_inputs())
        found = self._decoder.run(None, dict(zip(names, given, strict=True)))
        state.past = found[len(DECODER_OUTPUTS) :]
        logits = torch.from_numpy(found[0])[:, 0]
        return logits, log_sums(logits)


class _State:
    """Mask and memory, and the past, of the hypotheses."""

    def __init__(self, fixed: list[Array], past: list[Array]) -> None:
        self.fixed, self.past = fixed, past

    def select(self, hypotheses: Tensor, sentences: Tensor | None) -> None:
        kept = hypotheses.numpy()
        self.fixed, self.past = ([array[kept] for array in arrays] for arrays in (self.fixed, self.past))
