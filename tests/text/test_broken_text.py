"""Text that can't be read is refused at once, with the place, before anything is learned from the rest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dragoman.config import DragomanError, TextConfig, TrainConfig
from dragoman.corpus_check.cleaning import clean_text
from dragoman.text import preprocess as preparation
from dragoman.text.preprocess import prepare_text

PAIRS = [(f"number {n} is called {n * 7919}", f"Nummer {n} heißt {n * 7919}") for n in range(300)]


def shorter(path: Path) -> str:
    path.write_text("".join(path.read_text(encoding="utf-8").splitlines(keepends=True)[1:]), encoding="utf-8")
    return r"has \d+ lines but .* has \d+"


def not_utf8(path: Path) -> str:
    path.write_bytes(path.read_bytes().replace("ß".encode(), b"\xdf", 1))
    return r"line 1, byte \d+: not UTF-8"


def utf16(path: Path) -> str:
    path.write_bytes(path.read_text(encoding="utf-8").encode("utf-16"))
    return "UTF-16, not UTF-8"


def empty(path: Path) -> str:
    path.write_text("")
    path.with_suffix(".en").write_text("")
    return "no sentence pair; the .* text is empty"


@pytest.mark.parametrize("damage", [shorter, not_utf8, utf16, empty])
@pytest.mark.parametrize("name", ["train", "valid", "test"])
def test_text_that_is_broken_stops_the_run_before_anything_is_learned(
    name: str, damage: Callable[[Path], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = {"train": PAIRS[40:], "valid": PAIRS[:20], "test": PAIRS[20:40]}
    for part, pairs in parts.items():
        for side, language in enumerate(("en", "de")):
            text = "".join(f"{pair[side]}\n" for pair in pairs)
            (tmp_path / f"{part}.{language}").write_text(text, encoding="utf-8")
    texts = {part: [str(tmp_path / part)] for part in parts}
    config = TrainConfig(source="en", target="de", out=str(tmp_path / "out"), text=TextConfig(vocab_size=310), **texts)
    prepare_text(replace(config, out=str(tmp_path / "good")), clean_text)
    reason = damage(tmp_path / f"{name}.de")
    monkeypatch.setattr(preparation, "_learn", None)
    with pytest.raises(DragomanError, match=rf"{name}.*{reason}"):
        prepare_text(config, clean_text)
