"""Batches: sentences of similar length, as many as fit a budget of padded tokens.

Shapes: B sentences, S source length, T target length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dragoman.config import BOS, PAD
from dragoman.text.dataset import TokenStore


@dataclass(frozen=True)
class Batch:
    """Sentence pairs as right-padded ids: what the decoder reads is what it should write, one step later."""

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


def plan_epoch(
    source_lengths: NDArray[np.int64],
    target_lengths: NDArray[np.int64],
    batch_tokens: int,
    seed: int,
    epoch: int,
) -> list[NDArray[np.int64]]:
    """Divide one pass over the text into batches, in random order.

    The same arguments give the same plan, so that a run can resume at any (epoch, batch).

    Args:
        source_lengths: (N,).
        target_lengths: (N,).
        batch_tokens: budget of sentences × longest side; a longer sentence is a batch by itself.
        seed: of the run.
        epoch: number of the pass, from 0.

    Returns:
        The batches, as indices into the text; every sentence is in exactly one.
    """
    generator = np.random.default_rng((seed, epoch))
    shuffled = generator.permutation(len(source_lengths))
    # A stable sort by length of shuffled sentences: neighbours are alike, but never the same company twice.
    longest = np.maximum(source_lengths, target_lengths)
    order = shuffled[np.lexsort((source_lengths[shuffled], target_lengths[shuffled]))]
    batches = _cut(order, longest[order], batch_tokens)
    return [batches[i] for i in generator.permutation(len(batches))]


def plan_in_order(lengths: NDArray[np.int64], batch_tokens: int) -> list[NDArray[np.int64]]:
    """Divide sentences into batches of similar length, longest first; for validation and translation."""
    order = np.argsort(-lengths, kind="stable")
    return _cut(order, lengths[order], batch_tokens)


def _cut(order: NDArray[np.int64], lengths: NDArray[np.int64], batch_tokens: int) -> list[NDArray[np.int64]]:
    batches = []
    start, longest = 0, 0
    for i, length in enumerate(lengths.tolist()):
        longest = max(longest, length)
        if i > start and (i - start + 1) * longest > batch_tokens:
            batches.append(order[start:i])
            start, longest = i, length
    if start < len(order):
        batches.append(order[start:])
    return batches


def collate(store: TokenStore, indices: Sequence[int] | NDArray[np.int64]) -> Batch:
    """Gather sentence pairs into one padded batch."""
    target_output = pad_right([store.target(i) for i in indices])
    target_input = np.full_like(target_output, PAD)
    target_input[:, 0] = BOS
    target_input[:, 1:] = target_output[:, :-1]
    # The shift moved the EOS of shorter sentences into the input: there it is padding.
    ends = np.array([len(store.target(i)) for i in indices])
    target_input[np.arange(target_input.shape[1]) >= ends[:, None]] = PAD
    return Batch(pad_right([store.source(i) for i in indices]), target_input, target_output)


def pad_right(sentences: Sequence[Sequence[int] | NDArray[np.integer]]) -> NDArray[np.int64]:
    """Stack sentences into one array (B, longest), filled up with PAD on the right."""
    padded = np.full((len(sentences), max(map(len, sentences))), PAD, dtype=np.int64)
    for row, ids in zip(padded, sentences, strict=True):
        row[: len(ids)] = ids
    return padded
