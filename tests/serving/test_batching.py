import asyncio
import threading
from typing import Any

import pytest

from dragoman.config import DragomanError, SearchConfig
from dragoman.serving.batching import Batcher, Wanted
from tests.serving.fakes import Upside


async def until(condition: Any) -> None:
    while not condition():
        await asyncio.sleep(0.001)


async def behind_a_busy_engine(translator: Upside, batcher: Batcher, *requests: tuple[list[str], Wanted]) -> list[Any]:
    """Make requests while a first one is being translated, then let the engine go on; their results."""
    translator.hold = threading.Event()
    first = asyncio.ensure_future(batcher.translate(["first"], Wanted()))
    await until(lambda: translator.calls)
    tasks = [asyncio.ensure_future(batcher.translate(*request)) for request in requests]
    await asyncio.sleep(0.01)
    translator.hold.set()
    await first
    return await asyncio.gather(*tasks, return_exceptions=True)


def test_what_waits_is_translated_together_and_everybody_gets_their_own() -> None:
    translator = Upside()
    batcher = Batcher(translator, SearchConfig())
    requests = [([f"one {i}", f"two {i}"], Wanted()) for i in range(5)]
    found = asyncio.run(behind_a_busy_engine(translator, batcher, *requests))
    assert [[line.text for line, _ in lines] for lines in found] == [[f"{i} ONE", f"{i} TWO"] for i in range(5)]
    assert translator.calls == [["first"], [f"{line} {i}" for line in ("one", "two") for i in range(5)]]


def test_a_batch_has_its_worth_and_lines_that_want_the_same() -> None:
    translator = Upside()
    batcher = Batcher(translator, SearchConfig())
    long = [f"{i} " + "x" * 600 for i in range(8)]
    aligned = Wanted(2, alignment=True)
    found = asyncio.run(
        behind_a_busy_engine(translator, batcher, (long, Wanted()), (["a b"], aligned), (["c"], Wanted()))
    )
    assert translator.calls == [["first"], [long[0], "c", *long[1:4]], ["a b"], long[4:]]
    ((translation, alignment),) = found[1]
    assert [other.text for other in translation.candidates] == ["B A", "B A!"]
    assert alignment.links == [(1, 0), (0, 1)]
    assert found[2][0][1] is None


def test_a_long_request_does_not_keep_out_a_short_one() -> None:
    translator = Upside()
    batcher = Batcher(translator, SearchConfig())
    long = [f"{i} " + "x" * 600 for i in range(12)]
    asyncio.run(behind_a_busy_engine(translator, batcher, (long, Wanted()), (["short"], Wanted())))
    assert "short" in translator.calls[1]


def test_threads_share_what_waits() -> None:
    translator = Upside(concurrency=2)
    batcher = Batcher(translator, SearchConfig())

    async def run() -> None:
        await batcher.translate(["first"], Wanted())  # starts them
        await until(lambda: batcher._idle == 2)
        translator.hold = threading.Event()
        asked = asyncio.ensure_future(batcher.translate([str(i) for i in range(10)], Wanted()))
        await until(lambda: len(translator.calls) == 3)
        translator.hold.set()
        await asked

    asyncio.run(run())
    assert [len(call) for call in translator.calls] == [1, 5, 5]


def test_one_bad_line_harms_no_other() -> None:
    translator = Upside()
    batcher = Batcher(translator, SearchConfig())
    requests = [([line], Wanted()) for line in ("good", "bad", "fine")]
    found = asyncio.run(behind_a_busy_engine(translator, batcher, *requests))
    assert [lines[0][0].text for lines in (found[0], found[2])] == ["GOOD", "FINE"]
    assert isinstance(found[1], DragomanError)


def test_what_nobody_waits_for_is_not_translated() -> None:
    translator = Upside()
    batcher = Batcher(translator, SearchConfig())

    async def run() -> None:
        translator.hold = threading.Event()
        first = asyncio.ensure_future(batcher.translate(["first"], Wanted()))
        await until(lambda: translator.calls)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(batcher.translate(["abandoned"], Wanted()), 0.01)
        translator.hold.set()
        await first
        await batcher.translate(["last"], Wanted())

    asyncio.run(run())
    assert translator.calls == [["first"], ["last"]]


def test_the_cache_keeps_the_lines_that_were_asked_for_last() -> None:
    translator = Upside()
    batcher = Batcher(translator, SearchConfig(), cached_lines=2)

    async def run() -> None:
        for line in ("a", "b", "a", "c", "a", "b"):
            ((translation, _),) = await batcher.translate([line], Wanted())
            assert translation.text == line.upper()
        await batcher.translate(["b"], Wanted(alignment=True))

    asyncio.run(run())
    assert translator.calls == [["a"], ["b"], ["c"], ["b"], ["b"]]
