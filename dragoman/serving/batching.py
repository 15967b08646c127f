"""Lines of all requests, translated together.

A thread for each batch that the engine computes at the same time takes what waits, up to one batch's worth, and comes
back for more. So a line on an idle server waits for nothing, and on a busy one for the batches before it. Requests take
turns, line by line: a long one does not keep out the others.
"""

import asyncio
import threading
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

from prometheus_client import Counter, Histogram

from dragoman.config import SearchConfig
from dragoman.inference.alignment import Alignment
from dragoman.inference.results import Translation
from dragoman.inference.translator import Translator

_BATCH_CHARACTERS = 2000  # about what CTranslate2 computes at once with a beam of 4
_LINES = Histogram("dragoman_batch_lines", "Lines translated together", buckets=(1, 2, 4, 8, 16, 32, 64, 128))
_HITS = Counter("dragoman_cached_lines", "Lines answered from the cache")


@dataclass(frozen=True)
class Wanted:
    """How a line is to be translated; lines that want the same are translated together."""

    candidates: int = 1
    """Translations, best first."""
    alignment: bool = False
    """Whether the best one is to be aligned."""


Line = tuple[Translation, Alignment | None]
"""A translated line, with its alignment if that was wanted."""


@dataclass(frozen=True, eq=False)
class _Job:
    line: str
    answer: asyncio.Future[Line]


class Batcher:
    """One translator behind many requests."""

    def __init__(self, translator: Translator, config: SearchConfig, cached_lines: int = 0) -> None:
        """The last cached_lines lines are answered from memory."""
        self.translator, self._config, self._cached_lines = translator, config, cached_lines
        self._cache: OrderedDict[tuple[str, Wanted], Line] = OrderedDict()
        self._changed, self._idle = threading.Condition(), 0
        self._waiting: dict[Wanted, deque[deque[_Job]]] = {}  # the jobs of each request; nothing in it is empty
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(translator.concurrency)]

    async def translate(self, lines: Sequence[str], wanted: Wanted) -> list[Line]:
        """Translate lines, in order; an empty one stays empty.

        Raises:
            DragomanError: as Translator.translate, for one of these lines.
        """
        while self._threads:
            self._threads.pop().start()
        loop = asyncio.get_running_loop()
        jobs = {line: _Job(line, loop.create_future()) for line in lines if (line, wanted) not in self._cache}
        cached = {line: self._cache[line, wanted] for line in lines if line not in jobs}
        _HITS.inc(len(cached))
        if jobs:
            with self._changed:
                self._waiting.setdefault(wanted, deque()).append(deque(jobs.values()))
                self._changed.notify(len(jobs))
        try:
            await asyncio.gather(*(job.answer for job in jobs.values()))
        finally:  # where nobody waits any more, nothing is translated
            for job in jobs.values():
                job.answer.cancel()
        found = cached | {line: job.answer.result() for line, job in jobs.items()}
        if self._cached_lines:
            for line, answer in found.items():
                self._cache[line, wanted] = answer
                self._cache.move_to_end((line, wanted))
            while len(self._cache) > self._cached_lines:
                self._cache.popitem(last=False)
        return [found[line] for line in lines]

    def _run(self) -> None:
        while True:
            wanted, jobs = self._take()
            if jobs:
                _LINES.observe(len(jobs))
                answers = self._translate([job.line for job in jobs], wanted)
                jobs[0].answer.get_loop().call_soon_threadsafe(_settle, jobs, answers)

    def _take(self) -> tuple[Wanted, list[_Job]]:
        """What makes a batch, and leaves a share for the other idle threads."""
        with self._changed:
            self._idle += 1
            self._changed.wait_for(lambda: self._waiting)
            wanted, waiting = next(iter(self._waiting.items()))
            share, characters = -(-sum(map(len, waiting)) // self._idle), 0
            self._idle -= 1
            jobs: list[_Job] = []
            while waiting and len(jobs) < share and characters <= _BATCH_CHARACTERS:
                request = waiting.popleft()
                job = request.popleft()
                if request:
                    waiting.append(request)
                if not job.answer.cancelled():
                    jobs.append(job)
                    characters += len(job.line)
            del self._waiting[wanted]
            if waiting:
                self._waiting[wanted] = waiting  # behind those that want something else
            return wanted, jobs

    def _translate(self, lines: list[str], wanted: Wanted) -> list[Line | Exception]:
        config = replace(self._config, n_best=wanted.candidates, beam=max(self._config.beam, wanted.candidates))
        try:
            found = self.translator.translate(lines, config)
            alignments = self.translator.align(lines, found) if wanted.alignment else [None] * len(lines)
            return list(zip(found, alignments, strict=True))
        except Exception as error:
            if len(lines) == 1:
                return [error]
            return [answer for line in lines for answer in self._translate([line], wanted)]  # one harms no other


def _settle(jobs: Sequence[_Job], answers: Sequence[Line | Exception]) -> None:
    for job, answer in zip(jobs, answers, strict=True):
        if job.answer.done():
            continue
        if isinstance(answer, Exception):
            job.answer.set_exception(answer)
        else:
            job.answer.set_result(answer)
