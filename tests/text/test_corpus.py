"""Every format gives the same pairs, and what is wrong is named with its place, whether reading stops or goes on."""

import csv
import gzip
import json
import os
import random
import re
import sys
import tempfile
import tracemalloc
from collections.abc import Callable
from itertools import chain, islice
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.config import DragomanError
from dragoman.runtime.optional_imports import import_optional
from dragoman.text.corpus import Pair, Problem, decode_lines, holds_out, locate, read_lines, read_pairs

# Everything that str.splitlines() takes for the end of a line, in the middle of one.
ODD_BREAKS = ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\r"]
PAIRS: list[Pair] = [
    ("The cat sleeps.", "Die Katze schläft."),
    *((f"before{char}after", f"vorher{char}nachher") for char in ODD_BREAKS),
    ("", ""),
    ("日本語 🐈", "  spaces stay  "),
    ("last", "letzte"),
]


def compress_zstd(data: bytes) -> bytes:
    """In two frames, as parallel compression makes them."""
    zstd = import_optional("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd", "zstd")
    half = len(data) // 2
    return bytes(zstd.compress(data[:half]) + zstd.compress(data[half:]))


def write(path: Path, content: bytes | str) -> Path:
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes({".gz": gzip.compress, ".zst": compress_zstd}.get(path.suffix, bytes)(data))
    return path


def lines(side: int, pairs: list[Pair] = PAIRS) -> str:
    return "".join(pair[side] + "\n" for pair in pairs)


def as_prefix(folder: Path, zipped: str, pairs: list[Pair] = PAIRS) -> str:
    for side, language in enumerate(("en", "de")):
        write(folder / f"text.{language}{zipped}", lines(side, pairs))
    return str(folder / "text")


def as_two_files(folder: Path, zipped: str) -> str:
    sides = [write(folder / f"{name}.txt{zipped}", lines(side)) for side, name in enumerate(("source", "target"))]
    return ",".join(map(str, sides))


def as_tsv(folder: Path, zipped: str) -> str:
    return str(write(folder / f"text.tsv{zipped}", "".join(f"{s}\t{t}\n" for s, t in PAIRS)))


def as_jsonl(folder: Path, zipped: str) -> str:
    rows = (json.dumps({"id": 7, "translation": {"de": t, "en": s}}, ensure_ascii=False) for s, t in PAIRS)
    rows = chain(islice(rows, 3), (json.dumps({"de": t, "id": 7, "en": s}) for s, t in PAIRS[3:]))
    return str(write(folder / f"text.jsonl{zipped}", "".join(row + "\n" for row in rows)))


def read(text: str | Path) -> list[Pair]:
    return list(read_pairs([str(text)], "en", "de"))


def complaint(text: str | Path) -> str:
    """The one sentence with which reading fails."""
    with pytest.raises(DragomanError) as error:
        read(text)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("zipped", ["", ".gz", ".zst"])
@pytest.mark.parametrize("write_text", [as_prefix, as_two_files, as_tsv, as_jsonl])
def test_every_format_gives_the_same_pairs(write_text: Callable[[Path, str], str], zipped: str, tmp_path: Path) -> None:
    text = write_text(tmp_path, zipped)
    assert read(text) == read(text.replace(zipped, "")) == PAIRS


def test_blank_lines_at_the_end_of_one_file_are_nothing(tmp_path: Path) -> None:
    source, target = as_two_files(tmp_path, "").split(",")
    with open(source, "a") as file:
        file.write("\r\n \n")
    assert read(f"{source},{target}") == PAIRS
    with open(source, "a") as file:
        file.write("more\n")
    assert "lines but" in complaint(f"{source},{target}")


def test_several_texts_follow_each_other_in_the_order_given(tmp_path: Path) -> None:
    for language, name in (("en", "news.2014.en"), ("de", "news.2014.de.gz")):
        write(tmp_path / name, f"{language}\n")
    texts = [str(tmp_path / "news.2014"), as_prefix(tmp_path, ""), str(tmp_path / "news.2014")]
    assert list(read_pairs(texts, "en", "de")) == [("en", "de"), *PAIRS, ("en", "de")]
    assert list(read_pairs(texts, "de", "en"))[:2] == [("de", "en"), PAIRS[0][::-1]]


def test_a_pattern_is_all_that_it_matches_in_order(tmp_path: Path) -> None:
    for number, ending in ((10, ".gz"), (2, ""), (1, ".zst")):
        for language in ("en", "de"):
            write(tmp_path / f"part-{number:02}.{language}{ending}", f"{language} {number}\n")
    write(tmp_path / "part-03.tsv", "table\tTabelle\n")
    expected = [(f"en {number}", f"de {number}") for number in (1, 2, 10)]
    assert read(tmp_path / "part-*") == expected
    assert read(tmp_path / "part-?0") == expected[2:]
    assert read(tmp_path / "part-*.tsv") == [("table", "Tabelle")]
    assert complaint(tmp_path / "x*") == f"{tmp_path / 'x*'}: no file matches this pattern"
    write(tmp_path / "part-04.en", "alone\n")
    assert "part-04.de: no such file" in complaint(tmp_path / "part-*")


def test_windows_line_ends_and_the_byte_order_mark_are_dropped(tmp_path: Path) -> None:
    path = write(tmp_path / "text.txt", b"\xef\xbb\xbfone\r\n\r\ntwo\rparts\r\n\xef\xbb\xbfmark\r\n")
    assert list(read_lines(path)) == ["one", "", "two\rparts", "\ufeffmark"]
    assert list(read_lines(write(tmp_path / "unended", "one\ntwo"))) == ["one", "two"]


def test_line_breaks_inside_json_strings_become_spaces(tmp_path: Path) -> None:
    path = write(tmp_path / "text.jsonl", json.dumps({"translation": {"en": "a\nb", "de": "c\nd"}}) + "\n")
    assert read(path) == [("a b", "c d")]


# ---- what is wrong


def test_missing_files_are_named(tmp_path: Path) -> None:
    write(tmp_path / "half.en", "a\n")
    assert str(tmp_path / "nothing.en") in complaint(tmp_path / "nothing")
    assert str(tmp_path / "half.de") in complaint(tmp_path / "half")
    assert str(tmp_path / "other") in complaint(f"{tmp_path / 'half.en'},{tmp_path / 'other'}")
    assert str(tmp_path) in complaint(tmp_path)


@pytest.mark.parametrize(
    "bad",
    [
        '{"en": "half a surrogate pair: \\ud800", "de": "c"}',
        '{"translation": {"en": "a", "de": "b"',
        '{"translation": ["a", "b"]}',
        '{"translation": {"fr": "c"}, "en": "a", "de": "b"}',
        "[" * 100_000,
    ],
)
def test_a_bad_json_line_is_named_with_the_form_it_should_have(bad: str, tmp_path: Path) -> None:
    good = '{"translation": {"en": "a", "de": "b"}}'
    message = complaint(write(tmp_path / "text.jsonl", f"{good}\n{bad}\n{good}\n"))
    assert f"{tmp_path / 'text.jsonl'}, line 2:" in message
    assert '{"en": "…", "de": "…"} or {"translation": {"en": "…", "de": "…"}}' in message


@pytest.mark.parametrize("ending", [".gz", ".zst"])
@pytest.mark.parametrize(("kept", "said"), [(1000, "damaged compressed file"), (0, "rename it without .")])
def test_a_damaged_compressed_file_is_named(kept: int, said: str, ending: str, tmp_path: Path) -> None:
    noise = random.Random(3)
    content = "".join(f"{noise.random()}\t{noise.random()}\n" for _ in range(300)).encode()
    path = write(tmp_path / f"text.tsv{ending}", content)
    path.write_bytes(path.read_bytes()[:kept] or content)
    message = complaint(path)
    assert str(path) in message
    assert said in message


# ---- sides of different length


def realistic_pairs(count: int, seed: int = 5) -> list[Pair]:
    """Sentences of varied length, with translations about as long."""
    generator = np.random.default_rng(seed)
    lengths = generator.lognormal(4.2, 0.6, count)
    translated = lengths * generator.normal(1.15, 0.15, count).clip(0.5, 2)
    return [("x" * max(1, int(s)), "y" * max(1, int(t))) for s, t in zip(lengths, translated, strict=True)]


@pytest.mark.parametrize(("side", "line", "lost"), [(0, 5, 1), (1, 700, 6), (1, 1990, 1)])
def test_lost_lines_are_reported_near_their_place(side: int, line: int, lost: int, tmp_path: Path) -> None:
    text = as_prefix(tmp_path, "", realistic_pairs(2000))
    path = tmp_path / f"text.{('en', 'de')[side]}"
    kept = path.read_text().split("\n")
    del kept[line - 1 : line - 1 + lost]
    path.write_text("\n".join(kept))
    message = complaint(text)
    found = re.search(r"near line ([\d,]+)", message)
    assert found
    assert abs(int(found[1].replace(",", "")) - line) <= 4
    assert "2,000" in message
    assert f"{2000 - lost:,}" in message


# ---- memory and order


@pytest.mark.parametrize("zipped", ["", ".gz"])
def test_reading_takes_constant_memory(zipped: str, tmp_path: Path) -> None:
    text = as_prefix(tmp_path, zipped, [(f"a sentence, number {i}", f"ein Satz, Nummer {i}") for i in range(40_000)])
    tracemalloc.start()
    try:
        count = sum(1 for _ in read_pairs([text], "en", "de"))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count == 40_000
    assert peak < 0.5e6  # one side alone is over 0.8 MB


# ---- holding out


def test_the_held_out_share_is_about_what_was_asked_for() -> None:
    for share in (0.0, 0.02, 0.1, 0.5, 1.0):
        held = sum(holds_out(f"sentence {i}", share) for i in range(20_000)) / 20_000
        assert held == pytest.approx(share, rel=0.1)


def test_what_is_held_out_is_the_same_in_every_process_and_version() -> None:
    assert [i for i in range(60) if holds_out(f"s {i}", 0.1)] == [25, 27, 35, 43, 44, 55]


# ---- reading on past problems


def collect(text: str | Path) -> tuple[list[Pair], list[Problem]]:
    problems: list[Problem] = []
    return list(locate(str(text), "en", "de").read(problems.append)), problems


def test_bytes_that_are_not_utf8_empty_their_pair(tmp_path: Path) -> None:
    write(tmp_path / "t.en", b"one\ntwo\xff\nthree\nfour\xc3")
    write(tmp_path / "t.de", b"\xef\xbb\xbfeins\r\nzwei\r\ndrei\nvier\r\n")
    pairs, problems = collect(tmp_path / "t")
    assert pairs == [("one", "eins"), ("", ""), ("three", "drei"), ("", "")]
    assert [(p.kind, p.remark) for p in problems] == [("not UTF-8", "byte 4 is 0xFF"), ("not UTF-8", "byte 5 is 0xC3")]
    assert [f"{tmp_path / 't.en'}, line {line}" in p.message for p, line in zip(problems, (2, 4), strict=True)]


def test_rows_that_are_not_pairs_become_empty_pairs(tmp_path: Path) -> None:
    rows = [b"a\tb", b"c\td", b"no tab", b"e\tf\tg", b"\xff\tx", b"h\ti"]
    pairs, problems = collect(write(tmp_path / "t.tsv", b"\n".join(rows)))
    assert pairs == [("a", "b"), ("c", "d"), ("", ""), ("e", "f"), ("", ""), ("h", "i")]
    assert sorted((p.line, p.kind, p.remark, p.text) for p in problems) == [
        (3, "row without a tab", "", "no tab"),
        (4, "unusual number of columns", "3 columns instead of 2", ""),
        (5, "not UTF-8", "byte 1 is 0xFF", ""),
    ]


def test_files_of_different_length_are_read_to_the_end_of_the_shorter(tmp_path: Path) -> None:
    for language, count in (("en", 5), ("de", 9)):
        write(tmp_path / f"t.{language}", "".join(f"{n}\n" for n in range(count)))
    pairs, (problem,) = collect(tmp_path / "t")
    assert len(pairs) == 5
    assert (problem.kind, problem.lines) == ("line counts differ", 4)
    assert "en has 5 lines but" in problem.remark


@settings(max_examples=100, deadline=None)
@given(
    st.one_of(st.binary(max_size=60), st.text(st.sampled_from('ab é\r\n\t\ufeff\0"'), max_size=60).map(str.encode)),
    st.one_of(st.binary(max_size=60), st.text(st.sampled_from('ab é\r\n\t\ufeff\0"'), max_size=60).map(str.encode)),
    st.sampled_from([("t.en", "t.de", "t"), ("t.tsv", "", "t.tsv"), ("t.jsonl", "", "t.jsonl")]),
)
def test_strict_reading_stops_at_the_first_damage_that_collecting_reports(
    one: bytes, two: bytes, names: tuple[str, str, str]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name, data in zip(filter(None, names[:2]), (one, two), strict=False):
            write(Path(folder) / name, data)
        text = Path(folder) / names[2]
        strict: list[Pair] = []
        message = ""
        try:
            for pair in read_pairs([str(text)], "en", "de"):
                strict.append(pair)
        except DragomanError as error:
            message = str(error)
        try:
            pairs, problems = collect(text)
        except DragomanError:
            assert message
            return
        damage = [problem for problem in problems if problem.message]
        assert message == (damage[0].message if damage else "")
        assert strict == pairs[: len(strict)]
        assert damage or strict == pairs


def test_lines_come_as_soon_as_they_are_written() -> None:
    readable, writable = os.pipe()
    with os.fdopen(readable, "rb") as incoming, os.fdopen(writable, "wb", buffering=0) as outgoing:
        found = decode_lines(incoming, "stdin")
        for line in ("one", "two"):
            outgoing.write(f"{line}\n".encode())
            assert next(found) == line


# ---- what a spreadsheet writes


@pytest.mark.parametrize(("quoted", "reported"), [(10, 0), (11, 11), (20, 20)])
def test_rows_with_every_cell_in_quotes_are_reported_if_most_are(quoted: int, reported: int, tmp_path: Path) -> None:
    rows = [(f"sentence {n}", f"Satz {n}") for n in range(20)]
    with (tmp_path / "t.tsv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, "excel-tab", lineterminator="\n", quoting=csv.QUOTE_ALL).writerows(rows[:quoted])
        csv.writer(file, "excel-tab", lineterminator="\n").writerows(rows[quoted:])
    _, problems = collect(tmp_path / "t.tsv")
    assert [p.line for p in problems] == [*range(1, reported + 1)]


def test_doubled_quotes_are_recognised(tmp_path: Path) -> None:
    rows = ["a\tb", '"He said ""no"""\tc', 'd\t"""Why?"" ""Go!"""']
    _, problems = collect(write(tmp_path / "t.tsv", "\n".join(rows)))
    assert [(p.kind, p.line) for p in problems] == [("spreadsheet quoting", 2), ("spreadsheet quoting", 3)]


@pytest.mark.parametrize(
    "row",
    [
        '"Hello," she said.\t"Bonjour", dit-elle.',
        '"Why?" "To go."\t"Pourquoi ?""Pour aller."',
        '""Hello""\t""Bonjour""',
        'a 5"" pipe\tx',
    ],
)
def test_sentences_with_quotes_are_not_taken_for_a_spreadsheet(row: str, tmp_path: Path) -> None:
    assert collect(write(tmp_path / "t.tsv", f"a\tb\n{row}\n"))[1] == []


# ---- whole files in another form


@pytest.mark.parametrize("data", [b"PK\x03\x04\x14\0\n\xff\xfe", gzip.compress(b"a\tb\n", mtime=0), b"%PDF-1.7\n"])
def test_a_file_of_another_kind_is_refused_in_both_modes(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(data)
    assert "compressed or a document;" in complaint(path)
    with pytest.raises(DragomanError):
        collect(path)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_is_named(encoding: str, tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_bytes("\ufeffOù est la gare ?\tWo ist der Bahnhof?\n".encode(encoding))
    assert "t.tsv: UTF-16; convert" in complaint(tmp_path / "t.tsv")


@pytest.mark.parametrize(("columns", "refused"), [("n a n b", True), ("a b n", False), ("n a", False)])
def test_numbers_in_place_of_a_sentence_are_refused(columns: str, refused: bool, tmp_path: Path) -> None:
    rows = ["\t".join(str(1000 + n) if c == "n" else f"{c} sentence" for c in columns.split()) for n in range(50)]
    for table in (rows, [columns.replace(" ", "\t"), *rows]):
        path = write(tmp_path / "t.tsv", "\n".join(table))
        if refused:
            assert "the first column holds numbers only" in complaint(path)
        else:
            assert len(read(path)) == len(table)
    assert len(read(write(tmp_path / "few.tsv", "\n".join(rows[:10])))) == 10
