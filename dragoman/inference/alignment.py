"""The source word that each target word comes from, read from the cross-attention.

Shapes: S source subwords, T target subwords, both with their `</s>`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any, Literal

import numpy as np

from dragoman.inference.results import Part
from dragoman.text.languages import has_spaces
from dragoman.text.subwords import SubwordModel, Vocabulary

Array = np.ndarray[Any, np.dtype[np.float32]]

Links = list[tuple[int, int]]
"""Pairs (source word, target word), counted from 0, in the order of the target."""

Unit = Literal["words", "subwords"]
"""What is aligned: words, which spaces separate, or subwords, for languages without spaces."""

NO_WORD = -1
"""The word of a subword that belongs to no word: `</s>`."""


@dataclass(frozen=True)
class Alignment:
    """The links between two sentences, and the words or subwords that they link."""

    links: Links
    source: list[str]
    target: list[str]

    def restored(self, restore: Callable[[str], tuple[str, list[str]]]) -> "Alignment":
        """The same with the words as people know them, by LineEncoder.restorer."""
        return Alignment(self.links, *([restore(one)[0] for one in side] for side in (self.source, self.target)))

    def pharaoh(self) -> str:
        """The links in Pharaoh's format: "0-0 1-2", source before target."""
        return " ".join(f"{source}-{target}" for source, target in self.links)


def words_of(pieces: Sequence[str]) -> list[int]:
    """The word, counted from 0, that each subword belongs to.

    Words are what spaces separate, several counting as one; SentencePiece marks the space before a word with "▁".
    """
    words: list[int] = []
    word, spelt = 0, False
    for piece in pieces:
        if piece.startswith("▁") and spelt:  # a lone "▁" begins the word that follows it
            word, spelt = word + 1, False
        words.append(word)
        spelt = spelt or piece != "▁"
    last = word if spelt else word - 1  # a lone "▁" at the end belongs to the last word
    return [max(0, min(place, last)) for place in words]


def split_into_words(ids: Sequence[int], subwords: SubwordModel, unit: Unit) -> tuple[list[int], list[str]]:
    """The word that each subword of a sentence (ids, ending with EOS) belongs to, NO_WORD for the end; and the words.

    The unit "subwords" makes each subword its own word, spelt as SentencePiece writes it.
    """
    pieces = subwords.pieces(ids[:-1])
    if unit == "subwords":
        return [*range(len(pieces)), NO_WORD], pieces
    places = words_of(pieces)
    words = groupby(zip(places, ids[:-1], strict=True), key=itemgetter(0))
    return [*places, NO_WORD], subwords.decode([[token for _, token in word] for _, word in words])


def unit_of(language: str) -> Unit:
    """What to align in a language: words, or subwords if it is written without spaces."""
    return "words" if has_spaces(language) else "subwords"


def alignment_layer(num_layers: int) -> int:
    """The decoder layer, from 0, whose cross-attention is read: the last one, or from six layers on the one before it.

    The last one makes the fewest alignment errors in models of two and three layers (`benchmarks/alignments.py`). For
    six layers the choice is that of Garg et al. (2019), "Jointly Learning to Align and Translate".
    """
    return num_layers - (2 if num_layers >= 6 else 1)


def align(weights: Array, source_words: Sequence[int], target_words: Sequence[int]) -> Links:
    """Link each target word to the source word that the steps which predict it attend to most.

    The heads are averaged. A source word's weight is the sum over its subwords, a target word's the mean over its own.

    Args:
        weights: cross-attention (H, T, S), perhaps padded or without `</s>`; row t is the step that predicts subword t.
        source_words: word of each source subword (S), NO_WORD for `</s>`.
        target_words: word of each target subword (T), NO_WORD for `</s>`.
    """
    sources, targets = ([word for word in words if word != NO_WORD] for words in (source_words, target_words))
    if not sources or not targets:
        return []
    totals = np.zeros((max(targets) + 1, max(sources) + 1))
    mean = np.asarray(weights).mean(axis=0)[: len(targets), : len(sources)]  # (T, S)
    np.add.at(totals, np.ix_(targets, sources), mean)
    return [(int(source), target) for target, source in enumerate(totals.argmax(axis=1))]


def align_sentences(
    weights: Array, source: Sequence[int], target: Sequence[int], vocabulary: Vocabulary, units: tuple[Unit, Unit]
) -> Alignment:
    """The alignment of one sentence pair, ids that end with EOS, from cross-attention (H, T, S)."""
    source_words, source_shown = split_into_words(source, vocabulary.source, units[0])
    target_words, target_shown = split_into_words(target, vocabulary.target, units[1])
    return Alignment(align(weights, source_words, target_words), source_shown, target_shown)


def join_alignments(parts: Sequence[Part], alignments: Sequence[Alignment], unit: Unit, tagged: bool) -> Alignment:
    """The alignment of a whole line from those of its parts; a source word that was cut becomes one word again.

    unit is what is linked on the source side. If tagged, every part begins with the line's tag, which counts once.
    """
    links: Links = []
    source: list[str] = []
    target: list[str] = []
    spaced = True
    for part, alignment in zip(parts, alignments, strict=True):
        repeated = tagged and bool(source)
        words = alignment.source[repeated:]
        if words and not (spaced or part.source[:1].isspace() or unit == "subwords"):
            words[0] = source.pop() + words[0]
        links += [(s - repeated + len(source), t + len(target)) for s, t in alignment.links if s >= repeated]
        source += words
        target += alignment.target
        spaced = part.source[-1:].isspace()
    return Alignment(links, source, target)
