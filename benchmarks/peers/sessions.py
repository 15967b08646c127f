"""The two kinds of sessions: training steps over a list of batches, and translating a list of lines."""

from __future__ import annotations

import ctypes
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from peers.batches import Arrays
from peers.protocol import Message

LATENCY_SENTENCES = 100
_WARM_UP_LINES = 8


def give_back_memory() -> None:
    """Ask glibc for freed memory to go back to the system: five models of size base wait at the same time."""
    if sys.platform.startswith("linux"):
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)


class TrainingSession:
    """Measures training steps."""

    def __init__(
        self,
        step: Callable[[Arrays], None],
        batches: Sequence[Arrays],
        facts: Message,
        wait: Callable[[], None] = lambda: None,
    ) -> None:
        """Warm up: one step with each batch, the longest sentences last, so that every shape has been seen.

        wait returns when a GPU has done the steps.
        """
        self.facts = facts
        self._step, self._batches, self._wait = step, batches, wait
        for batch in batches:
            step(batch)
        give_back_memory()

    def measure(self, request: Message) -> Message:
        """Make one step with each batch; answers with the real target tokens and the seconds."""
        self._step(self._batches[-1])  # the others have worked since: memory and caches must be had again
        self._wait()
        start = time.perf_counter()
        for batch in self._batches:
            self._step(batch)
        self._wait()
        seconds = time.perf_counter() - start
        give_back_memory()
        return {"tokens": sum(batch.num_tokens for batch in self._batches), "seconds": seconds}


Translate = Callable[[Sequence[str], int], list[str]]
"""(raw lines, beam) -> raw lines."""


class DecodingSession:
    """Measures translating."""

    def __init__(self, translate: Translate, sources: Sequence[str], facts: Message) -> None:
        """Translate these lines whenever asked."""
        self.facts = facts
        self._translate, self._sources = translate, sources

    def measure(self, request: Message) -> Message:
        """Translate all lines in batches, or the first hundred one at a time ("each"), at the request's beam.

        Answers with the translations and the seconds, or with the translations and the median milliseconds.
        """
        beam = request["beam"]
        self._translate(self._sources[:_WARM_UP_LINES], beam)
        if request["each"]:
            return self._one_by_one(beam)
        start = time.perf_counter()
        lines = self._translate(self._sources, beam)
        return {"seconds": time.perf_counter() - start, "lines": lines}

    def _one_by_one(self, beam: int) -> Message:
        lines, times = [], []
        for source in self._sources[:LATENCY_SENTENCES]:
            start = time.perf_counter()
            lines += self._translate([source], beam)
            times.append(1000 * (time.perf_counter() - start))
        return {"milliseconds": statistics.median(times), "lines": lines}


def fastest(
    ways: Sequence[Callable[[Sequence[str], int], list[str]]], sources: Sequence[str], beam: int, rounds: int = 2
) -> int:
    """Which of several ways to translate is the fastest for these lines: a peer's user would choose that one."""
    times = [float("inf")] * len(ways)
    for _ in range(rounds):
        for number, way in enumerate(ways):
            start = time.perf_counter()
            way(sources, beam)
            times[number] = min(times[number], time.perf_counter() - start)
    return times.index(min(times))


def in_sorted_batches(
    translate: Callable[[list[list[int]]], list[list[int]]], sources: Sequence[list[int]], size: int
) -> list[list[int]]:
    """Translate ids in batches of so many sentences of similar length; the results are in the order of the sources."""
    order = sorted(range(len(sources)), key=lambda i: -len(sources[i]))
    results: dict[int, list[int]] = {}
    for start in range(0, len(order), size):
        batch = order[start : start + size]
        results.update(zip(batch, translate([sources[i] for i in batch]), strict=True))
    return [results[i] for i in range(len(sources))]
