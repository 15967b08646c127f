"""A sentence splitter for Argos packages, as a graph for MiniSBD: rules, so that every language has one, offline.

MiniSBD (https://github.com/LibreTranslate/MiniSBD) gives the graph the characters of a paragraph as numbers, and takes
2 at the last character of each sentence. The abbreviations are those that sentencex knows among short words.
"""

import itertools
import json
import string
import sys
import unicodedata
from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dragoman.inference.segmentation import split_sentences
from dragoman.interop.onnx import to_onnx
from dragoman.runtime.optional_imports import import_optional
from dragoman.text.languages import base_code

_OTHER, _SPACE, _SMALL, _CAPITAL, _STOP, _END, _END_AT_ONCE, _CLOSING, _GUILLEMET = range(9)
_MARKS = {_SPACE: " ", _STOP: ".", _END: "!?…؟۔", _END_AT_ONCE: "。！？｡।॥"}
_MARKS |= {_CLOSING: "\"'“”‘’)]}」』）】》〉", _GUILLEMET: "»›"}
_WITH_ORDINALS = ("cs", "da", "de", "et", "fi", "hr", "hu", "is", "lv", "nb", "nn", "no", "sk", "sl", "sr", "tr")
_LONGEST = 5
"""Letters of the longest abbreviation."""


class SentenceEnds(nn.Module):
    """Numbers of characters (B, L) to scores (B, L, 3), of which the greatest is that of 2 where a sentence ends."""

    kinds: Tensor

    def __init__(self, kinds: list[int], abbreviations: Iterable[list[int]], has_ordinals: bool) -> None:
        """Take the kind of each character, abbreviations as numbers of characters, and whether "3." is an ordinal."""
        super().__init__()
        self.size, self.has_ordinals = len(kinds), has_ordinals
        self.register_buffer("kinds", torch.tensor(kinds))
        for length, some in itertools.groupby(sorted(abbreviations, key=len), key=len):
            keys = [sum(unit * self.size**place for place, unit in enumerate(reversed(word))) for word in some]
            self.register_buffer(f"keys_{length}", torch.tensor(keys))

    def forward(self, units: Tensor, features: Tensor) -> Tensor:
        """features (B, L, 1) are 1 at digits."""
        kind, digit = self.kinds[units], features[:, :, 0] > 0
        letter = (kind == _SMALL) | (kind == _CAPITAL)
        space, guillemet, closing = kind == _SPACE, kind == _GUILLEMET, kind >= _CLOSING
        end, at_once = (kind == _STOP) | (kind == _END), kind == _END_AT_ONCE
        follows = _after(space, 1) & ~_after((kind == _SMALL) | guillemet, 2)
        ends_at_once = ~_after(closing | end | at_once, 1)
        ended = end & ~self._abbreviated(units, kind, letter, digit)
        for _ in range(2):  # quotes and brackets are closed; French has a space before "»"
            ended = ended | (closing & _before(ended, 1)) | (guillemet & _before(space, 1) & _before(ended, 2))
            at_once = at_once | (closing & _before(at_once, 1))
        scores = ((ended & follows) | (at_once & ends_at_once)).float()
        return torch.stack((1 - scores, torch.zeros_like(scores), scores), dim=-1)

    def _abbreviated(self, units: Tensor, kind: Tensor, letter: Tensor, digit: Tensor) -> Tensor:
        """Where a full stop belongs to an abbreviation, an initial, or an ordinal."""
        found = _before(letter, 1) & ~_before(letter | (kind == _CLOSING), 2)
        if self.has_ordinals:
            found |= _before(digit, 1) & ~(_before(digit, 2) & _before(digit, 3))
        key = torch.zeros_like(units)
        for length in range(1, _LONGEST + 1):
            key = key + _before(units, length) * self.size ** (length - 1)
            if hasattr(self, f"keys_{length}"):
                known = (key[:, :, None] == getattr(self, f"keys_{length}")).any(dim=-1)
                found |= known & ~_before(letter, length + 1)
        return found & (kind == _STOP)


def _before(values: Tensor, places: int) -> Tensor:
    """Of each character, the value of the one so many places before it; 0 before the first."""
    return F.pad(values, (places, 0))[:, :-places]


def _after(values: Tensor, places: int) -> Tensor:
    return F.pad(values, (0, places))[:, places:]


def known_abbreviations(language: str, words: Iterable[str]) -> list[str]:
    """The words after which a full stop ends no sentence, of these words and all short ones in Latin letters."""
    short = ("".join(of) for n in (2, 3) for of in itertools.product(string.ascii_lowercase, repeat=n))
    small = {*short, *(word.lower() for word in words if 2 <= len(word) <= _LONGEST and word.isalpha())}
    asked = sorted({*small, *(word.capitalize() for word in small)})
    return [word for word in asked if len(split_sentences(f"Aa {word}. Aa.", language)) == 1]


def build_splitter(language: str, words: Iterable[str]) -> bytes:
    """The ONNX file of a splitter for a language (a code); words are candidates for abbreviations."""
    onnx = import_optional("onnx", "argos")
    import_optional("onnxscript", "argos")  # which the export in PyTorch needs
    kinds = {mark: kind for kind, marks in _MARKS.items() for mark in marks}
    for character in map(chr, range(sys.maxunicode + 1)):
        if (category := unicodedata.category(character)) in ("Ll", "Lu"):
            kinds[character] = _SMALL if category == "Ll" else _CAPITAL
    names = ["<PAD>", "<UNK>", *kinds]
    numbers = {name: number for number, name in enumerate(names)}
    known = known_abbreviations(language, words)
    abbreviations = [[numbers[letter] for letter in word] for word in known if {*word} <= {*kinds}]
    has_ordinals = base_code(language) in _WITH_ORDINALS
    program = to_onnx(
        SentenceEnds([_OTHER, _OTHER, *kinds.values()], abbreviations, has_ordinals),
        (torch.ones(2, 9, dtype=torch.long), torch.zeros(2, 9, 1)),
        ("units", "features"),
        ("scores",),
        [{0: torch.export.Dim("paragraphs"), 1: torch.export.Dim("length")}] * 2,
    )
    config = {"feat_funcs": ["numeric"], "max_seqlen": 1000, "batch_size": 8}
    vocabulary = {"lang": language, "_unit2id": numbers, "_id2unit": names}
    graph = program.model_proto
    onnx.helper.set_model_props(graph, {"config": json.dumps(config), "vocab": json.dumps(vocabulary)})
    return bytes(graph.SerializeToString())
