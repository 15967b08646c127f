"""Data sets of the Hugging Face Hub whose rows are not what they should be."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from dragoman.cli.main import main
from dragoman.datasets import download as download_module
from dragoman.text.corpus import read_pairs

ENGLISH, GERMAN = ["All is well.", "So it goes."], ["Alles ist gut.", "So geht es."]


def test_rows_of_the_hub_that_lack_a_side_are_left_out_and_what_is_no_sentence_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows: list[dict[str, object]] = []

    class Table(list[dict[str, object]]):
        column_names = ("translation",)

    builder = SimpleNamespace(info=SimpleNamespace(license="cc0"))
    hub = SimpleNamespace(load_dataset_builder=lambda *_: builder, load_dataset=lambda *_, split: Table(rows))
    monkeypatch.setattr(download_module, "needed", lambda *_: hub)
    command = ["download", "hf:some/sayings:all:train", "--out", str(tmp_path)]
    good: list[object] = [{"de": german, "en": english} for german, english in zip(GERMAN, ENGLISH, strict=True)]
    lacking = [None, {"de": None, "en": "None"}, {"de": "Nichts", "en": None}]
    rows += [{"translation": value} for value in [lacking[0], *good, *lacking[1:]]]
    assert main(command) == 0
    pairs = list(read_pairs([str(tmp_path / "sayings-all-train")], "en", "de"))
    assert pairs == list(zip(ENGLISH, GERMAN, strict=True))
    assert "left out: 3 rows that lack a side" in capsys.readouterr().err
    for value in ({"language": ["en", "de"], "translation": ["a", "b"]}, "a sentence", {"de": 1, "en": 2}, None):
        rows[:] = [{"translation": value}] * 2
        assert main([*command[:-1], str(tmp_path / "new")]) == 1
        reason = "must have a sentence for each language" if value else "no row has a translation"
        assert reason in capsys.readouterr().err
        assert not list((tmp_path / "new").glob("*"))
