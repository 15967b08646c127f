"""One trained model for all: Dragoman's weights under the names that its peers give them.

`export_plain` turns a model folder into one that needs only PyTorch to be read; the peers' workers take it from there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor

from peers.batches import PAD, UNK
from peers.shape import Shape

Weights = dict[str, Tensor]
WEIGHTS_FILE, SHAPE_FILE, SUBWORDS_FILE = "weights.pt", "shape.json", "sentencepiece.model"
EMBEDDING, POSITIONS = "source_embedding.weight", "positions"
_BLOCK = re.compile(r"(encoder|decoder)\.layers\.(\d+)\.(.+)\.(weight|bias)")

MARIAN = {
    "self_attention.query": "self_attn.q_proj",
    "self_attention.key": "self_attn.k_proj",
    "self_attention.value": "self_attn.v_proj",
    "self_attention.output": "self_attn.out_proj",
    "cross_attention.query": "encoder_attn.q_proj",
    "cross_attention.key": "encoder_attn.k_proj",
    "cross_attention.value": "encoder_attn.v_proj",
    "cross_attention.output": "encoder_attn.out_proj",
    "feed_forward.inner": "fc1",
    "feed_forward.outer": "fc2",
    "self_attention_connection.layer_norm": "self_attn_layer_norm",
    "cross_attention_connection.layer_norm": "encoder_attn_layer_norm",
    "feed_forward_connection.layer_norm": "final_layer_norm",
}
"""Names inside a layer of transformers' MarianMTModel."""

_JOEYNMT_FEED_FORWARD = {
    "feed_forward.inner": "feed_forward.pwff_layer.0",
    "feed_forward.outer": "feed_forward.pwff_layer.3",
    "feed_forward_connection.layer_norm": "feed_forward.layer_norm",
}
JOEYNMT = {
    "encoder": {
        **{f"self_attention.{part}": f"src_src_att.{part[0]}_layer" for part in ("query", "key", "value")},
        "self_attention.output": "src_src_att.output_layer",
        "self_attention_connection.layer_norm": "layer_norm",
        **_JOEYNMT_FEED_FORWARD,
    },
    "decoder": {
        **{f"self_attention.{part}": f"trg_trg_att.{part[0]}_layer" for part in ("query", "key", "value")},
        **{f"cross_attention.{part}": f"src_trg_att.{part[0]}_layer" for part in ("query", "key", "value")},
        "self_attention.output": "trg_trg_att.output_layer",
        "cross_attention.output": "src_trg_att.output_layer",
        "self_attention_connection.layer_norm": "x_layer_norm",
        "cross_attention_connection.layer_norm": "dec_layer_norm",
        **_JOEYNMT_FEED_FORWARD,
    },
}
"""Names inside a layer of JoeyNMT's encoder and decoder."""

ANNOTATED = {
    **{f"{block}.{part}": f"{block}.{part}" for block in ("self_attention", "cross_attention")
       for part in ("query", "key", "value", "output")},
    "feed_forward.inner": "inner",
    "feed_forward.outer": "outer",
    "self_attention_connection.layer_norm": "norms.0",
    "cross_attention_connection.layer_norm": "norms.1",
}  # fmt: skip
"""Names inside a layer of peers.annotated, but for the last LayerNorm, whose number depends on the layer's kind."""

_TORCH = {
    "feed_forward.inner": "linear1",
    "feed_forward.outer": "linear2",
    "self_attention.output": "self_attn.out_proj",
    "cross_attention.output": "multihead_attn.out_proj",
    "self_attention_connection.layer_norm": "norm1",
    "cross_attention_connection.layer_norm": "norm2",
}


def export_plain(folder: Path, shape: Shape, subwords: bytes, weights: Mapping[str, Tensor]) -> None:
    """Write shape, subwords and weights, the positions' table among them, where every worker can read them."""
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(dict(weights), folder / WEIGHTS_FILE)
    (folder / SHAPE_FILE).write_text(json.dumps(asdict(shape)) + "\n")
    (folder / SUBWORDS_FILE).write_bytes(subwords)


def read_plain(folder: Path | str) -> tuple[Shape, Weights]:
    """What export_plain wrote."""
    shape = Shape(**json.loads((Path(folder) / SHAPE_FILE).read_text()))
    return shape, torch.load(Path(folder) / WEIGHTS_FILE, weights_only=True)


def of_layers(weights: Weights) -> Iterator[tuple[str, int, str, str, Tensor]]:
    """What is inside the layers: side, number, Dragoman's name of the part, weight or bias, and the tensor."""
    for name, tensor in weights.items():
        if found := _BLOCK.fullmatch(name):
            yield found[1], int(found[2]), found[3], found[4], tensor


def to_marian(weights: Weights) -> Weights:
    """The state of a MarianMTModel.

    Its own sinusoids are in two halves, sines first, and its weights would have to be permuted to fit; its positions
    are a table like any other, so Dragoman's interleaved one simply takes its place.
    """
    state = {
        f"model.{side}.layers.{number}.{MARIAN[part]}.{kind}": tensor
        for side, number, part, kind, tensor in of_layers(weights)
    }
    for name in ("model.shared", "model.encoder.embed_tokens", "model.decoder.embed_tokens", "lm_head"):
        state[f"{name}.weight"] = weights[EMBEDDING]
    for side in ("encoder", "decoder"):
        state[f"model.{side}.embed_positions.weight"] = weights[POSITIONS]
    state["final_logits_bias"] = torch.zeros(1, len(weights[EMBEDDING]))
    return state


def to_joeynmt(weights: Weights) -> Weights:
    """The state of a JoeyNMT model, whose vocabulary must begin with <unk>: the ids of PAD and UNK are exchanged."""
    state = {
        f"{side}.layers.{number}.{JOEYNMT[side][part]}.{kind}": tensor
        for side, number, part, kind, tensor in of_layers(weights)
    }
    embedding = weights[EMBEDDING].clone()
    embedding[[PAD, UNK]] = embedding[[UNK, PAD]]
    for name in ("src_embed.lut", "trg_embed.lut", "decoder.output_layer"):
        state[f"{name}.weight"] = embedding
    return state


def to_annotated(weights: Weights) -> Weights:
    """The state of a peers.annotated.AnnotatedTransformer."""
    state = {"embedding.weight": weights[EMBEDDING], "generator.weight": weights[EMBEDDING]}
    for side, number, part, kind, tensor in of_layers(weights):
        last = f"norms.{1 if side == 'encoder' else 2}"
        state[f"{side}.{number}.{ANNOTATED.get(part, last)}.{kind}"] = tensor
    return state


def to_torch(weights: Weights) -> Weights:
    """The state of a peers.torch_transformer.TorchTransformer, whose attention has queries, keys and values in one."""
    state = {"embedding.weight": weights[EMBEDDING]}
    for side, number, part, kind, tensor in of_layers(weights):
        layer = f"transformer.{side}.layers.{number}"
        if part in _TORCH:
            state[f"{layer}.{_TORCH[part]}.{kind}"] = tensor
        elif part == "feed_forward_connection.layer_norm":
            state[f"{layer}.norm{2 if side == 'encoder' else 3}.{kind}"] = tensor
        elif part.endswith(".query"):
            block = "self_attn" if part.startswith("self") else "multihead_attn"
            stem = f"{side}.layers.{number}.{part.removesuffix('query')}"
            fused = torch.cat([weights[f"{stem}{name}.{kind}"] for name in ("query", "key", "value")])
            state[f"{layer}.{block}.in_proj_{kind}"] = fused
    return state
