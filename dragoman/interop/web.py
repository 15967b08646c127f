"""The web: a folder of static files that translates in the visitor's browser, with transformers.js.

`model/` holds graphs with the names, inputs and outputs that MarianMTModel of transformers.js expects, except that the
encoder returns the keys and values of the memory for all decoder layers side by side, which the library only passes
on. The decoder also returns the cross-attention that alignments are read from.

Shapes: N sentences or hypotheses, S source length, T tokens so far, L decoder layers, D d_model, H heads, K d_k,
V vocabulary.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dragoman.checkpoint import ModelFolder
from dragoman.config import BOS, EOS, PAD, ConfigError, DragomanError
from dragoman.folder import LONGEST_FACT, LONGEST_UNKNOWN
from dragoman.inference.alignment import alignment_layer
from dragoman.inference.rules import NEVER_WRITTEN
from dragoman.inference.search import SearchState, log_sums
from dragoman.interop.onnx import OnnxBackend, to_onnx
from dragoman.interop.parity import Array, Backend
from dragoman.interop.tokenizer_json import tokenizer_json
from dragoman.model.attention import AttentionMaps, KeyValueCache
from dragoman.model.layers import LayerCache
from dragoman.model.masks import padding_mask
from dragoman.model.transformer import Transformer
from dragoman.runtime.files import checksum
from dragoman.runtime.optional_imports import import_optional
from dragoman.serving import page
from dragoman.text.batches import pad_right
from dragoman.text.languages import has_spaces
from dragoman.text.placeholders import PATTERN

PACKAGE = "@huggingface/transformers@4.3.1"
ASSETS = {
    "@huggingface/transformers/dist/transformers.min.js": (
        "8d6716d9086f57c30a4bf367dba61b887593573c770c454465e8019b2703e743"
    ),
    "onnxruntime-web/dist/ort-wasm-simd-threaded.mjs": (
        "c57ca56328877353a575e51bbca6f18450027d6c9bf2307a2cb2c41363b4de9f"
    ),
    "onnxruntime-web/dist/ort-wasm-simd-threaded.wasm": (
        "06ba057753da3847e4c24f02d91ab133455b0817c69a44993a9a53a2146df9e3"
    ),
}
"""What browsers need of `node_modules` once PACKAGE is installed there: SHA-256 by path."""
MODEL, RUNTIME = "model", "runtime"
"""Folders of a site: the model, and ASSETS."""
TOKENIZER, TARGET_TOKENIZER = "tokenizer.json", "target_tokenizer.json"
MANIFEST, SETTINGS = "manifest.webmanifest", "site.json"
ENCODER, DECODER = "encoder_model", "decoder_model_merged"
DECODER_INPUTS = ("encoder_attention_mask", "input_ids", "encoder_hidden_states")
DECODER_OUTPUTS = ("logits", "cross_attentions")
_SUFFIXES = {"float32": "", "int8": "_quantized"}


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


def write_model(loaded: ModelFolder, out: Path, quantization: str) -> None:
    """Write graphs, tokenizers and settings into a new folder; the weights in float32 or int8."""
    for module in ("onnx", "onnxscript"):
        import_optional(module, "web")
    out.mkdir()
    vocabulary, config = loaded.vocabulary, loaded.model.config
    symbols = {"decoder_start_token_id": BOS, "eos_token_id": EOS, "pad_token_id": PAD}
    files: dict[str, dict[str, Any]] = {
        TOKENIZER: tokenizer_json(vocabulary.source),
        "config.json": {
            "architectures": ["MarianMTModel"],
            "model_type": "marian",
            "is_encoder_decoder": True,
            "vocab_size": config.target_vocab_size,
            "d_model": config.d_model,
            "encoder_layers": config.num_encoder_layers,
            "decoder_layers": config.num_decoder_layers,
            "encoder_attention_heads": config.num_heads,
            "decoder_attention_heads": config.num_heads,
            **symbols,
        },
        # transformers.js has no beam search: with more beams it would search greedily as well, but not say so.
        "generation_config.json": {"num_beams": 1, "suppress_tokens": NEVER_WRITTEN.tokens, **symbols},
    }
    if not vocabulary.joint:
        files[TARGET_TOKENIZER] = tokenizer_json(vocabulary.target)
    for name, content in files.items():
        (out / name).write_text(json.dumps(content, ensure_ascii=False) + "\n", encoding="utf-8")
    (out / "onnx").mkdir()
    for name, program in zip((ENCODER, DECODER), _graphs(loaded.model.cpu().eval()), strict=True):
        place = out / "onnx" / f"{name}{_SUFFIXES[quantization]}.onnx"
        if quantization == "int8":
            _quantize(program.model_proto, place)
        else:
            program.save(str(place), external_data=False)


def _graphs(model: Transformer) -> Iterator[torch.onnx.ONNXProgram]:
    """The graphs of encoder and decoder; transformers.js takes 0 for every dimension that is not called batch_size."""
    sentences, length = torch.export.Dim("batch_size"), torch.export.Dim("source_length")
    steps = torch.export.Dim("steps", max=model.config.max_length - 1)
    by_source, by_step = {0: sentences, 1: length}, {0: sentences, 2: steps}
    source = torch.full((2, 3), 5)
    mask, encoder, decoder = torch.ones_like(source), EncoderGraph(model), DecoderGraph(model)
    names = ("input_ids", "attention_mask")
    yield to_onnx(encoder, (source, mask), names, ("last_hidden_state",), (by_source, by_source))
    heads, width, layers = model.config.num_heads, model.config.d_model, len(model.decoder.layers)
    past = tuple(torch.zeros(2, heads, 2, width // heads) for _ in range(2 * layers))
    cached = [f"{layer}.decoder.{side}" for layer in range(layers) for side in ("key", "value")]
    yield to_onnx(
        decoder,
        (mask, source[:, :1], encoder(source, mask), *past),
        (*DECODER_INPUTS, *(f"past_key_values.{name}" for name in cached)),
        (*DECODER_OUTPUTS, *(f"present.{name}" for name in cached)),
        (by_source, {0: sentences}, by_source, tuple(by_step for _ in past)),
    )


def _quantize(graph: Any, place: Path) -> None:
    """Write a graph with its matrices in 8 bits; what they are multiplied with is rounded as it comes."""
    library = import_optional("onnxruntime.quantization", "web")
    logging.disable(logging.WARNING)  # it recommends a step that changes nothing here
    try:
        # Unsigned, as the products of signed weights overflow on processors with AVX2 alone.
        library.quantize_dynamic(graph, str(place), weight_type=library.QuantType.QUInt8)
    finally:
        logging.disable(logging.NOTSET)


def export(loaded: ModelFolder, folder: Path, quantization: str) -> Backend:
    """Write the model of a site into an empty folder, and load it from there."""
    write_model(loaded, folder / MODEL, quantization)
    return WebBackend(folder / MODEL, quantization)


class WebBackend(OnnxBackend):
    """Graphs and tokenizers of a site, run by onnxruntime and tokenizers instead of a browser, for the proof."""

    def __init__(self, folder: Path, quantization: str) -> None:
        onnxruntime, tokenizers = import_optional("onnxruntime", "web"), import_optional("tokenizers", "web")
        self.exact = quantization == "float32"
        self.name = f"the graphs in onnxruntime {onnxruntime.__version__}, tokenizers {tokenizers.__version__}"
        self._encoder, self._decoder = (
            onnxruntime.InferenceSession(str(folder / "onnx" / f"{name}{_SUFFIXES[quantization]}.onnx"))
            for name in (ENCODER, DECODER)
        )
        source, target = folder / TOKENIZER, folder / TARGET_TOKENIZER
        self._source = tokenizers.Tokenizer.from_file(str(source))
        self._target = tokenizers.Tokenizer.from_file(str(target)) if target.is_file() else self._source

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """As Backend.encode."""
        return [[*found.ids, EOS] for found in self._source.encode_batch(list(lines))]

    def decode(self, sentences: Sequence[Sequence[int]]) -> list[str]:
        """As Backend.decode."""
        return [self._target.decode([i for i in ids if i > EOS]).replace("\n", " ") for ids in sentences]

    def search(self, sources: list[list[int]], beam: int, limit: int) -> list[list[int]]:
        """As Backend.search; with rounded weights one by one, as in a browser, or they would depend on each other."""
        batches = [sources] if self.exact else [[source] for source in sources]
        return [tokens for batch in batches for tokens in super(WebBackend, self).search(batch, beam, limit)]

    def _start(self, sources: list[list[int]]) -> SearchState:
        source = pad_right(sources, 2**31)
        mask = (source != PAD).astype(np.int64)
        (memory,) = self._encoder.run(None, {"input_ids": source, "attention_mask": mask})
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


@dataclass
class _State:
    """Mask and memory, and the past, of the hypotheses."""

    fixed: list[Array]
    past: list[Array]

    def select(self, hypotheses: Tensor, sentences: Tensor | None) -> None:
        """As SearchState.select."""
        kept = hypotheses.numpy()
        self.fixed, self.past = ([array[kept] for array in arrays] for arrays in (self.fixed, self.past))


def check_assets(assets: str) -> None:
    """Refuse a `node_modules` folder, "" if there is none, without the files that a site is made for."""
    install = f"run npm install --ignore-scripts {PACKAGE} and name its node_modules with --assets"
    if not assets:
        raise ConfigError(f"--to web needs transformers.js: {install}")
    for path, expected in ((Path(assets, name), expected) for name, expected in ASSETS.items()):
        if not path.is_file() or checksum(path) != expected:
            state = f"not the one that comes with {PACKAGE}" if path.is_file() else "no such file"
            raise DragomanError(f"{path}: {state}; {install}")


def write_site(loaded: ModelFolder, folder: Path, assets: str, quantization: str) -> None:
    """Complete a folder that has a model: the page, what it loads, and what check_assets found in `node_modules`."""
    (folder / RUNTIME).mkdir()
    for path in (Path(assets, name) for name in ASSETS):
        shutil.copyfile(path, folder / RUNTIME / path.name)
    direction, config = loaded.direction, loaded.model.config
    title = f"{direction.source} → {direction.target}"
    files = page.files(static=True) | {"index.html": page.render(title, static=True).encode()}
    manifest = json.loads(files[MANIFEST]) | {"name": f"Dragoman {title}", "short_name": title}
    files[MANIFEST] = json.dumps(manifest, ensure_ascii=False).encode()
    heavy = [path for name in (MODEL, RUNTIME) for path in sorted((folder / name).rglob("*")) if path.is_file()]
    seen = direction.facts.get(LONGEST_FACT)
    settings = {
        **{name: _language(code) for name, code in (("source", direction.source), ("target", direction.target))},
        "joint": loaded.vocabulary.joint,
        "dtype": "fp32" if quantization == "float32" else "q8",
        "maxLength": config.max_length,
        "longest": min(config.max_length, seen if isinstance(seen, int) and seen > 1 else LONGEST_UNKNOWN),
        "placeholders": javascript_pattern() if loaded.vocabulary.has_symbols else None,
        "light": sorted(files),
        "bytes": sum(path.stat().st_size for path in heavy if path.suffix not in (".js", ".mjs")),
        "version": hashlib.sha256("".join(map(checksum, heavy)).encode()).hexdigest()[:12],
    }
    files[SETTINGS] = json.dumps(settings, ensure_ascii=False).encode()
    for name, content in files.items():
        (folder / name).write_bytes(content)


def _language(code: str) -> dict[str, Any]:
    return {"language": code, "locale": code.replace("_", "-"), "spaced": has_spaces(code)}


def javascript_pattern() -> str:
    """The pattern of placeholders as JavaScript writes it, for the flags g and u."""
    letters = r"\p{L}\p{N}_"
    pattern = re.sub(r"(?<!\\)#.*|\s+", "", PATTERN)
    pattern = re.sub(r"\[[^\]]+\]", lambda found: found[0].replace(r"\w", letters), pattern)
    pattern = re.sub(r"\\U000(\w{5})", r"\\u{\1}", pattern.replace(r"\w", f"[{letters}]"))
    return pattern.replace(r"\#", "#")
