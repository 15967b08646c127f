"""Several processes translate, score and align as one does."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time

import pytest
import torch

from dragoman.config import ConfigError, DragomanError, SearchConfig
from dragoman.inference.engine import Engine
from dragoman.inference.search import Hypothesis
from dragoman.inference.translator import Translator
from tests.inference.small_translators import LINES, SENTENCES, WORDS, build, close, texts, with_facts

needs_fork = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux has workers")


def of_two(translator: Translator) -> Translator:
    """The same translator with two processes."""
    return Translator(translator.folder, workers=2)


@needs_fork
@pytest.mark.parametrize(
    "lines",
    [
        [],
        [""],
        [LINES[3]],
        ["", LINES[3], "", "  ", LINES[4], LINES[4], ""],
        [line for i in range(50) for line in [LINES[i % 40]] + [""] * (i % 3)],
    ],
    ids=["nothing", "an empty line", "one line", "lines between empty ones", "many lines"],
)
def test_several_workers_translate_as_one_does(lines: list[str]) -> None:
    translator = build()
    for config in (SearchConfig(), SearchConfig(beam=2, n_best=2, batch_tokens=150)):
        done: list[int] = []
        expected = translator.translate(lines, config)
        found = of_two(translator).translate(lines, config, done.append)
        assert texts(found) == texts(expected)
        for one, other in zip(found, expected, strict=True):
            assert [c.subwords for c in one.candidates] == [c.subwords for c in other.candidates]
            assert [c.score for c in one.candidates] == pytest.approx([c.score for c in other.candidates], abs=1e-4)
        assert sum(done) == sum(bool(line.strip()) for line in lines)
    end = time.monotonic() + 10
    while multiprocessing.active_children() and time.monotonic() < end:
        time.sleep(0.02)
    assert multiprocessing.active_children() == []


@needs_fork
@pytest.mark.parametrize("workers", [1, 2])
def test_only_several_workers_are_other_processes(workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    search, here = Engine.search, os.getpid()
    calls = []

    def somewhere(engine: Engine, sources: list[list[int]], config: SearchConfig) -> list[list[Hypothesis]]:
        calls.append(os.getpid())
        if (os.getpid() == here) != (workers == 1):
            raise AssertionError("searched in the wrong process")
        return search(engine, sources, config)

    monkeypatch.setattr(Engine, "search", somewhere)
    assert len(Translator(build().folder, workers=workers).translate(LINES[:6])) == 6
    assert bool(calls) == (workers == 1)


@needs_fork
def test_several_workers_translate_long_lines_and_score_and_align_as_one_does() -> None:
    translator = with_facts(build(), longest_training_side=30)
    lines = [LINES[3], " ".join(SENTENCES), "", LINES[8]]
    expected, found = translator.translate(lines), of_two(translator).translate(lines)
    for one, other in zip(found, expected, strict=True):
        close(one, other)
    assert of_two(translator).align(lines, found) == translator.align(lines, expected)
    pairs = [(line, line) for line in LINES[:9]]
    scores = [score.log_prob for score in translator.score(pairs)]
    assert [score.log_prob for score in of_two(translator).score(pairs)] == pytest.approx(scores, abs=1e-4)


@needs_fork
def test_workers_see_weights_that_changed_after_the_translator_was_made() -> None:
    translator = of_two(build())
    before = translator.translate(LINES[:8])
    with torch.no_grad():
        for parameter in translator.model.decoder.parameters():
            parameter.mul_(-1.0)
    after = translator.translate(LINES[:8])
    assert texts(after) != texts(before)
    assert texts(after) == texts(Translator(translator.folder).translate(LINES[:8]))


@needs_fork
def test_errors_of_workers_are_those_of_one() -> None:
    translator = of_two(build(max_length=30))
    with pytest.raises(ConfigError, match="min_length is 30, but the model writes at most 29"):
        translator.translate(WORDS, SearchConfig(min_length=30))
    with torch.no_grad():
        translator.model.decoder.layers[0].feed_forward.inner.bias.fill_(float("nan"))  # type: ignore[union-attr,operator]
    with pytest.raises(DragomanError, match=r"no numbers \(NaN\)"):
        translator.translate(WORDS)
