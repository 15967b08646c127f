"""Two sides that slip against each other although they have the same number of lines, found by the lengths of lines.

A translation is long if its source is long, so the lengths of the two sides correlate. Where they correlate better
after a shift by one to five lines, the text has slipped. Neighbouring lines resemble each other in length, and so do
distant lines where long and short ones alternate. So the lines of a window do not belong together if their lengths
correlate no better than after a shift by 20 lines and more. A window whose lines all have the same length says nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

WINDOW = 500
"""Pairs whose lengths are compared at a time."""

# Correlations are compared as Fisher's z, whose chance deviations are the same for all correlations.
_SHIFTS = [shift for size in range(1, 6) for shift in (size, -size)]
_FAR_SHIFTS = [shift for size in range(20, 26) for shift in (size, -size)]
_MIN_CORRELATION = 0.35  # of a shift that explains a slip
_MIN_GAIN = 0.4  # in z over no shift: about six standard deviations of chance
_RELATED, _UNRELATED = 0.4, 0.1  # z above distant lines: at least where lines belong together, at most where not
_NOWHERE = 0.05  # the same for the mean of a whole text, which varies less
_CHANCE = 0.1  # a correlation of a whole text that means nothing
_MIN_SPREAD = 0.1  # standard deviation of log-lengths in a window that says something
_USUAL_QUANTILE = 0.95  # of the windows, which shows how well lines correlate that belong together
_MIN_WINDOWS = 4  # to say what is usual

Lengths = NDArray[np.float32]
"""Logarithms of the lengths of both sides, (2, n)."""


class Slip(NamedTuple):
    """Consecutive pairs that don't belong together."""

    start: int
    """From 0."""
    end: int
    """Exclusive."""
    shift: int
    """Source line i belongs to target line i + shift; 0 if to none."""


class _Window(NamedTuple):
    """How the lengths in a window correlate, in Fisher's z."""

    start: int
    end: int
    aligned: float
    far: list[float]
    """After each of _FAR_SHIFTS."""
    spread: float
    """The smaller standard deviation of the two sides."""

    @property
    def excess(self) -> float:
        """How much better lines correlate than distant ones."""
        return self.aligned - max(self.far)


def find_slips(source: NDArray[np.integer], target: NDArray[np.integer]) -> list[Slip]:
    """Return the slips of a corpus in order, from the characters of each source and each target line, (n,)."""
    lengths = np.log1p(np.stack((source, target)), dtype=np.float32)
    count = lengths.shape[1]
    edges = [*range(0, max(count // WINDOW, 1) * WINDOW, WINDOW), count]  # the last window takes the rest
    slips: list[Slip] = []
    windows: list[_Window] = []
    for before, start, end in zip([0, *edges], edges, edges[1:], strict=False):
        if end - start < WINDOW // 2:
            continue
        window, aligned = lengths[:, start:end], _correlation(lengths[:, start:end])
        best, shift = max((_correlation(_shifted(window, shift)), shift) for shift in _SHIFTS)
        if best > _MIN_CORRELATION and _fisher(best) - _fisher(aligned) > _MIN_GAIN:
            _extend(slips, lengths, (before, start, end), shift)
            continue
        _extend(slips, lengths, (before, start, end), 0)
        far = [_fisher(_correlation(_shifted(window, shift))) for shift in _FAR_SHIFTS]
        windows.append(_Window(start, end, _fisher(aligned), far, float(window.std(axis=1).min())))
    slipped = sum(slip.end - slip.start for slip in slips)
    varied = [window for window in windows if window.spread > _MIN_SPREAD]
    if count >= 2 * WINDOW and 2 * slipped < count and _is_unrelated(lengths, varied, len(windows)):
        return [Slip(0, count, 0)]
    return sorted([*slips, *_find_unrelated(varied)])


def _extend(slips: list[Slip], lengths: Lengths, edges: tuple[int, int, int], shift: int) -> None:
    """Continue, end or begin a slip in a window: at the place from which on its shift fits better than the one before.

    The edges are the start of the window before, the start of this one, and its end; the shift is 0 without a slip.
    """
    before, start, end = edges
    last = slips[-1] if slips and slips[-1].end == start else None
    if last and shift == last.shift:
        slips[-1] = last._replace(end=end)
    elif shift or last:
        both = lengths[:, before:end]
        gains = _gains(both, shift) - _gains(both, last.shift if last else 0)
        turn = before + int(np.concatenate(([0.0], gains.cumsum())).argmin())
        if last:
            slips[-1] = last._replace(end=max(turn, last.start + 1))
        if shift:
            slips.append(Slip(turn, end, shift))


def _is_unrelated(lengths: Lengths, varied: list[_Window], windows: int) -> bool:
    """Whether the lengths correlate nowhere in a corpus, whose windows with varied lengths are given."""
    if lengths.std(axis=1).min() > 1e-4 and _correlation(lengths) < _CHANCE:
        return True
    if len(varied) < 2 or 2 * len(varied) < windows:
        return False
    far = np.mean([window.far for window in varied], axis=0)
    return bool(np.mean([window.aligned for window in varied]) - far.max() < _NOWHERE)


def _find_unrelated(varied: list[_Window]) -> Iterator[Slip]:
    """Find two or more windows in a row whose lengths no longer correlate although they vary as usual."""
    usual = [window.excess for window in varied]
    if len(varied) < _MIN_WINDOWS or np.quantile(usual, _USUAL_QUANTILE) < _RELATED:
        return
    spread = float(np.median([window.spread for window in varied]))
    run: list[_Window] = []
    for window in [*varied, _Window(-1, -1, 1.0, [0.0], 0.0)]:
        unrelated = window.excess < _UNRELATED and window.spread > 0.7 * spread
        if unrelated and (not run or run[-1].end == window.start):
            run.append(window)
            continue
        if len(run) > 1:
            yield Slip(run[0].start, run[-1].end, 0)
        run = [window] if unrelated else []


def _correlation(lengths: Lengths) -> float:
    """The correlation of the two sides; 0 if one does not vary."""
    centred = lengths - lengths.mean(axis=1, keepdims=True)
    scale = float((centred[0] @ centred[0]) * (centred[1] @ centred[1]))
    return float(centred[0] @ centred[1]) / scale**0.5 if scale > 1e-9 else 0.0


def _fisher(correlation: float) -> float:
    return float(np.arctanh(np.clip(correlation, -0.999, 0.999)))


def _shifted(lengths: Lengths, shift: int) -> Lengths:
    """Each source line with the target line that stands shift lines further on, where there is one."""
    count = lengths.shape[1] - abs(shift)
    return np.stack((lengths[0, max(-shift, 0) :][:count], lengths[1, max(shift, 0) :][:count]))


def _gains(lengths: Lengths, shift: int) -> Lengths:
    """How much better the lengths of each pair agree after a shift, (n,); 0 where there is no partner."""
    typical = np.median(lengths[1] - lengths[0])
    moved, start = _shifted(lengths, shift), max(-shift, 0)
    gains = np.zeros(lengths.shape[1], np.float32)
    part = slice(start, start + moved.shape[1])
    gains[part] = np.abs(lengths[1] - lengths[0] - typical)[part] - np.abs(moved[1] - moved[0] - typical)
    return gains
