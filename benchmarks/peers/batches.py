"""The batches that every competitor trains on, in a file that needs nothing but NumPy to be read.

Shapes: B sentences, S source length, T target length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

# dragoman.config's, which JoeyNMT's environment does not have; a test compares them.
PAD, UNK, BOS, EOS = 0, 1, 2, 3
LABEL_SMOOTHING = 0.1
CLIP_NORM = 1.0
BETAS = (0.9, 0.98)
EPSILON = 1e-9
LEARNING_RATE = 1e-4
"""The same for all, constant; small, so that nothing explodes."""


@dataclass(frozen=True)
class Arrays:
    """One batch, as dragoman.text.batches.Batch has it."""

    source: NDArray[np.int64]
    """(B, S), each ending in EOS, padded with PAD on the right."""
    target_input: NDArray[np.int64]
    """(B, T), each beginning with BOS."""
    target_output: NDArray[np.int64]
    """(B, T), each ending in EOS."""

    @property
    def num_tokens(self) -> int:
        """Target tokens to predict, padding not counted."""
        return int((self.target_output != PAD).sum())


def write_batches(path: Path, batches: Sequence[Arrays]) -> None:
    """Write batches as .npz."""
    arrays = {}
    for number, batch in enumerate(batches):
        arrays[f"source_{number}"] = batch.source
        arrays[f"target_input_{number}"] = batch.target_input
        arrays[f"target_output_{number}"] = batch.target_output
    np.savez(path, **arrays)  # type: ignore[arg-type]


def read_batches(path: Path | str) -> list[Arrays]:
    """Read what write_batches wrote."""
    with np.load(path) as stored:
        count = len(stored.files) // 3
        return [
            Arrays(stored[f"source_{i}"], stored[f"target_input_{i}"], stored[f"target_output_{i}"])
            for i in range(count)
        ]
