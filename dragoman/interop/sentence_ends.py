"""A sentence splitter for Argos packages, as a graph for MiniSBD: rules, so that every language has one, offline.

MiniSBD (https://github.com/LibreTranslate/MiniSBD) gives the graph the characters of paragraphs as numbers (B, L), with
1 at digits (B, L, 1), and takes scores (B, L, 3): a sentence ends where that of 2 is the greatest. The abbreviations
are those that sentencex knows among short words.
"""

import itertools
import json
import string
import sys
import unicodedata
from collections.abc import Iterable
from functools import partialmethod
from typing import Any

import numpy as np

from dragoman.inference.segmentation import split_sentences
from dragoman.runtime.optional_imports import import_optional
from dragoman.text.languages import base_code

_OTHER, _SPACE, _SMALL, _CAPITAL, _STOP, _END, _END_AT_ONCE, _CLOSING, _GUILLEMET = range(9)
_MARKS = {_SPACE: " ", _STOP: ".", _END: "!?…؟۔", _END_AT_ONCE: "。！？｡।॥"}
_MARKS |= {_CLOSING: "\"'“”‘’)]}」』）】》〉", _GUILLEMET: "»›"}
_FLOAT, _INT, _BOOL = 1, 7, 9  # types of ONNX
_WITH_ORDINALS = ("cs", "da", "de", "et", "fi", "hr", "hu", "is", "lv", "nb", "nn", "no", "sk", "sl", "sr", "tr")
_LONGEST = 5  # letters of the longest abbreviation


class _Value:
    """A value of an ONNX graph; what is computed from it, also with integers, becomes a node of the graph."""

    def __init__(self, name: str, nodes: list[Any]) -> None:
        self.name, self._nodes = name, nodes

    def apply(self, operator: str, *others: Any, **attributes: Any) -> "_Value":
        """What an operator of ONNX makes of this value and others."""
        values = [other if isinstance(other, _Value) else self.constant(other) for other in others]
        return self._add(operator, [self.name, *(value.name for value in values)], **attributes)

    def constant(self, value: Any) -> "_Value":
        """Integers, in the graph of this value."""
        tensor = import_optional("onnx", "argos").numpy_helper.from_array(np.array(value, dtype=np.int64))
        return self._add("Constant", [], value=tensor)

    def at(self, distance: int) -> "_Value":
        """For each character, the value of the one at this distance; 0 beyond both ends."""
        before, after = max(-distance, 0), max(distance, 0)
        return self.apply("Pad", [0, before, 0, after]).apply("Slice", [after], [-before or sys.maxsize], [1])

    def _add(self, operator: str, inputs: list[str], **attributes: Any) -> "_Value":
        name = f"{operator}_{len(self._nodes)}"
        self._nodes.append(import_optional("onnx", "argos").helper.make_node(operator, inputs, [name], **attributes))
        return _Value(name, self._nodes)

    __and__ = partialmethod(apply, "And")
    __or__ = partialmethod(apply, "Or")
    __invert__ = partialmethod(apply, "Not")


def _scores(units: _Value, features: _Value, kinds: list[int], words: list[list[int]], has_ordinals: bool) -> _Value:
    """The graph for characters of these kinds, these abbreviations, and a language where "3." may be an ordinal."""
    kind, digit = units.constant(kinds).apply("Gather", units), features.apply("Squeeze", [2]).apply("Cast", to=_BOOL)
    _, space, small, capital, stop, end, at_once, bracket, guillemet = (kind.apply("Equal", i) for i in range(9))
    letter, closing, end = small | capital, bracket | guillemet, stop | end
    follows = space.at(1) & ~(small | guillemet).at(2)
    ends_at_once = ~(closing | end | at_once).at(1)
    initial = letter.at(-1) & ~(letter | bracket).at(-2)
    abbreviated = initial | _abbreviated(units, letter, words, len(kinds))
    if has_ordinals:
        abbreviated |= digit.at(-1) & ~(digit.at(-2) & digit.at(-3))
    ended = end & ~(stop & abbreviated)
    for _ in range(2):  # quotes and brackets are closed; French has a space before "»"
        ended = ended | (closing & ended.at(-1)) | (guillemet & space.at(-1) & ended.at(-2))
        at_once = at_once | (closing & at_once.at(-1))
    ends: _Value = (ended & follows) | (at_once & ends_at_once)
    return ends.apply("Where", 2, 0).apply("OneHot", 3, [0, 1]).apply("Cast", to=_FLOAT)


def _abbreviated(units: _Value, letter: _Value, words: list[list[int]], base: int) -> _Value:
    """Where the word before is one of these; words are compared as numbers in a base."""
    keys = [sum(unit * base**place for place, unit in enumerate(reversed(word))) for word in words]
    inside, key = letter.at(-1), units.at(-1)
    for place in range(1, _LONGEST):
        inside = inside & letter.at(-1 - place)
        key = key.apply("Add", inside.apply("Where", units.at(-1 - place).apply("Mul", base**place), 0))
    same = key.apply("Unsqueeze", [2]).apply("Equal", keys).apply("Cast", to=_INT).apply("ReduceMax", [2], keepdims=0)
    return same.apply("Cast", to=_BOOL).apply("And", ~(inside & letter.at(-1 - _LONGEST)))


def known_abbreviations(language: str, words: Iterable[str]) -> list[str]:
    """The words after which a full stop ends no sentence, of these words and all short ones in Latin letters."""
    short = ("".join(of) for n in (2, 3) for of in itertools.product(string.ascii_lowercase, repeat=n))
    small = {*short, *(word.lower() for word in words if 2 <= len(word) <= _LONGEST and word.isalpha())}
    asked = sorted({*small, *(word.capitalize() for word in small)})
    return [word for word in asked if len(split_sentences(f"Aa {word}. Aa.", language)) == 1]


def build_splitter(language: str, words: Iterable[str]) -> bytes:
    """The ONNX file of a splitter for a language (a code); words are candidates for abbreviations."""
    helper = import_optional("onnx", "argos").helper
    kinds = {mark: kind for kind, marks in _MARKS.items() for mark in marks}
    for character in map(chr, range(sys.maxunicode + 1)):
        if (category := unicodedata.category(character)) in ("Ll", "Lu"):
            kinds[character] = _SMALL if category == "Ll" else _CAPITAL
    names = ["<PAD>", "<UNK>", *kinds]
    numbers = {name: number for number, name in enumerate(names)}
    known = known_abbreviations(language, words)
    abbreviations = [[numbers[letter] for letter in word] for word in known if {*word} <= {*kinds}]
    has_ordinals = base_code(language) in _WITH_ORDINALS
    nodes: list[Any] = []
    units, features = _Value("units", nodes), _Value("features", nodes)
    scores = _scores(units, features, [_OTHER, _OTHER, *kinds.values()], abbreviations, has_ordinals)
    shape = ["paragraphs", "length"]
    *inputs, output = (
        helper.make_tensor_value_info(value.name, kind, [*shape, *rest])
        for value, kind, rest in ((units, _INT, []), (features, _FLOAT, [1]), (scores, _FLOAT, [3]))
    )
    graph = helper.make_graph(nodes, "sentence_ends", inputs, [output])
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 18)])
    config = {"feat_funcs": ["numeric"], "max_seqlen": 1000, "batch_size": 8}
    vocabulary = {"lang": language, "_unit2id": numbers, "_id2unit": names}
    helper.set_model_props(model, {"config": json.dumps(config), "vocab": json.dumps(vocabulary)})
    return bytes(model.SerializeToString())
