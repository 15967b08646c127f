"""Pairs in blocks, in a form that is fast to examine, with what reading noticed.

A pair that can't be read keeps its place, as an empty pair that is marked unreadable, so that the number of a pair is
always the number of its line.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from dragoman.corpus_check import reasons
from dragoman.corpus_check.issues import Example, Rows, Sighting, excerpt
from dragoman.text.corpus import Corpus, Pair, Problem

BLOCK_PAIRS = 4096
"""Pairs that are looked at together: large enough for fast loops in C, small enough for the processor's cache."""

MOST_EXAMINED = 1 << 16
"""Characters that are looked at of one line; nobody trains on a longer one, and one of megabytes takes gigabytes."""

_BLOCK_CHARACTERS = 1 << 22
_REASONS = {
    reason.name: reason
    for reason in (
        reasons.NOT_UTF8,
        reasons.NO_TAB,
        reasons.BAD_JSON,
        reasons.BOM,
        reasons.WINDOWS_ENDS,
        reasons.ODD_COLUMNS,
        reasons.QUOTED,
    )
}


class Side:
    """One side of a block: its lines, and their characters as numbers."""

    def __init__(self, lines: list[str]) -> None:
        """Args: lines, without a line feed in them."""
        self.lines = lines
        self.lengths: NDArray[np.intp] = np.fromiter(map(len, lines), np.intp, len(lines))
        self.sizes: NDArray[np.intp] = np.minimum(self.lengths, MOST_EXAMINED)
        whole = not len(lines) or int(self.lengths.max()) <= MOST_EXAMINED
        self.text = "\n".join(lines if whole else [line[:MOST_EXAMINED] for line in lines]) + "\n"
        self.ascii = self.text.isascii()
        self.ends: NDArray[np.intp] = np.cumsum(self.sizes + 1)
        self.starts: NDArray[np.intp] = self.ends - self.sizes - 1

    @cached_property
    def is_nfc(self) -> bool:
        """Whether the text is in Unicode's normal form C."""
        return self.ascii or unicodedata.is_normalized("NFC", self.text)

    def composed(self) -> list[str]:
        """The lines in that form."""
        return [unicodedata.normalize("NFC", line) for line in self.lines]

    @cached_property
    def codes(self) -> NDArray[np.intp]:
        """The code points of the text, each line followed by a line feed."""
        if self.ascii:
            return np.frombuffer(self.text.encode(), np.uint8).astype(np.intp)
        return np.frombuffer(self.text.encode("utf-32-le"), "<u4").astype(np.intp)

    @cached_property
    def rare(self) -> Rows:
        """The positions of the characters that are not ASCII."""
        return np.flatnonzero(self.codes > 127)

    def rows(self, positions: Rows) -> Rows:
        """The lines in which these characters of the text stand."""
        return np.searchsorted(self.ends, positions, side="right")

    def distinct_rows(self, positions: Rows) -> Rows:
        """The lines in which these characters stand, each once; the positions rise."""
        rows = self.rows(positions)
        return rows[np.flatnonzero(np.diff(rows, prepend=-1))]


@dataclass(frozen=True)
class Block:
    """Some consecutive pairs of one corpus."""

    corpus: Corpus
    line: int
    """The line of the first, from 1."""
    source: list[str]
    target: list[str]
    unreadable: Sequence[int]
    """Pairs, from 0 within the block, that are not there because training could not read them."""
    sightings: list[Sighting]
    """What reading noticed."""
    raw: Mapping[int, str] = field(default_factory=dict)
    """The rows of a TSV or JSONL file that are no pairs, as they stand there."""
    mismatch: Problem | None = None
    """In the last block, which may be empty: that two files have different numbers of lines."""

    def __len__(self) -> int:
        """Number of pairs."""
        return len(self.source)

    @cached_property
    def sides(self) -> tuple[Side, Side]:
        """Source and target, ready for inspection."""
        return Side(self.source), Side(self.target)

    @cached_property
    def stripped(self) -> tuple[list[str], list[str]]:
        """Source and target in normal form C, for comparing, without surrounding whitespace."""
        source, target = (map(str.strip, side.lines if side.is_nfc else side.composed()) for side in self.sides)
        return list(source), list(target)

    @cached_property
    def whole(self) -> NDArray[np.bool_]:
        """Which pairs have text on both sides."""
        sides = [np.fromiter(map(bool, lines), np.bool_, len(self)) for lines in self.stripped]
        return sides[0] & sides[1]

    def example(self, row: int, side: int | None = None, place: int = 0, remark: str = "") -> Example:
        """A pair, or one side of it, as an example.

        Args:
            row: the pair, from 0 within the block.
            side: 0 source, 1 target, None both.
            place: a character of the side that must be seen.
            remark: what is wrong.
        """
        paths = self.corpus.paths
        texts: tuple[str, ...] = (
            (self.source[row], self.target[row]) if side is None else ((self.source, self.target)[side][row],)
        )
        if row in self.unreadable:
            texts = tuple(filter(None, [self.raw.get(row)]))
        path = paths[min(side or 0, len(paths) - 1)]
        return Example(str(path), self.line + row, tuple(excerpt(text, place) for text in texts), remark)

    def examples(self, sighting: Sighting, number: int) -> list[Example]:
        """The first places of a sighting."""
        rows = sighting.rows[:number].tolist()
        places = list(sighting.places[:number]) or [0] * len(rows)
        remarks = list(sighting.remarks[:number]) or [""] * len(rows)
        return [
            self.example(row, sighting.side, place, remark)
            for row, place, remark in zip(rows, places, remarks, strict=True)
        ]


def read_blocks(corpus: Corpus, size: int = BLOCK_PAIRS, limit: int | None = None) -> Iterator[Block]:
    """Yield a corpus in blocks; the last may be shorter, and so are those of very long lines.

    Args:
        corpus: where the text lies.
        size: pairs in a block.
        limit: stop before this many pairs.

    Raises:
        DragomanError: a file is missing or damaged; FormError where it is in another form.
    """
    waiting: list[Problem] = []
    pairs = islice(corpus.read(waiting.append), limit)
    line = 1
    while (chunk := _take(pairs, size)) or waiting:
        end = line + len(chunk)
        mismatch = next((problem for problem in waiting if problem.kind == "line counts differ"), None)
        here = [problem for problem in waiting if problem.line < end and problem is not mismatch]
        waiting[:] = [problem for problem in waiting if problem.line >= end and problem is not mismatch]
        if not chunk:
            waiting.clear()
        if chunk or mismatch:
            yield _block(corpus, line, chunk, here, mismatch)
        line = end


def _take(pairs: Iterator[Pair], size: int) -> list[Pair]:
    """The next pairs: so many, or fewer if they are very long."""
    chunk: list[Pair] = []
    characters = 0
    while len(chunk) < size and characters < _BLOCK_CHARACTERS and (pair := next(pairs, None)):
        chunk.append(pair)
        characters += len(pair[0]) + len(pair[1])
    return chunk


def _block(corpus: Corpus, line: int, pairs: list[Pair], problems: list[Problem], mismatch: Problem | None) -> Block:
    unreadable = sorted({problem.line - line for problem in problems if problem.message})
    groups: dict[tuple[str, int | None], list[Problem]] = {}
    for problem in problems:
        groups.setdefault((problem.kind, problem.side), []).append(problem)
    sightings = [
        Sighting(
            _REASONS[kind],
            np.array([problem.line - line for problem in group]),
            side,
            remarks=[problem.remark for problem in group],
        )
        for (kind, side), group in groups.items()
    ]
    raw = {problem.line - line: problem.text for problem in problems if problem.text}
    return Block(corpus, line, [s for s, _ in pairs], [t for _, t in pairs], unreadable, sightings, raw, mismatch)
