"""Parallel text in blocks of pairs, whose characters are arrays."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dragoman.corpus_check.issues import Example, Sighting, excerpt
from dragoman.text.corpus import Corpus, Pair

Mask = NDArray[np.bool_]
Rows = NDArray[np.intp]

_BLOCK_PAIRS = 4096  # enough for fast loops in NumPy, few enough for the processor's cache
_BLOCK_CHARACTERS = 1 << 22


class Side:
    """Lines of one side, and their characters as one array."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines

    @cached_property
    def lengths(self) -> Rows:
        """Characters of each line."""
        return np.fromiter(map(len, self.lines), np.intp, len(self.lines))

    @cached_property
    def text(self) -> str:
        """The lines with a line feed after each."""
        return "\n".join([*self.lines, ""])

    @cached_property
    def starts(self) -> Rows:
        """Where each line begins in the text."""
        return np.cumsum(self.lengths + 1) - (self.lengths + 1)

    @cached_property
    def codes(self) -> Rows:
        """The code points of the text."""
        return np.frombuffer(self.text.encode("utf-32-le"), "<u4").astype(np.intp)

    @cached_property
    def ascii(self) -> bool:
        """Whether the text is ASCII."""
        return self.text.isascii()

    @cached_property
    def composed(self) -> Sequence[str]:
        """The lines in normal form C; the same object if they are in it."""
        if self.ascii or unicodedata.is_normalized("NFC", self.text):
            return self.lines
        return [unicodedata.normalize("NFC", line) for line in self.lines]

    def sums(self, values: NDArray[Any], dtype: type = np.intp) -> NDArray[Any]:
        """Return the sum over each line of values for all characters."""
        return np.add.reduceat(values, self.starts, dtype=dtype) if len(self.lines) else np.zeros(0, dtype)


class Block:
    """Consecutive pairs of a corpus, whose numbers in it start from 0.

    The unreadable ones, by those numbers, are empty because they could not be read.
    """

    def __init__(self, corpus: Corpus, start: int, pairs: Sequence[Pair], unreadable: Collection[int] = ()) -> None:
        self.corpus, self.start = corpus, start
        self.sides = Side([source for source, _ in pairs]), Side([target for _, target in pairs])
        self.unreadable = [row for row in range(len(pairs)) if start + row in unreadable] if unreadable else []

    def __len__(self) -> int:
        return len(self.sides[0].lines)

    @cached_property
    def stripped(self) -> tuple[list[str], list[str]]:
        """Source and target in normal form C without surrounding whitespace, to compare them."""
        source, target = (list(map(str.strip, side.composed)) for side in self.sides)
        return source, target

    @cached_property
    def has_text(self) -> Mask:
        """Which pairs have text on both sides."""
        source, target = (np.fromiter(map(bool, lines), np.bool_, len(self)) for lines in self.stripped)
        return np.asarray(source & target)

    def example(self, sighting: Sighting) -> Example:
        """Return the place of a sighting, with the line or the pair."""
        paths, sides = self.corpus.paths, self.sides if sighting.side is None else (self.sides[sighting.side],)
        texts = tuple(excerpt(side.lines[sighting.row], sighting.place) for side in sides)
        path = paths[min(sighting.side or 0, len(paths) - 1)]
        return Example(str(path), self.start + sighting.row + 1, texts, sighting.remark)


def in_blocks(corpus: Corpus, pairs: Iterable[Pair], unreadable: Collection[int] = ()) -> Iterator[Block]:
    """Yield the pairs of a corpus in blocks; arguments as for Block."""
    start, size, block = 0, 0, list[Pair]()
    for pair in pairs:
        block.append(pair)
        size += len(pair[0]) + len(pair[1])
        if len(block) == _BLOCK_PAIRS or size > _BLOCK_CHARACTERS:
            yield Block(corpus, start, block, unreadable)
            start, size, block = start + len(block), 0, []
    if block:
        yield Block(corpus, start, block, unreadable)
