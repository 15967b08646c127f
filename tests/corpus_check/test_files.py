"""What the doctor says of files: their lengths, bytes, rows and forms."""

import gzip
import json
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from dragoman.config import DragomanError
from dragoman.corpus_check.check import examine_text
from dragoman.corpus_check.issues import Flag
from dragoman.text.corpus import Pair, read_pairs
from tests.corpus_check.diagnoses import PLACE, examine, only, places, replaced, save


def test_line_counts_that_differ_with_the_place(clean: list[Pair], tmp_path: Path) -> None:
    path = save(tmp_path, replaced(clean, (20, ("", clean[20][1])), (1990, ("", clean[1990][1]))))
    lines = (tmp_path / "train.fr").read_text().split("\n")
    (tmp_path / "train.fr").write_text("\n".join(lines[:1200] + lines[1201:]))
    diagnosis = examine(path)
    findings = {finding.reason: finding for finding in diagnosis.findings}
    assert set(findings) == {"line counts differ", "empty side"}
    assert not diagnosis.usable
    assert findings["line counts differ"].severity == "error"
    near = findings["line counts differ"].examples[0].line
    assert abs(near - 1201) <= 3
    assert f"line {near:,}" in findings["line counts differ"].detail
    assert findings["empty side"].count == 1  # beyond the place, nothing is compared
    assert diagnosis.pairs == len(diagnosis.flags) == len(clean) - 1


def test_bytes_that_are_not_utf8_are_told_and_passed_over(clean: list[Pair], tmp_path: Path) -> None:
    path = save(tmp_path, replaced(clean, (900, ("", ""))))
    lines = (tmp_path / "train.fr").read_bytes().split(b"\n")
    lines[PLACE] = "déjà vu".encode("latin-1")
    (tmp_path / "train.fr").write_bytes(b"\n".join(lines))
    diagnosis = examine(path)
    found = {f.reason: (f.count, places(f)) for f in diagnosis.findings}
    assert found == {"not UTF-8": (1, [("train.fr", PLACE + 1)]), "empty side": (1, [("train.en", 901)])}
    assert diagnosis.findings[0].examples[0].remark == "byte 2 is 0xE9"
    assert diagnosis.findings[0].examples[0].texts == ()
    assert not diagnosis.usable


def test_the_form_that_json_must_have_is_told_with_the_languages(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text('{"en": "A sentence.", "fr": "Une phrase."}\n{"eng": "A", "fra": "B"}\n')
    finding = only(examine(str(tmp_path / "t.jsonl")))
    assert '{"en": "…", "fr": "…"}' in finding.detail


@pytest.mark.parametrize("kind", ["prefix", "gz", "tsv", "jsonl"])
def test_several_corpora_in_a_row_in_any_format(kind: str, clean: list[Pair], tmp_path: Path) -> None:
    first = save(tmp_path, replaced(clean[:1000], (7, ("", "x"))), "first")
    second = replaced(clean[1000:], (11, ("a\0b " + clean[1011][0], clean[1011][1])), (500, clean[3]))
    if kind == "tsv":
        (tmp_path / "second.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in second))
        text = str(tmp_path / "second.tsv")
    elif kind == "jsonl":
        rows = (json.dumps({"translation": {"fr": t, "en": s}}) for s, t in second)
        (tmp_path / "second.jsonl").write_text("".join(row + "\n" for row in rows))
        text = str(tmp_path / "second.jsonl")
    else:
        text = save(tmp_path, second, "second")
        for language in ("en", "fr") if kind == "gz" else ():
            plain = tmp_path / f"second.{language}"
            (tmp_path / f"second.{language}.gz").write_bytes(gzip.compress(plain.read_bytes()))
            plain.unlink()
    diagnosis = examine([first, text])
    found = {f.reason: [(Path(e.file).name.split(".")[0], e.line) for e in f.examples] for f in diagnosis.findings}
    assert found == {"empty side": [("first", 8)], "NUL": [("second", 12)], "duplicate pair": [("second", 501)]}
    pairs = list(read_pairs([first, text], "en", "fr"))
    assert len(diagnosis.flags) == len(pairs)
    flagged = {row: int(diagnosis.flags[row]) for row in np.flatnonzero(diagnosis.flags).tolist()}
    assert flagged == {7: Flag.EMPTY, 1011: Flag.CHARACTERS, 1500: Flag.DUPLICATE}
    assert "\0" in pairs[1011][0]
    assert f"{tmp_path / 'first'}.en, line 4" in str(diagnosis.to_dict())


@settings(max_examples=40, deadline=None)
@given(
    st.one_of(st.binary(max_size=300), st.text(max_size=100).map(str.encode)),
    st.one_of(st.binary(max_size=300), st.text(max_size=100).map(str.encode)),
    st.sampled_from(
        [("t.en", "t.fr", "t"), ("t.tsv", "", "t.tsv"), ("t.jsonl", "", "t.jsonl"), ("t.en.gz", "t.fr.gz", "t")]
    ),
)  # fmt: skip
@example(b"\0", b"\t", ("t.en", "t.fr", "t"))
def test_any_bytes_are_examined_or_refused_in_a_sentence(one: bytes, two: bytes, names: tuple[str, str, str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name, data in zip(filter(None, names[:2]), (one, two), strict=False):
            (Path(folder) / name).write_bytes(data)
        text = str(Path(folder) / names[2])
        try:
            diagnosis = examine_text([text], "en", "fr", [text])
        except DragomanError as error:
            sentence = str(error)
            diagnosis = None
        if not diagnosis:
            assert "\n" not in sentence
            return
        try:
            pairs = list(read_pairs([text], "en", "fr"))
        except DragomanError:
            assert not diagnosis.usable
        else:
            assert diagnosis.usable == any(s.strip() and t.strip() for s, t in pairs)
            assert len(diagnosis.flags) == len(pairs)
        assert all(cell_len(line) <= 80 or folder in line for line in diagnosis.describe(80).split("\n"))
        json.dumps(diagnosis.to_dict())


def test_text_of_empty_lines_is_none(tmp_path: Path) -> None:
    for language in ("en", "fr"):
        (tmp_path / f"train.{language}").write_text("\n  \n")
    diagnosis = examine_text([str(tmp_path / "train")], "en", "fr")
    assert not diagnosis.usable
    assert {finding.reason: finding.count for finding in diagnosis.findings} == {"no pairs": 1, "empty side": 2}
    (tmp_path / "train.en").write_text("\na\n")
    (tmp_path / "train.fr").write_text("\nb\n")
    assert examine_text([str(tmp_path / "train")], "en", "fr").usable


def test_empty_text_and_missing_text(tmp_path: Path) -> None:
    diagnosis = examine(save(tmp_path, []))
    finding = only(diagnosis)
    assert (finding.reason, finding.severity, diagnosis.usable, diagnosis.pairs) == ("no pairs", "error", False, 0)
    with pytest.raises(DragomanError, match="no such file"):
        examine(str(tmp_path / "elsewhere"))
