"""Folders like OPUS-MT's, as `transformers` saves them."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from dragoman.config import BOS, EOS, UNK
from dragoman.interop.huggingface import layers_to_marian
from dragoman.text.subwords import SubwordModel
from tests.small_models import small_model

transformers = pytest.importorskip("transformers", reason="needs transformers: pip install 'dragoman[huggingface]'")
TAG = ">>fra<<"


def opus(folder: Path, separate: bool = False, zero: bool = False, **changes: Any) -> Path:
    """A folder like OPUS-MT's: its own numbers, <pad> last and first of every translation, no <s>, a tag, a bias."""
    loaded = small_model(not separate, positions="halves", activation="swish", softmax_bias=True)
    weights = dict(loaded.model.named_parameters())
    source, target = loaded.vocabulary.source, loaded.vocabulary.target
    folder.mkdir(exist_ok=True)
    rows = [_renumbered(subwords, tag=not separate) for subwords in (source, target)]
    for name, numbered in zip(["vocab.json", "target_vocab.json"][: 1 + separate], rows, strict=False):
        numbers = {piece: number for number, (piece, _) in enumerate(numbered)}
        (folder / name).write_text(json.dumps(numbers))
    for name, subwords in (("source.spm", source), ("target.spm", target)):
        (folder / name).write_bytes(subwords.serialized)
    sizes = [len(numbered) for numbered in rows]
    config = transformers.MarianConfig(**{
        "vocab_size": sizes[0], "decoder_vocab_size": sizes[1], "d_model": 32, "encoder_layers": 2, "decoder_layers": 2,
        "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64,
        "activation_function": "swish", "max_position_embeddings": 64, "scale_embedding": True,
        "pad_token_id": sizes[0] - 1, "decoder_start_token_id": sizes[1] - 1, "eos_token_id": 0,
        "forced_eos_token_id": 0, "share_encoder_decoder_embeddings": not separate, "tie_word_embeddings": True,
        **changes,
    })  # fmt: skip
    model = transformers.MarianMTModel(config).eval()
    places = [torch.tensor([row for _, row in numbered]) for numbered in rows]
    tables = [weights["source_embedding.weight"], weights.get("target_embedding.weight")]
    with torch.no_grad():
        encoder = tables[0][places[0]]
        decoder = encoder if tables[1] is None else tables[1][places[1]]
        if zero:
            decoder[-1] = 0.0
        state = {**layers_to_marian(weights), "final_logits_bias": weights["softmax.bias"][places[1]][None]}
        state |= {"model.encoder.embed_tokens.weight": encoder, "model.decoder.embed_tokens.weight": decoder}
        state |= {"lm_head.weight": decoder} | ({} if separate else {"model.shared.weight": encoder})
        assert not model.load_state_dict(state, strict=False).unexpected_keys
    model.generation_config.bad_words_ids = [[sizes[1] - 1]]
    model.generation_config.renormalize_logits = True
    model.save_pretrained(folder)
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "MarianTokenizer", "source_lang": "en", "target_lang": "fr", "separate_vocabs": separate,
    }))  # fmt: skip
    return folder


def _renumbered(subwords: SubwordModel, tag: bool) -> list[tuple[str, int]]:
    """Marian's subwords in its order, with the row of Dragoman's that each one takes."""
    pieces = list(enumerate(subwords.pieces(range(len(subwords)))))
    words = [(piece, number) for number, piece in reversed(pieces[4:])]
    tags = [(TAG, 100)] if tag else []
    return [("</s>", EOS), ("<unk>", UNK), *words, *tags, ("<pad>", BOS)]
