"""Batches: sentences of similar length, as many as fit a budget of padded tokens.

Shapes: B sentences, S source length, T target length.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from dragoman.config import BOS, PAD

Sentence = Sequence[int] | NDArray[np.integer]
"""Ids."""
Indices = TypeVar("Indices", NDArray[np.int64], list[int])
Lengths = TypeVar("Lengths", NDArray[np.int64], int)
_MULTIPLE = 4  # lengths are padded to multiples, so that few shapes occur: kernels are compiled for each shape


class IdPairs(Protocol):
    """Sentence pairs as ids, such as a TokenStore; both sides have EOS and no BOS."""

    @property
    def lengths(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Subwords of each source and of each target sentence, EOS included, (N,) each."""

    def __getitem__(self, index: int) -> tuple[NDArray[np.integer], NDArray[np.integer]]: ...


@dataclass(frozen=True)
class Batch:
    """Sentence pairs as right-padded ids. The decoder reads what it should write, one step later."""

    source: NDArray[np.int64]
    """(B, S), each ending in EOS."""
    target_input: NDArray[np.int64]
    """(B, T), each beginning with BOS."""
    target_output: NDArray[np.int64]
    """(B, T), each ending in EOS."""

    @property
    def num_tokens(self) -> int:
        """Target tokens to predict, EOS included, padding not."""
        return int((self.target_output != PAD).sum())

    @property
    def longest(self) -> int:
        """Length of the longer side, padding included."""
        return int(max(self.source.shape[1], self.target_output.shape[1]))

    @property
    def padded_tokens(self) -> int:
        """Sentences × longest side: what the batch costs."""
        return len(self.source) * self.longest

    def rows(self, start: int, stop: int) -> "Batch":
        """The sentences from start to stop."""
        part = slice(start, stop)
        return Batch(self.source[part], self.target_input[part], self.target_output[part])

    def pieces(self, budget: int) -> "list[Batch]":
        """The same sentences in batches of at most this many padded tokens, or of one sentence; 0 is no limit."""
        rows = max(1, budget // self.longest) if budget else len(self.source)
        return [self.rows(start, start + rows) for start in range(0, len(self.source), rows)]


def plan_epoch(
    source_lengths: NDArray[np.int64],
    target_lengths: NDArray[np.int64],
    batch_tokens: int,
    seed: int,
    epoch: int,
    times: NDArray[np.float64] | None = None,
) -> list[NDArray[np.int64]]:
    """Divide one pass over a text, of lengths (N,), into batches of indices in random order; each index is in one.

    The budget batch_tokens is sentences × longest side; a longer sentence is a batch by itself. With times, (N,), an
    index is in so many batches: 2.3 is 2, or by chance 3; no pass is empty. The same arguments give the same plan, so
    that a run can resume at any (epoch, batch).
    """
    generator = np.random.default_rng((seed, epoch))
    if times is None:
        shuffled = generator.permutation(len(source_lengths))
    else:
        counts = np.floor(times + generator.random(len(times))).astype(np.int64)
        counts[times.argmax()] += not counts.any()
        shuffled = generator.permutation(np.repeat(np.arange(len(times)), counts))
    source, target = padded_lengths(source_lengths[shuffled]), padded_lengths(target_lengths[shuffled])
    # A stable sort of shuffled sentences: neighbours are alike in length, but other ones in every epoch.
    order = np.lexsort((source, target))
    padded = np.maximum(source, target)[order].tolist()
    batches = _cut(shuffled[order], padded, batch_tokens, lambda n: n - n % _MULTIPLE or n)
    return [batches[i] for i in generator.permutation(len(batches))]


def plan_in_order(lengths: Sequence[int], batch_tokens: int) -> list[list[int]]:
    """Divide sentences into batches of similar length, longest first; for validation and translation."""
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])  # for one sentence, faster than NumPy
    return _cut(order, [padded_lengths(lengths[i]) for i in order], batch_tokens, _rounded_down)


def padded_lengths(lengths: Lengths) -> Lengths:
    """Lengths after padding, or a single one: rounded up to a multiple of 4; (N,)."""
    return -(-lengths // _MULTIPLE) * _MULTIPLE


def _cut(order: Indices, padded: list[int], batch_tokens: int, rounded: Callable[[int], int]) -> list[Indices]:
    """Cut a sorted text into batches within the budget, of rounded numbers of sentences."""
    batches: list[Indices] = []
    start = 0
    while start < len(order):
        end, longest = start, 0
        while end < len(order) and (end - start + 1) * max(longest, padded[end]) <= batch_tokens:
            longest = max(longest, padded[end])
            end += 1
        if end < len(order):
            end = start + max(1, rounded(end - start))
        batches.append(order[start:end])
        start = end
    return batches


def _rounded_down(size: int) -> int:
    """The largest of 1 to 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, … that is not greater: few batch sizes occur."""
    step = 1 << max(0, size.bit_length() - 3)
    return size // step * step


def collate(store: IdPairs, indices: Sequence[int] | NDArray[np.int64], limit: int | None = None) -> Batch:
    """Gather sentence pairs into one padded batch; limit as for pad_right."""
    sources, targets = zip(*(store[i] for i in indices), strict=True)
    return pack(sources, targets, limit)


def pack(sources: Sequence[Sentence], targets: Sequence[Sentence], limit: int | None = None) -> Batch:
    """Put sentences, each ending in EOS, into one padded batch; limit as for pad_right."""
    inputs = [np.concatenate(([BOS], ids[:-1])) for ids in targets]
    return Batch(pad_right(sources, limit), pad_right(inputs, limit), pad_right(targets, limit))


def pad_right(sentences: Sequence[Sentence], limit: int | None = None) -> NDArray[np.int64]:
    """Stack ids into one array (B, longest length rounded up to a multiple of 4), with PAD on the right.

    Rounding up does not exceed the limit, which is the number of positions that a model has.
    """
    needed = max(map(len, sentences))
    longest = padded_lengths(needed) if limit is None else max(min(padded_lengths(needed), limit), needed)
    padded = np.full((len(sentences), longest), PAD, dtype=np.int64)
    for row, ids in zip(padded, sentences, strict=True):
        row[: len(ids)] = ids
    return padded
