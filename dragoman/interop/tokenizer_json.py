"""`tokenizer.json`: a SentencePiece BPE model as the `tokenizers` library and transformers.js read it."""

import json
import random
from typing import Any

from dragoman.config import EOS, UNK, DragomanError
from dragoman.interop.reading import rules_of
from dragoman.runtime.optional_imports import import_optional
from dragoman.text.placeholders import SYMBOL
from dragoman.text.subwords import SPECIALS, SubwordModel

_SPACE = "▁"
# SentencePiece drops spaces at both ends, and at the end also its own mark for them; several spaces count as one.
# The last rule takes back the space that transformers.js puts before an empty text.
_NORMALIZERS: list[dict[str, Any]] = [
    {"type": "Replace", "pattern": {"Regex": r"(?<![\s\S]) +|[ ▁]+(?![\s\S])"}, "content": ""},
    {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
    {"type": "Prepend", "prepend": _SPACE},
    {"type": "Replace", "pattern": {"String": " "}, "content": _SPACE},
    {"type": "Replace", "pattern": {"Regex": r"(?<![\s\S])▁(?![\s\S])"}, "content": ""},
]
_DECODERS: list[dict[str, Any]] = [
    {"type": "Replace", "pattern": {"String": _SPACE}, "content": " "},
    {"type": "ByteFallback"},
    {"type": "Fuse"},
    {"type": "Strip", "content": " ", "start": 1, "stop": 0},
]
_STRANGE = "ab e\t▁ ⟦1⟧29é\u0301ßﬁ漢😀\u200d\ufeff\u00a0\u3000<s>/\r\n.!…"
_STRANGE_LINES = 2_000


def tokenizer_json(subwords: SubwordModel, specials: bool = False) -> dict[str, Any]:
    """The content of `tokenizer.json`; with specials, text that spells a symbol is the symbol, and `</s>` is added.

    Raises:
        DragomanError: the library would not cut text as the model does, which every subword and strange text shows.
    """
    vocabulary = {piece: number for number, piece in enumerate(subwords.listed)}
    rules: list[dict[str, Any]] = [
        {"type": "Replace", "pattern": {"String": form}, "content": read} for form, read in rules_of(subwords).items()
    ]
    content: dict[str, Any] = {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": {"type": "Sequence", "normalizers": rules + _NORMALIZERS},
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": {"type": "Sequence", "decoders": _DECODERS},
        "model": {
            "type": "BPE",
            "unk_token": SPECIALS[UNK],
            "byte_fallback": True,
            "ignore_merges": subwords.has_symbols,  # they are subwords that nothing merges to
            "vocab": vocabulary,
            "merges": [
                (piece[:cut], piece[cut:])  # whichever two parts meet, SentencePiece merges them if this is a subword
                for piece in subwords.listed
                for cut in range(1, len(piece))
                if piece[:cut] in vocabulary and piece[cut:] in vocabulary
            ],
        },
    }
    if subwords.has_symbols:
        pattern = {"Regex": SYMBOL.pattern}
        content["pre_tokenizer"] = {"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": False}
    _check(content, subwords)
    if specials:
        flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False) | {"special": True}
        content["added_tokens"] = [{"id": i, "content": piece, **flags} for i, piece in enumerate(SPECIALS)]
        end = {"SpecialToken": {"id": SPECIALS[EOS], "type_id": 0}}
        content["post_processor"] = {
            "type": "TemplateProcessing",
            "single": [{"Sequence": {"id": "A", "type_id": 0}}, end],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}, end],
            "special_tokens": {SPECIALS[EOS]: {"id": SPECIALS[EOS], "ids": [EOS], "tokens": [SPECIALS[EOS]]}},
        }
    return content


def _check(content: dict[str, Any], subwords: SubwordModel) -> None:
    tokenizer = import_optional("tokenizers", "web").Tokenizer.from_str(json.dumps(content))
    draw = random.Random(1)
    lines = ["".join(draw.choices(_STRANGE, k=draw.randint(1, 30))) for _ in range(_STRANGE_LINES)]
    lines += [piece.replace(_SPACE, " ") for piece in subwords.listed]
    found = [one.ids for one in tokenizer.encode_batch(lines, add_special_tokens=False)]
    if found != subwords.encode(lines):
        cure = "train with --text.subwords bpe and --text.normalization identity, or export it --to onnx"
        raise DragomanError(f"a tokenizer.json can't cut text as this model's SentencePiece does: {cure}")
