"""Sentence pairs that come again: equal ones, nearly equal ones, and training pairs that are held out elsewhere.

Pairs are compared by 64-bit hashes. Those of a long text go to temporary files, divided by their highest bits, so that
one file after the other fits into memory. Among n different pairs some two share a hash with probability n² / 2⁶⁵:
about one in a million for five million pairs.
"""

from __future__ import annotations

import string
import tempfile
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import IO

import numpy as np
from numpy.typing import NDArray

from dragoman.corpus_check.blocks import Block, Side
from dragoman.corpus_check.characters import folding

Keys = NDArray[np.uint64]
"""Hashes; the same text has the same one within a process only."""

PARTITION = 1 << 19
"""About how many hashes are brought together in memory."""

_MOST_BITS = 6  # 64 files at most, as systems let a process open a few hundred

_RECORD = np.dtype([("key", np.uint64), ("index", np.int64)])


class Repeats:
    """Finds the keys that came before, in a stream of any length, in flat memory.

    Used as a context: the temporary files are gone at its end.
    """

    def __init__(self, expected: int, partition: int = PARTITION) -> None:
        """Args: expected, how many keys will come; partition, how many of them memory may hold at a time."""
        self._bits = min(((max(expected, 1) - 1) // partition).bit_length(), _MOST_BITS)
        self._files: list[IO[bytes]] = []

    def __enter__(self) -> Repeats:
        """Open the temporary files."""
        self._files = [tempfile.TemporaryFile() for _ in range(1 << self._bits)]  # noqa: SIM115 - closed by __exit__
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Drop the temporary files."""
        for file in self._files:
            file.close()

    def add(self, keys: Keys, indices: NDArray[np.int64]) -> None:
        """Take in keys and the numbers of their pairs; both (n,), the numbers rising from call to call."""
        records = np.empty(len(keys), _RECORD)
        records["key"], records["index"] = keys, indices
        if len(self._files) == 1:
            self._files[0].write(records.tobytes())
            return
        parts = keys >> np.uint64(64 - self._bits)
        order = np.argsort(parts, kind="stable")
        bounds = np.searchsorted(parts[order], np.arange(len(self._files) + 1, dtype=np.uint64))
        records = records[order]
        for file, start, end in zip(self._files, bounds[:-1], bounds[1:], strict=True):
            if end > start:
                file.write(records[start:end].tobytes())

    def found(self) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Yield, partition by partition, the pairs whose key came before, and for each the first with that key."""
        for file in self._files:
            file.seek(0)
            records = np.frombuffer(file.read(), _RECORD)
            order = np.argsort(records["key"], kind="stable")
            keys, indices = records["key"][order], records["index"][order]
            fresh = np.ones(len(keys), np.bool_)
            fresh[1:] = keys[1:] != keys[:-1]
            first = indices[fresh][np.cumsum(fresh) - 1] if len(keys) else indices
            yield indices[~fresh], first[~fresh]


class HeldOut:
    """The validation and test pairs, as hashes: for finding them in the training text."""

    def __init__(self, blocks: Iterator[Block]) -> None:
        """Take in all the pairs of these blocks."""
        collected: list[list[Keys]] = [[], [], [], []]
        for block in blocks:
            near, comparable = near_keys(block)
            sides = (side_keys(block, number)[block.whole] for number in range(2))
            for keys, more in zip(collected, (pair_keys(block)[block.whole], near[comparable], *sides), strict=True):
                keys.append(more)
        empty = np.empty(0, np.uint64)
        united = (np.unique(np.concatenate([empty, *keys])) for keys in collected)
        self.pairs, self.near, self.sources, self.targets = united


def contains(known: Keys, keys: Keys) -> NDArray[np.bool_]:
    """Which of the keys are among the known ones, which are sorted."""
    if not known.size:
        return np.zeros(len(keys), np.bool_)
    places = np.minimum(np.searchsorted(known, keys), known.size - 1)
    return np.asarray(known[places] == keys)


def pair_keys(block: Block) -> Keys:
    """A hash of every pair, surrounding whitespace and ways of writing an accent apart."""
    return _keys(zip(*block.stripped, strict=True), len(block))


def side_keys(block: Block, number: int) -> Keys:
    """A hash of every source, 0, or target, 1; apart from the same."""
    return _keys(block.stripped[number], len(block))


def near_keys(block: Block) -> tuple[Keys, NDArray[np.bool_]]:
    """A hash of the letters of every pair, and which pairs have letters on both sides; only these can be compared."""
    sources, targets = (essence(side) for side in block.sides)
    comparable = np.fromiter(map(bool, sources), np.bool_, len(block))
    comparable &= np.fromiter(map(bool, targets), np.bool_, len(block))
    return _keys(zip(sources, targets, strict=True), len(block)), comparable


def essence(side: Side) -> list[str]:
    """The lines in lower case, without digits, spaces, punctuation, symbols and control characters.

    Normal form C comes first, as a letter with an accent may be one character or two.
    """
    if not side.is_nfc:
        side = Side(side.composed())
    if side.ascii:
        return side.text.lower().encode().translate(None, _DROPPED).decode().split("\n")[:-1]
    folded = folding()[side.codes]
    kept: bytes = folded[folded != 0].astype("<u4").tobytes()
    return kept.decode("utf-32-le").split("\n")[:-1]


_DROPPED = bytes(code for code in range(128) if chr(code) not in string.ascii_letters + "\n")


def _keys(texts: Iterable[object], count: int) -> Keys:
    return np.fromiter(map(hash, texts), np.int64, count).view(np.uint64)
