"""Dragoman's weights under the names and in the layout of Marian, as Hugging Face stores them.

Dragoman's sinusoids are interleaved, Marian's are in two halves, all sines first. Nothing else in a Transformer depends
on the order of the dimensions of the residual stream: LayerNorm treats all alike, and matrices read and write them in
any order. So the same permutation of d_model in all weights turns one model into the other, exactly.

Shapes: D d_model.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import torch
from torch import Tensor

Weights = dict[str, Tensor]
ABSENT_BIAS = -100.0
"""Bias of a subword that Marian does not have: float32 cannot tell its probability from 0."""

PARTS = {
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
"""Marian's name of each part of a layer, by Dragoman's."""
_OWN = {theirs: ours for ours, theirs in PARTS.items()}
_LAYER = re.compile(r"(?:model\.)?((?:encoder|decoder)\.layers\.\d+)\.(.+)\.(weight|bias)")
_READS = re.compile(r"\.(query|key|value|inner)\.weight$|(embedding|softmax)\.weight$")
_WRITES = re.compile(r"\.(output|outer)\.(weight|bias)$|norm\.(weight|bias)$")


def layers_to_marian(weights: Mapping[str, Tensor]) -> Weights:
    """The weights of all layers under Marian's names; those outside the layers are left out."""
    found = {name: _LAYER.fullmatch(name) for name in weights}
    return {f"model.{m[1]}.{PARTS[m[2]]}.{m[3]}": weights[name] for name, m in found.items() if m}


def layers_from_marian(tensors: Mapping[str, Tensor]) -> Weights:
    """The weights of all layers under Dragoman's names; those outside the layers or unknown are left out."""
    found = {name: _LAYER.fullmatch(name) for name in tensors}
    return {f"{m[1]}.{_OWN[m[2]]}.{m[3]}": tensors[name] for name, m in found.items() if m and m[2] in _OWN}


def in_halves(weights: Mapping[str, Tensor]) -> Weights:
    """The weights of a model with interleaved sinusoids, for sinusoids in two halves: the same function of the ids."""
    size = weights["source_embedding.weight"].size(1)
    order = torch.cat((torch.arange(0, size, 2), torch.arange(1, size, 2)))
    return {name: _permuted(name, weight, order) for name, weight in weights.items()}


def _permuted(name: str, weight: Tensor, order: Tensor) -> Tensor:
    """One weight with its dimensions of the residual stream in this order (D)."""
    if _READS.search(name):
        return weight[:, order]
    return weight[order] if _WRITES.search(name) else weight
