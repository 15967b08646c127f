"""What examining costs does not grow faster than the text."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.corpus_check.check import examine_text
from dragoman.corpus_check.survey import Survey


def slipping(stretches: int) -> tuple[list[str], list[str]]:
    """Stretches of 2,000 lines, every other one of which lacks a line at its beginning and has one more at its end."""
    chance = random.Random(1)
    words = [chance.randint(2, 40) for _ in range(2000 * stretches)]
    sources = [f"{n} " + "word " * count for n, count in enumerate(words)]
    targets = [f"{n} " + "Wort " * count for n, count in enumerate(words)]
    for start in range(2000, len(words), 4000):
        targets.insert(start + 1999, targets.pop(start))
    return sources, targets


@pytest.mark.parametrize("examples", [0, 3])
def test_the_text_is_not_read_once_more_for_every_slip(
    examples: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    readings: list[int] = []
    blocks = Survey.blocks

    def counted(survey: Survey) -> Iterator[Any]:
        readings.append(1)
        return blocks(survey)

    monkeypatch.setattr(Survey, "blocks", counted)
    found = []
    for stretches in (2, 12):
        for language, lines in zip(("en", "de"), slipping(stretches), strict=True):
            (tmp_path / f"text.{language}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        readings.clear()
        diagnosis = examine_text([str(tmp_path / "text")], "en", "de", examples=examples)
        (finding,) = [finding for finding in diagnosis.findings if finding.reason == "out of step"]
        found.append((finding.count // 1900, len(finding.examples), len(readings)))
    (few, _, once), (many, shown, again) = found
    assert (few, many, shown) == (1, 6, examples)
    assert once == again
    assert [example.line // 2000 for example in finding.examples] == [1, 3, 5][:examples]
