"""Two sides that slip against each other although they have the same number of lines, found by the lengths of lines.

A translation is long if its source is long, so the lengths of the two sides correlate. Where they correlate better
after a shift by one to five lines, the text has slipped. Neighbouring lines resemble each other in length, and so do
distant lines where long and short ones alternate. So the lines of a window do not belong together if their lengths
correlate no better than after a shift by 20 lines and more. A window whose lines all have the same length says nothing.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

WINDOW = 500
"""Pairs whose lengths are compared at a time."""
_PIECE = 4096  # windows correlated at a time, to save memory

# Correlations are compared as Fisher's z, whose chance deviations are the same for all correlations.
_SHIFTS = np.array([shift for size in range(1, 6) for shift in (size, -size)])
_FAR_SHIFTS = [shift for size in range(20, 26) for shift in (size, -size)]
_MIN_CORRELATION = 0.36  # z of a shift that explains a slip
_MIN_GAIN = 0.4  # over no shift: about six standard deviations of chance
_RELATED, _UNRELATED = 0.4, 0.1  # z above distant lines: at least where lines belong together, at most where not
_NOWHERE = 0.05  # the same for the mean of a whole text, which varies less
_MIN_SPREAD = 0.1  # standard deviation of log-lengths in a window that says something
_USUAL_QUANTILE = 0.95  # of the windows, which shows how well lines correlate that belong together
_MIN_WINDOWS = 4  # to say what is usual

_NO_PARTNER = 99  # stands for the shift of lines that belong to none

Floats = NDArray[np.float32]
Starts = NDArray[np.intp]


class Slip(NamedTuple):
    """Consecutive pairs that don't belong together."""

    start: int
    """From 0."""
    end: int
    """Exclusive."""
    shift: int
    """Source line i belongs to target line i + shift; 0 if to none."""


def find_slips(source: NDArray[np.integer], target: NDArray[np.integer]) -> list[Slip]:
    """Return the slips of a corpus in order, from the characters of each source and each target line, (n,)."""
    count = len(source)
    if count < WINDOW // 2:
        return []
    edges = [*range(0, max(count // WINDOW, 1) * WINDOW, WINDOW), count]  # the last window takes the rest
    pieces = [_compare(source[start:end], target[start:end]) for start, end in pairwise([*edges[:-1:_PIECE], count])]
    correlations, spread = (np.concatenate(parts, axis=-1) for parts in zip(*pieces, strict=True))
    (aligned,), near, far = np.split(correlations, [1, 1 + len(_SHIFTS)])
    slipped = (near.max(axis=0) > _MIN_CORRELATION) & (near.max(axis=0) - aligned > _MIN_GAIN)
    varied = (spread > _MIN_SPREAD) & ~slipped
    enough = varied.sum() >= max(2, len(varied) / 2)
    if enough and aligned[varied].mean() - far[:, varied].mean(axis=1).max() < _NOWHERE:
        return [Slip(0, count, 0)]
    shifts = np.where(slipped, _SHIFTS[near.argmax(axis=0)], 0)
    shifts[_are_unrelated(aligned - far.max(axis=0), spread, varied)] = _NO_PARTNER
    shifts = np.pad(shifts, 1)  # outside, nothing is shifted
    changes = np.flatnonzero(np.diff(shifts))
    borders = [_find_border(source, target, edges[n], int(shifts[n]), int(shifts[n + 1])) for n in changes]
    runs = zip(pairwise(borders), shifts[changes[:-1] + 1].tolist(), strict=True)
    return [Slip(*run, 0 if shift == _NO_PARTNER else shift) for run, shift in runs if shift and run[0] < run[1]]


def _compare(source: NDArray[np.integer], target: NDArray[np.integer]) -> tuple[Floats, Floats]:
    """How the sides correlate after each shift, (shifts, windows), and how much lengths vary, (windows,)."""
    starts = np.arange(0, max(len(source) // WINDOW, 1) * WINDOW, WINDOW)
    sides = [np.log1p(side, dtype=np.float32) for side in (source, target)]
    found = [_correlate(sides[0], np.roll(sides[1], -shift), starts) for shift in (0, *_SHIFTS, *_FAR_SHIFTS)]
    return np.stack([correlation for correlation, _ in found]), found[0][1]


def _correlate(source: Floats, target: Floats, starts: Starts) -> tuple[Floats, Floats]:
    """How the sides correlate in each window, in Fisher's z, and the smaller of their standard deviations."""
    sizes = np.diff(starts, append=len(source))
    means = [(np.add.reduceat(side, starts) / sizes).astype(np.float32) for side in (source, target)]
    centred = [side - np.repeat(mean, sizes) for side, mean in zip((source, target), means, strict=True)]
    variances = np.stack([np.add.reduceat(side * side, starts) / sizes for side in centred])
    scale = np.sqrt(variances.prod(axis=0))
    covariance = np.add.reduceat(centred[0] * centred[1], starts) / sizes
    correlation = np.divide(covariance, scale, out=np.zeros_like(scale), where=scale > 1e-9)
    return np.arctanh(np.clip(correlation, -0.999, 0.999)), np.sqrt(variances.min(axis=0))


def _are_unrelated(excess: Floats, spread: Floats, varied: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Find two or more windows in a row whose lengths no longer correlate although they vary as usual."""
    if varied.sum() < _MIN_WINDOWS or np.quantile(excess[varied], _USUAL_QUANTILE) < _RELATED:
        return np.zeros_like(varied)
    unrelated = varied & (excess < _UNRELATED) & (spread > 0.7 * np.median(spread[varied]))
    around = np.pad(unrelated, 1)
    return np.asarray(unrelated & (around[:-2] | around[2:]))


def _find_border(source: NDArray[np.integer], target: NDArray[np.integer], edge: int, before: int, after: int) -> int:
    """The line near the edge of a window from which on a shift fits better than the one before."""
    if _NO_PARTNER in (before, after):
        return edge
    start, losses = max(edge - WINDOW, 0), []
    fixed, moving = (np.log1p(side[start : edge + WINDOW], dtype=np.float32) for side in (source, target))
    for shift in (before, after):
        difference = np.roll(moving, -shift) - fixed
        losses.append(np.abs(difference - np.median(difference)))
    return start + int(np.cumsum([0.0, *(losses[0] - losses[1])]).argmin())
