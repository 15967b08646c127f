"""Hugging Face: a folder that MarianMTModel and MarianTokenizer of `transformers` load, and the names of its weights.

MarianTokenizer stays its tokenizer, which also has the target's subwords where they differ; PreTrainedTokenizerFast
loads tokenizer.json.

Marian is a post-norm Transformer whose sinusoids are in two halves, all sines first. Shapes: T target length.
"""

import json
import re
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from dragoman.checkpoint import ModelFolder
from dragoman.config import BOS, EOS, PAD, UNK, DragomanError, ModelConfig, SearchConfig
from dragoman.inference.hypotheses import NEVER_WRITTEN
from dragoman.interop.parity import Array, Backend
from dragoman.interop.tokenizer_json import tokenizer_json
from dragoman.runtime.optional_imports import import_optional
from dragoman.text.subwords import SPECIALS

_SPECIAL_TOKENS = {"pad_token": SPECIALS[PAD], "unk_token": SPECIALS[UNK], "eos_token": SPECIALS[EOS]}
_EPSILON = 1e-5  # of Marian's LayerNorm; its configuration can't change it
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


def write_model(loaded: ModelFolder, out: Path) -> None:
    """Write a model into an empty folder as `transformers` reads it, with its tokenizer."""
    config = loaded.model.config
    if config.norm == "pre" or config.positions == "learned" or config.layer_norm_eps != _EPSILON:
        cure = "export the model with --to ctranslate2 or --to onnx"
        raise DragomanError(f"Marian has only post-norm layers, sinusoids and a layer_norm_eps of {_EPSILON}: {cure}")
    tensors = {name: tensor.detach().float().cpu().contiguous().clone() for name, tensor in _tensors(loaded).items()}
    (out / "model.safetensors").write_bytes(safetensors.torch.save(tensors, metadata={"format": "pt"}))
    (out / "source.spm").write_bytes(loaded.vocabulary.source.serialized)
    (out / "target.spm").write_bytes(loaded.vocabulary.target.serialized)
    source, target = (
        {piece: number for number, piece in enumerate(subwords.listed)}
        for subwords in (loaded.vocabulary.source, loaded.vocabulary.target)
    )
    files = {
        "vocab.json": source,
        "config.json": marian_config(config),
        "generation_config.json": _generation_config(loaded),
        "tokenizer_config.json": {
            "tokenizer_class": "MarianTokenizer",
            "source_lang": loaded.direction.source,
            "target_lang": loaded.direction.target,
            **_SPECIAL_TOKENS,
            "model_max_length": config.max_length,
            "separate_vocabs": source != target,
            "clean_up_tokenization_spaces": False,
        },
        "special_tokens_map.json": _SPECIAL_TOKENS,
    }
    if source != target:
        files["target_vocab.json"] = target
    elif loaded.vocabulary.joint:
        with suppress(DragomanError):  # not every vocabulary can be written so
            files["tokenizer.json"] = tokenizer_json(loaded.vocabulary.source, specials=True)
    for name, content in files.items():
        (out / name).write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _tensors(loaded: ModelFolder) -> Weights:
    """All weights under Marian's names; tied weights are written once."""
    config = loaded.model.config
    own: dict[str, Tensor] = {name: weight.cpu() for name, weight in loaded.model.named_parameters()}
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


def layers_to_marian(weights: Mapping[str, Tensor]) -> Weights:
    """The weights of all layers under Marian's names; those outside the layers are left out."""
    found = {name: _LAYER.fullmatch(name) for name in weights}
    return {f"model.{m[1]}.{PARTS[m[2]]}.{m[3]}": weights[name] for name, m in found.items() if m}


def layers_from_marian(tensors: Mapping[str, Tensor]) -> Weights:
    """The weights of all layers under Dragoman's names; those outside the layers or unknown are left out."""
    found = {name: _LAYER.fullmatch(name) for name in tensors}
    return {f"{m[1]}.{_OWN[m[2]]}.{m[3]}": tensors[name] for name, m in found.items() if m and m[2] in _OWN}


def in_halves(weights: Mapping[str, Tensor]) -> Weights:
    """The weights of a model with interleaved sinusoids, for sinusoids in two halves: the same function of the ids.

    Nothing else in a Transformer depends on the order of the dimensions of the residual stream: LayerNorm treats all
    alike, and matrices read and write them in any order. So one permutation of d_model in all weights is exact.
    """
    size = weights["source_embedding.weight"].size(1)
    order = torch.cat((torch.arange(0, size, 2), torch.arange(1, size, 2)))
    return {
        name: weight[:, order] if _READS.search(name) else weight[order] if _WRITES.search(name) else weight
        for name, weight in weights.items()
    }


def marian_config(config: ModelConfig) -> dict[str, Any]:
    """The model's config.json for transformers."""
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
        "forced_eos_token_id": EOS,  # otherwise Marian's configuration puts its own number there
        "decoder_start_token_id": BOS,
        "dtype": "float32",
    }


def _generation_config(loaded: ModelFolder) -> dict[str, Any]:
    """How to search by default: at most as long as for the longest sentence of the training."""
    return {
        "num_beams": 4,
        "early_stopping": False,
        "length_penalty": 0.6,
        "max_length": min(loaded.direction.longest + SearchConfig().max_length + 1, loaded.model.config.max_length),
        "pad_token_id": PAD,
        "eos_token_id": EOS,
        "forced_eos_token_id": EOS,
        "decoder_start_token_id": BOS,
        "suppress_tokens": list(NEVER_WRITTEN),
    }


def export(loaded: ModelFolder, folder: Path, quantization: str) -> Backend:
    """Write a model in float32 into an empty folder, and load it from there."""
    write_model(loaded, folder)
    return HuggingFaceBackend(folder)


class HuggingFaceBackend(Backend):
    """A Marian folder, loaded by transformers with its own tokenizer, as a side of the proof.

    rows and absent are those of an ImportedModel; without them both sides number the subwords alike.
    """

    def __init__(
        self, folder: Path, rows: tuple[Sequence[int], Sequence[int]] | None = None, absent: Sequence[int] = ()
    ) -> None:
        library = import_optional("transformers", "huggingface")
        library.logging.set_verbosity_error()
        library.logging.disable_progress_bar()
        self.name = f"transformers {library.__version__}"
        self.absent = absent
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it recommends a library that this tokenizer does not use
            try:
                self._tokenizer = library.AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
                self._model = library.AutoModelForSeq2SeqLM.from_pretrained(
                    str(folder), dtype=torch.float32, local_files_only=True, attn_implementation="eager"
                ).eval()  # eager: otherwise the folder's settings choose the kernel, even one to be fetched
                self._tokenizer(["a"])  # some of its settings are read only when it works
            except Exception as error:  # its checks of settings and its imports raise errors of any kind
                reason = " ".join(str(error).split())[:200] or type(error).__name__
                raise DragomanError(f"{folder}: transformers can't load it ({reason})") from None
        config = self._model.config
        if rows is not None:
            self._ignore_settings_of_the_search(library, rows[1])
        self._source = list(rows[0]) if rows else list(range(config.vocab_size))
        self._target = list(rows[1]) if rows else list(range(config.decoder_vocab_size))
        self._from_source = {row: own for own, row in enumerate(self._source) if row >= 0}
        self._from_target = {row: own for own, row in enumerate(self._target) if row >= 0}

    def _ignore_settings_of_the_search(self, library: Any, rows: Sequence[int]) -> None:
        """Search as Dragoman does, whatever the folder says, such as never to repeat words."""
        config = self._model.config
        # transformers added a row for <pad>, which takes no probability from what the model has learned.
        added = [row for row in (rows[token] for token in self.absent) if row >= 0 and rows.count(row) == 1]
        self._model.final_logits_bias[0, added] = ABSENT_BIAS
        self._model.generation_config = library.GenerationConfig(
            decoder_start_token_id=config.decoder_start_token_id,
            eos_token_id=config.eos_token_id,
            pad_token_id=config.pad_token_id,
            suppress_tokens=sorted({rows[token] for token in NEVER_WRITTEN} - {-1, config.eos_token_id}),
        )

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """As Backend.encode."""
        return [[self._from_source[row] for row in rows] for rows in self._tokenizer(list(lines))["input_ids"]]

    def decode(self, sentences: Sequence[Sequence[int]]) -> list[str]:
        """As Backend.decode."""
        rows = [[self._target[token] for token in tokens] for tokens in sentences]
        return [str(text) for text in self._tokenizer.batch_decode(rows, skip_special_tokens=True)]

    def search(self, sources: list[list[int]], beam: int, limits: list[int]) -> list[list[int]]:
        """As Backend.search."""
        hypotheses: list[list[int]] = []
        for _, group in groupby(zip(sources, limits, strict=True), key=lambda pair: len(pair[0])):
            batch = list(group)  # of one length, as a call has one limit for all
            with torch.inference_mode():
                found = self._model.generate(
                    input_ids=torch.tensor([[self._source[token] for token in tokens] for tokens, _ in batch]),
                    num_beams=beam,
                    do_sample=False,
                    length_penalty=0.0,
                    early_stopping=False,
                    max_length=None,
                    max_new_tokens=batch[0][1] + 1,
                )
            hypotheses += [[self._from_target.get(row, PAD) for row in rows[1:]] for rows in found.tolist()]
        return [tokens[: tokens.index(EOS)] if EOS in tokens else tokens for tokens in hypotheses]

    def forced(self, source: list[int], target: list[int]) -> Array:
        """As Backend.forced: logits (T, V)."""
        start = self._model.config.decoder_start_token_id
        with torch.inference_mode():
            logits = self._model(
                input_ids=torch.tensor([[self._source[token] for token in source]]),
                decoder_input_ids=torch.tensor([[start, *(self._target[token] for token in target[:-1])]]),
            ).logits[0]
        rows = torch.tensor(self._target)
        return logits[:, rows.clamp(min=0)].float().numpy()  # type: ignore[no-any-return]
