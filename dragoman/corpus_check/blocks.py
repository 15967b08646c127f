"""Parallel text in blocks of pairs, whose characters are arrays, and a sample of it."""

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dragoman.text.corpus import Pair

Mask = NDArray[np.bool_]
Rows = NDArray[np.intp]

_BLOCK_PAIRS = 4096  # enough for fast loops in NumPy, few enough for the processor's cache
_BLOCK_CHARACTERS = 1 << 22
_SAMPLED_CHARACTERS = 500  # of a line


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
    def codes(self) -> Rows:
        """The code points of the text."""
        return np.frombuffer(self.text.encode("utf-32-le"), "<u4").astype(np.intp)

    @cached_property
    def composed(self) -> Sequence[str]:
        """The lines in normal form C; the same object if they are in it."""
        if unicodedata.is_normalized("NFC", self.text):
            return self.lines
        return [unicodedata.normalize("NFC", line) for line in self.lines]

    @cached_property
    def stripped(self) -> list[str]:
        """The lines in normal form C without surrounding whitespace, to compare them."""
        return list(map(str.strip, self.composed))

    def sums(self, values: NDArray[Any], dtype: type = np.intp) -> NDArray[Any]:
        """Return the sum over each line of values for all characters."""
        starts = np.cumsum(self.lengths + 1) - (self.lengths + 1)
        return np.add.reduceat(values, starts, dtype=dtype) if len(self.lines) else np.zeros(0, dtype)


class Block:
    """Consecutive pairs of a corpus, the first of which has the number start, from 0."""

    def __init__(self, start: int, pairs: Sequence[Pair]) -> None:
        self.start = start
        self.sides = Side([source for source, _ in pairs]), Side([target for _, target in pairs])

    def __len__(self) -> int:
        return len(self.sides[0].lines)

    @cached_property
    def has_text(self) -> Mask:
        """Which pairs have text on both sides."""
        source, target = (np.fromiter(map(bool, side.stripped), np.bool_, len(self)) for side in self.sides)
        return np.asarray(source & target)


def in_blocks(pairs: Iterable[Pair]) -> Iterator[Block]:
    """Yield the pairs of a corpus in blocks."""
    start, size, block = 0, 0, list[Pair]()
    for pair in pairs:
        block.append(pair)
        size += len(pair[0]) + len(pair[1])
        if len(block) == _BLOCK_PAIRS or size > _BLOCK_CHARACTERS:
            yield Block(start, block)
            start, size, block = start + len(block), 0, []
    if block:
        yield Block(start, block)


class Sample:
    """Every n-th pair of a text of unknown length: of long ones the beginnings, in the same share of both sides."""

    def __init__(self, size: int = 40_000) -> None:
        self._size, self._stride, self._seen = size, 1, 0
        self._rows: list[tuple[int, Pair]] = []

    def add(self, corpus: int, block: Block) -> None:
        """Take in a block of the corpus with this number."""
        for row in range(-self._seen % self._stride, len(block), self._stride):
            source, target = (side.lines[row] for side in block.sides)
            if (longer := max(len(source), len(target))) > _SAMPLED_CHARACTERS:
                source, target = (side[: len(side) * _SAMPLED_CHARACTERS // longer] for side in (source, target))
            if source.strip() and target.strip():
                self._rows.append((corpus, (source, target)))
        self._seen += len(block)
        while len(self._rows) > self._size:
            self._rows = self._rows[::2]
            self._stride *= 2

    def pairs(self, corpus: int | None = None) -> list[Pair]:
        """Return the sampled pairs, all with text on both sides; of one corpus if its number is given."""
        return [pair for number, pair in self._rows if corpus in (None, number)]
