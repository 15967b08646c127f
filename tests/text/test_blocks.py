"""Reading in blocks gives the pairs that training reads; where training would stop it goes on and tells the place."""

from __future__ import annotations

import csv
import gzip
import json
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.config import DragomanError
from dragoman.corpus_check.reasons import BAD_JSON, NO_TAB, NOT_UTF8, ODD_COLUMNS, QUOTED, WINDOWS_ENDS, Reason
from dragoman.text import blocks
from dragoman.text.blocks import Side, read_blocks, read_line_blocks
from dragoman.text.corpus import Corpus, locate, read_pairs
from dragoman.text.forms import FormError

CODES = ("en", "de")
lines = st.lists(st.text(st.sampled_from("ab é日\r\u2028\x85\ufeff\t\0"), max_size=6), max_size=20)


def pairs_of(corpus: Corpus, size: int, limit: int | None = None) -> list[tuple[str, str]]:
    return [pair for b in read_blocks(corpus, size, limit) for pair in zip(b.source, b.target, strict=True)]


@settings(max_examples=150, deadline=None)
@given(lines, st.integers(1, 7), st.sampled_from(["", ".gz"]), st.booleans(), st.integers(1, 30))
def test_blocks_hold_the_very_pairs_that_training_reads(
    texts: list[str], size: int, zipped: str, ended: bool, chunk: int
) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "_CHUNK_BYTES", chunk)
        for language, content in zip(CODES, (texts, texts[::-1]), strict=True):
            data = "\n".join(content).encode() + (b"\n" if ended and content else b"")
            path = Path(folder) / f"t.{language}{zipped}"
            path.write_bytes(gzip.compress(data) if zipped else data)
        corpus = locate(str(Path(folder) / "t"), *CODES)
        try:
            expected = list(corpus.read())
        except DragomanError:
            return  # a last line that is empty and not ended is none
        assert pairs_of(corpus, size) == expected
        assert pairs_of(corpus, size, 3) == expected[:3]
        assert [b.line for b in read_blocks(corpus, size)] == list(range(1, len(expected) + 1, size))


def test_rows_hold_the_pairs_of_training_and_odd_ones_are_told(tmp_path: Path) -> None:
    rows = ["a\tb", "c\td", "no tab", "e\tf\tg", "h\ti"]
    (tmp_path / "t.tsv").write_text("\n".join(rows))
    corpus = locate(str(tmp_path / "t.tsv"), *CODES)
    assert pairs_of(corpus, 2) == [("a", "b"), ("c", "d"), ("", ""), ("e", "f"), ("h", "i")]
    found = [(b.line, s.reason, s.rows.tolist()) for b in read_blocks(corpus, 2) for s in b.sightings]
    assert found == [(3, NO_TAB, [0]), (3, ODD_COLUMNS, [1])]
    (block,) = read_blocks(corpus)
    assert list(block.unreadable) == [2]
    assert block.example(2).texts == ("no tab",)
    assert (block.example(3).texts, block.example(3).line) == (("e", "f"), 4)


def test_quoting_is_told_with_the_parts_of_torn_cells(tmp_path: Path) -> None:
    rows = ["a\tb", '"He said ""no"""\tc', '"torn', 'cell"\tc', 'd\t"also', 'torn"', "plain"]
    (tmp_path / "t.tsv").write_text("\n".join(rows))
    (block,) = read_blocks(locate(str(tmp_path / "t.tsv"), *CODES))
    found = {s.reason: (s.rows.tolist(), list(s.remarks)) for s in block.sightings}
    assert found[QUOTED] == ([1, 2, 5], ["", "a part of a cell", "a part of a cell"])
    assert found[NO_TAB][0] == [2, 5, 6]


@pytest.mark.parametrize(("quoted", "told"), [(10, []), (11, [QUOTED]), (20, [QUOTED])])
def test_a_table_with_every_cell_in_quotes_is_told_once(quoted: int, told: list[Reason], tmp_path: Path) -> None:
    rows = [(f"sentence {n}", f"Satz {n}") for n in range(20)]
    with (tmp_path / "t.tsv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, "excel-tab", lineterminator="\n", quoting=csv.QUOTE_ALL).writerows(rows[:quoted])
        csv.writer(file, "excel-tab", lineterminator="\n").writerows(rows[quoted:])
    corpus = locate(str(tmp_path / "t.tsv"), *CODES)
    for size, expected in ((20, told), (5, [QUOTED])):  # the first five rows are in quotes
        sightings = [sighting for block in read_blocks(corpus, size) for sighting in block.sightings]
        assert [(s.reason, s.rows.tolist()) for s in sightings] == [(reason, [0]) for reason in expected]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("t.zip", b"PK\x03\x04\n"),
        ("t.tsv", "sentence\tSatz\n".encode("utf-16-le")),
        ("t.csv", b"a,b\n"),
        ("t.tsv", b"1\ta\tb\n" * 20),
    ],
)
def test_files_that_training_refuses_as_a_whole_are_refused_here(name: str, data: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(data)
    corpus = locate(str(tmp_path / name), *CODES)
    with pytest.raises(FormError) as here:
        list(read_blocks(corpus))
    with pytest.raises(FormError) as there:
        list(corpus.read())
    assert str(here.value) == str(there.value)


def test_json_that_is_no_pair_is_told(tmp_path: Path) -> None:
    good = json.dumps({"translation": {"en": "a\nb", "de": "c"}})
    rows = [good, "{", good, '{"translation": {"en": 1, "de": "x"}}', "[]", good]
    (tmp_path / "t.jsonl").write_text("\n".join(rows))
    (block,) = read_blocks(locate(str(tmp_path / "t.jsonl"), *CODES))
    assert [(s.reason, s.rows.tolist()) for s in block.sightings] == [(BAD_JSON, [1, 3, 4])]
    assert block.source == ["a b", "", "a b", "", "", "a b"]
    (tmp_path / "t.jsonl").write_text(f"{good}\n{{\n\n")
    (block,) = read_blocks(locate(str(tmp_path / "t.jsonl"), *CODES))
    assert [list(sighting.remarks) for sighting in block.sightings] == [["", "an empty line"]]


def test_bytes_that_are_no_text_empty_their_pair(tmp_path: Path) -> None:
    (tmp_path / "t.en").write_bytes(b"one\ntwo\xff\nthree\nfour\xc3")
    (tmp_path / "t.de").write_bytes(b"eins\r\nzwei\r\ndrei\nvier\r\n")
    found = []
    for block in read_blocks(locate(str(tmp_path / "t"), *CODES), 2):
        found += [(block.line, s.reason, s.side, s.rows.tolist(), list(s.remarks)) for s in block.sightings]
        assert list(block.unreadable) == [1]
        assert block.source[1] == block.target[1] == ""
    assert found == [
        (1, NOT_UTF8, 0, [1], ["byte 4 is 0xFF, after “two”"]),
        (1, WINDOWS_ENDS, 1, [0, 1], []),
        (3, NOT_UTF8, 0, [1], ["byte 5 is 0xC3, after “four”"]),
        (3, WINDOWS_ENDS, 1, [1], []),
    ]


@pytest.mark.parametrize(("source", "target"), [(5, 9), (9, 5), (0, 3), (4, 6), (6, 4)])
def test_what_one_file_has_beyond_the_other_is_counted(source: int, target: int, tmp_path: Path) -> None:
    for language, count in zip(CODES, (source, target), strict=True):
        (tmp_path / f"t.{language}").write_text("".join(f"{n}\n" for n in range(count)))
    found = list(read_blocks(locate(str(tmp_path / "t"), *CODES), 2))
    shorter = min(source, target)
    assert sum(map(len, found)) == shorter
    assert found[-1].surplus == (source - shorter, target - shorter)
    assert [line for b in found for line in b.source] == [str(n) for n in range(shorter)]


def test_damaged_archives_and_missing_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "t.gz").write_bytes(gzip.compress(b"line\n" * 1000)[:-20])
    with pytest.raises(DragomanError, match=r"t\.gz: damaged gzip file"):
        list(read_line_blocks(tmp_path / "t.gz"))
    with pytest.raises(DragomanError, match="No such file"):
        list(read_line_blocks(tmp_path / "nothing"))


def test_a_block_that_was_cut_short_forgets_what_was_beyond(tmp_path: Path) -> None:
    (tmp_path / "t.en").write_bytes(b"a\r\nb\xff\nc\r\nd\n")
    (tmp_path / "t.de").write_bytes(b"a\nb\nc\nd\n")
    corpus = locate(str(tmp_path / "t"), *CODES)
    (block,) = read_blocks(corpus, limit=1)
    assert [(s.reason, s.rows.tolist()) for s in block.sightings] == [(WINDOWS_ENDS, [0])]
    assert (len(block), list(block.unreadable)) == (1, [])
    with pytest.raises(DragomanError):
        list(read_pairs([str(tmp_path / "t")], *CODES))


@given(st.lists(st.text(st.characters(blacklist_characters="\n", blacklist_categories=["Cs"])), min_size=1))
def test_characters_lead_back_to_their_lines(texts: list[str]) -> None:
    side = Side(texts)
    positions = np.arange(len(side.codes))
    expected = [row for row, text in enumerate(texts) for _ in text + "\n"]
    assert side.rows(positions).tolist() == expected
    assert side.distinct_rows(positions).tolist() == list(range(len(texts)))
    assert [chr(code) for code in side.codes.tolist()] == [char for text in texts for char in text + "\n"]
    for row, text in enumerate(texts):
        assert side.codes[side.starts[row] : side.ends[row] - 1].tolist() == list(map(ord, text))
    assert side.rare.tolist() == [n for n, code in enumerate(side.codes.tolist()) if code > 127]


@settings(max_examples=60, deadline=None)
@given(lines, st.integers(1, 8), st.integers(1, 12), st.integers(0, 12))
def test_blocks_of_long_lines_are_divided_and_lose_nothing(texts: list[str], size: int, most: int, limit: int) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        path = Path(folder) / "t.tsv"
        path.write_bytes("".join(f"{text}\n" if n % 3 else f"{text}\tx\n" for n, text in enumerate(texts)).encode())
        corpus = locate(str(path), *CODES)
        whole = list(read_blocks(corpus, size, limit))
        patch.setattr(blocks, "_BLOCK_CHARACTERS", most)
        parts = list(read_blocks(corpus, size, limit))

    def all_of(found: list[blocks.Block]) -> list[object]:
        pairs = [(b.line + n, *p) for b in found for n, p in enumerate(zip(b.source, b.target, strict=True))]
        seen = [
            (s.reason.name, b.line + r, s.remarks[n : n + 1])
            for b in found
            for s in b.sightings
            for n, r in enumerate(s.rows.tolist())
        ]
        raw = [row for b in found for row in b.raw[: len(b)]]
        return [pairs, sorted(map(str, seen)), raw, [b.line + row for b in found for row in b.unreadable]]

    assert all_of(parts) == all_of(whole)


def test_long_lines_come_in_small_blocks(tmp_path: Path) -> None:
    for language in CODES:
        (tmp_path / f"t.{language}").write_text(("x" * 20_000 + "\n") * 1000)
    sizes = [len(block) for block in read_blocks(locate(str(tmp_path / "t"), *CODES))]
    assert sum(sizes) == 1000
    assert max(sizes) < 120


def test_what_reading_noticed_keeps_its_line_over_pieces_of_the_file(tmp_path: Path) -> None:
    for language, count in zip(CODES, (40, 43), strict=True):
        lines = (f"{'x' * 50}{n}" + ("\r\n" if n in (7, 30) else "\n") for n in range(count))
        (tmp_path / f"t.{language}").write_bytes("".join(lines).encode())
    corpus = locate(str(tmp_path / "t"), *CODES)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "_CHUNK_BYTES", 170)
        patch.setattr(blocks, "_BLOCK_CHARACTERS", 600)
        parts = list(read_blocks(corpus))
    ends = [(s.side, b.line + row) for b in parts for s in b.sightings for row in s.rows.tolist()]
    assert sorted(ends, key=str) == [(0, 31), (0, 8), (1, 31), (1, 8)]
    assert len(parts) > 5
    assert [part.surplus for part in parts] == [(0, 0)] * (len(parts) - 1) + [(0, 3)]
