"""Two sides that have the same number of lines and yet slip against each other, found by the lengths of the lines.

A translation is long where its source is long, so the lengths go together. In a window of lines where they do so better
after a shift by a line or some, the text has slipped there. Neighbouring lines resemble each other in length, too, and
so do lines far apart where long and short ones alternate; so a window is no translation where its lengths go together
no better than after shifts by twenty lines and more. A window whose lines are all alike in length says nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

WINDOW = 500
"""Pairs whose lengths are compared at a time."""

_SHIFTS = [shift for size in range(1, 6) for shift in (size, -size)]
_LOWEST = 0.35  # correlation that a shift must reach,
_GAIN = 0.4  # and what it must gain over no shift, in Fisher's z: about six standard deviations of chance
_FAR = [shift for size in range(20, 26) for shift in (size, -size)]  # where nothing belongs together
_RELATED, _UNRELATED = 0.4, 0.1  # Fisher's z beyond that: of lines that belong together at least, of others at most
_NOWHERE = 0.05  # the same for the mean of a whole text, which varies less
_CHANCE = 0.1  # a correlation that is none, where the lengths of a whole text vary
_VARIED = 0.1  # standard deviation of the logarithm of lengths from which a window says something
_USUAL = 0.95  # quantile of the windows that shows how well lines that belong together do
_USUAL_AFTER = 4  # windows that must have been seen before one can be called unusual

Lengths = NDArray[np.float64]


@dataclass(frozen=True)
class Slip:
    """Consecutive pairs that don't belong together."""

    start: int
    """The first, from 0."""
    end: int
    """Behind the last."""
    shift: int
    """Which target line, counted from its own, translates a source line: 1 is the next; 0 is none."""


@dataclass
class SlipFinder:
    """Takes in the lengths of a corpus block by block, and finds slips in constant memory."""

    _slips: list[Slip] = field(default_factory=list)
    _windows: list[_Window] = field(default_factory=list)
    _whole: _Moments = field(default_factory=lambda: _Moments())
    _position: int = 0
    _before: Lengths = field(default_factory=lambda: np.empty((2, 0)))
    _waiting: Lengths = field(default_factory=lambda: np.empty((2, 0)))

    def add(self, source: NDArray[np.intp], target: NDArray[np.intp]) -> None:
        """Take in the lengths of the next pairs, in characters; both (n,)."""
        lengths = np.log1p(np.stack((source, target)))
        self._whole.add(lengths)
        self._waiting = np.concatenate((self._waiting, lengths), axis=1)
        while self._waiting.shape[1] >= 2 * WINDOW:  # the last window takes the rest
            self._judge(WINDOW)

    def finish(self) -> list[Slip]:
        """Judge what is left, and tell all that was found, in order."""
        if self._waiting.shape[1] >= WINDOW // 2:
            self._judge(self._waiting.shape[1])
        slipped = sum(slip.end - slip.start for slip in self._slips)
        if self._whole.count >= 2 * WINDOW and 2 * slipped < self._whole.count and self._is_unrelated():
            return [Slip(0, self._whole.count, 0)]
        return sorted([*self._slips, *self._unrelated()], key=lambda slip: slip.start)

    def _judge(self, size: int) -> None:
        """Look at the next window."""
        window = self._waiting[:, :size]
        still = _correlation(window)
        best, shift = max((_correlation(_shifted(window, shift)), shift) for shift in _SHIFTS)
        slipped = best > _LOWEST and _fisher(best) - _fisher(still) > _GAIN
        both = np.concatenate((self._before, window), axis=1)
        start, end = self._position - self._before.shape[1], self._position + size
        last = self._slips[-1] if self._slips and self._slips[-1].end == self._position else None
        if slipped and last and shift == last.shift:
            self._slips[-1] = Slip(last.start, end, shift)
        elif slipped or last:  # where does the one state turn into the other?
            gains = _gains(both, shift if slipped else 0) - _gains(both, last.shift if last else 0)
            turn = start + int(np.concatenate(([0.0], gains.cumsum())).argmin())
            if last:
                self._slips[-1] = Slip(last.start, max(turn, last.start + 1), last.shift)
            if slipped:
                self._slips.append(Slip(turn, end, shift))
        if not slipped:
            far = [_fisher(_correlation(_shifted(window, shift))) for shift in _FAR]
            self._windows.append(_Window(self._position, end, _fisher(still), far, float(window.std(axis=1).min())))
        self._position = end
        self._before, self._waiting = window, self._waiting[:, size:]

    def _is_unrelated(self) -> bool:
        """Whether the lengths go together nowhere."""
        if self._whole.correlation() < _CHANCE:
            return True
        varied = [window for window in self._windows if window.spread > _VARIED]
        if len(varied) < 2 or 2 * len(varied) < len(self._windows):
            return False
        far = np.mean([window.far for window in varied], axis=0)
        return bool(np.mean([window.still for window in varied]) - far.max() < _NOWHERE)

    def _unrelated(self) -> Iterator[Slip]:
        """At least two windows in a row whose lengths go together no longer, although they vary as usual."""
        varied = [window for window in self._windows if window.spread > _VARIED]
        if len(varied) < _USUAL_AFTER or np.quantile([window.excess for window in varied], _USUAL) < _RELATED:
            return
        spread = float(np.median([window.spread for window in varied]))
        run: list[_Window] = []
        for window in [*varied, _Window(-1, -1, 1.0, [0.0], 0.0)]:
            collapsed = window.excess < _UNRELATED and window.spread > 0.7 * spread
            if collapsed and (not run or run[-1].end == window.start):
                run.append(window)
                continue
            if len(run) > 1:
                yield Slip(run[0].start, run[-1].end, 0)
            run = [window] if collapsed else []


@dataclass(frozen=True)
class _Window:
    """A stretch of the lines, with how the lengths of its two sides go together, in Fisher's z."""

    start: int
    end: int
    still: float
    far: list[float]
    """After each of the shifts in _FAR."""
    spread: float
    """The smaller of both sides' standard deviations."""

    @property
    def excess(self) -> float:
        """How much better the lengths go together than those of lines that don't belong together."""
        return self.still - max(self.far)


@dataclass
class _Moments:
    """The correlation of a stream."""

    count: int = 0
    sums: Lengths = field(default_factory=lambda: np.zeros(2))
    products: Lengths = field(default_factory=lambda: np.zeros((2, 2)))

    def add(self, lengths: Lengths) -> None:
        """Take in lengths of shape (2, lines)."""
        self.count += lengths.shape[1]
        self.sums += lengths.sum(axis=1)
        self.products += lengths @ lengths.T

    def correlation(self) -> float:
        """1 where a side does not vary."""
        means = self.sums / self.count
        covariance = self.products / self.count - np.outer(means, means)
        scale = float(covariance[0, 0] * covariance[1, 1])
        return float(covariance[0, 1]) / scale**0.5 if scale > 1e-9 else 1.0


def _correlation(lengths: Lengths) -> float:
    """Of the two rows; 0 where one does not vary."""
    centred = lengths - lengths.mean(axis=1, keepdims=True)
    scale = float((centred[0] @ centred[0]) * (centred[1] @ centred[1]))
    return float(centred[0] @ centred[1]) / scale**0.5 if scale > 1e-9 else 0.0


def _shifted(lengths: Lengths, shift: int) -> Lengths:
    """Each source line beside the target line that stands shift lines further on, where there is one."""
    count = lengths.shape[1] - abs(shift)
    return np.stack((lengths[0, max(-shift, 0) :][:count], lengths[1, max(shift, 0) :][:count]))


def _gains(lengths: Lengths, shift: int) -> Lengths:
    """How much better each pair's lengths agree after the shift than before; (n,), 0 where there is no partner."""
    typical = np.median(lengths[1] - lengths[0])
    moved = _shifted(lengths, shift)
    still = np.abs(lengths[1] - lengths[0] - typical)
    gains = np.zeros(lengths.shape[1])
    start = max(-shift, 0)
    gains[start : start + moved.shape[1]] = -np.abs(moved[1] - moved[0] - typical)
    gains[start : start + moved.shape[1]] += still[start : start + moved.shape[1]]
    return gains


def _fisher(correlation: float) -> float:
    """Fisher's z, whose chance deviations are the same for all correlations."""
    return float(np.arctanh(min(max(correlation, -0.999), 0.999)))
