"""The contest: all competitors are loaded and wait; one at a time is measured, round after round."""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from peers.protocol import Message, PeerError, Worker

BENCHMARKS = Path(__file__).resolve().parents[1]
_PATIENCE = 1800.0  # seconds, for loading or for one measurement
_PAUSE = 0.3  # seconds, until the threads of the one before have stopped spinning


@dataclass(frozen=True)
class Competitor:
    """Somebody to measure."""

    name: str
    """As in the tables."""
    peer: str
    """As in --peers; several competitors may be the same peer in another setting."""
    module: str
    """Of its worker, which `python -m` runs."""
    settings: Message = field(default_factory=dict)
    """What its first request has beside the contest's."""
    joeynmt: bool = False
    """Whether it needs JoeyNMT's environment."""


class Contest:
    """The workers of one comparison."""

    def __init__(
        self,
        competitors: Sequence[Competitor],
        request: Message,
        work: Path,
        threads: int,
        report: Callable[[str], None],
    ) -> None:
        """Start and load them, one after the other.

        Args:
            competitors: in the order in which they are measured.
            request: their first one.
            work: the folder with JoeyNMT's environment, and where logs go.
            threads: of each.
            report: told who is left out, and why.
        """
        self._report = report
        self._workers: dict[str, Worker] = {}
        self.facts: dict[str, Message] = {}
        """What each one told about itself."""
        try:
            for competitor in competitors:
                self._start(competitor, request, work, threads)
        except BaseException:
            self.close()
            raise

    @property
    def names(self) -> list[str]:
        """Who is still in."""
        return list(self._workers)

    def ask(self, name: str, request: Message) -> Message | None:
        """Ask one competitor; None, and it is out, if it failed."""
        time.sleep(_PAUSE)
        try:
            return self._workers[name].ask(request, _PATIENCE)
        except PeerError as error:
            self._drop(name, error)
            return None

    def go_round(self, names: Sequence[str], request: Message) -> dict[str, Message]:
        """Ask each of these that is still in, one after the other."""
        answers = {name: self.ask(name, request) for name in names if name in self._workers}
        return {name: answer for name, answer in answers.items() if answer is not None}

    def close(self) -> None:
        """End all workers."""
        for worker in self._workers.values():
            worker.close()
        self._workers.clear()

    def _start(self, competitor: Competitor, request: Message, work: Path, threads: int) -> None:
        python = str(work / "joeynmt" / "bin" / "python") if competitor.joeynmt else sys.executable
        path = [str(BENCHMARKS), *filter(None, [os.environ.get("PYTHONPATH")])]
        count = str(threads)
        environment = {"PYTHONPATH": os.pathsep.join(path), "OMP_NUM_THREADS": count, "MKL_NUM_THREADS": count}
        log = work / "logs" / f"{competitor.name.replace(' ', '-')}.txt"
        try:
            worker = Worker(competitor.name, [python, "-m", competitor.module], environment, log)
        except PeerError as error:
            self._report(str(error))
            return
        self._workers[competitor.name] = worker
        try:
            self.facts[competitor.name] = worker.ask(request | competitor.settings | {"threads": threads}, _PATIENCE)
        except PeerError as error:
            self._drop(competitor.name, error)

    def _drop(self, name: str, error: PeerError) -> None:
        self._report(str(error))
        self._workers.pop(name).close()
        self.facts.pop(name, None)

    def __enter__(self) -> Contest:
        """Itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """End all workers."""
        self.close()


def summary(values: Sequence[float]) -> Message:
    """All repeats, their median, and the least and the greatest."""
    return {
        "median": rounded(statistics.median(values)),
        "min": rounded(min(values)),
        "max": rounded(max(values)),
        "repeats": [rounded(value) for value in values],
    }


def rounded(value: float) -> float:
    """Four significant digits."""
    return float(f"{value:.4g}")


def add_ratios(rows: dict[str, Message], ours: Mapping[str, str], more_is_better: bool) -> None:
    """Add to each row how many times as fast we are, by the medians.

    Args:
        rows: by competitor.
        ours: for each ratio's name, which of the competitors is "we"; left out where that one did not take part.
        more_is_better: whether the medians are speeds, not times.
    """
    for name, our_name in ours.items():
        if our_name not in rows:
            continue
        own = rows[our_name]["median"]
        for row in rows.values():
            row[name] = rounded(own / row["median"] if more_is_better else row["median"] / own)
