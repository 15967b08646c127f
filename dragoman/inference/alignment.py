"""Which source word each target word comes from, read off the cross-attention.

Shapes: S source subwords, T target subwords, both with their `</s>`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

Links = list[tuple[int, int]]
"""Pairs (source word, target word), counted from 0, in the order of the target."""

Unit = Literal["words", "subwords"]
"""What is aligned: what spaces separate, or the model's own units, for languages without spaces."""

NO_WORD = -1
"""The word of a subword that belongs to none: `</s>`."""


@dataclass(frozen=True)
class Alignment:
    """The links between two sentences, and what they link."""

    links: Links
    source: list[str]
    """The source's words, or its subwords."""
    target: list[str]

    def pharaoh(self) -> str:
        """The links in Pharaoh's format: "0-0 1-2", source before target."""
        return " ".join(f"{source}-{target}" for source, target in self.links)


def words_of(pieces: Sequence[str], unit: Unit = "words") -> list[int]:
    """The word, counted from 0, that each subword belongs to.

    Words are what single spaces separate; SentencePiece marks the space before a word with "▁".

    Args:
        pieces: subwords as SentencePiece writes them, without special symbols.
        unit: "subwords" lets each stand for itself.
    """
    if unit == "subwords":
        return list(range(len(pieces)))
    words: list[int] = []
    word = NO_WORD
    for piece in pieces:
        if piece.startswith("▁") or word == NO_WORD:
            word += 1
        words.append(word)
    return words


def alignment_layer(num_layers: int) -> int:
    """The decoder layer, counted from 0, whose cross-attention aligns best: the last but one.

    Chosen by alignment error rate on hand-aligned sentences: `benchmarks/alignments.py`.
    """
    return max(0, num_layers - 2)


def align(weights: Tensor, source_words: Sequence[int], target_words: Sequence[int]) -> Links:
    """Link each target word to the source word that is attended to most while it is the decoder's newest input.

    That is one step after the word was predicted (Chen et al., 2020, "Accurate Word Alignment Induction from Neural
    Machine Translation"). The heads are averaged, a source word's weight is the sum over its subwords, and a target
    word's the mean over its own.

    Args:
        weights: cross-attention (H, T, S); the row t belongs to the step that reads subword t - 1 and predicts t.
        source_words: word of each source subword (S), NO_WORD for `</s>`.
        target_words: word of each target subword (T), NO_WORD for `</s>`.

    Returns:
        A link for each target word; none where the source has no words.
    """
    sources, targets = max(source_words, default=NO_WORD) + 1, max(target_words, default=NO_WORD) + 1
    if not sources:
        return []
    mean = weights.float().mean(dim=0).tolist()  # (T, S)
    totals = [[0.0] * sources for _ in range(targets)]
    for step, target in enumerate(target_words):
        if target == NO_WORD:
            continue
        reading = mean[step + 1]
        for place, source in enumerate(source_words):
            if source != NO_WORD:
                totals[target][source] += reading[place]
    return [(row.index(max(row)), target) for target, row in enumerate(totals)]
