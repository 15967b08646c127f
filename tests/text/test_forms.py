"""Whole files that are no parallel text are told by what is in them, and text is never taken for one of them."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.text.forms import (
    EncodingError,
    FormError,
    explain_missing_tab,
    is_quoted,
    is_torn,
    require_table,
    require_text,
    wide_encoding,
)

CODES = ("en", "fr")


def zipped() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("all.tsv", "a\tb\n")
    return file.getvalue()


PACKED = {
    "text.zip": (zipped(), "a zip archive; unpack it first"),
    "table.xlsx": (zipped(), "a spreadsheet; save it as tab-separated text in UTF-8"),
    "table.ods": (zipped(), "a spreadsheet; save it as tab-separated text in UTF-8"),
    "letter.docx": (zipped(), "a word processor's document; save it as plain text in UTF-8"),
    "text.tsv": (gzip.compress(b"a\tb\n"), "compressed with gzip, although its name does not say so; unpack it first"),
    "text.bz2": (bz2.compress(b"a\tb\n"), "compressed with bzip2; unpack it first"),
    "text.xz": (lzma.compress(b"a\tb\n"), "compressed with xz; unpack it first"),
    "text.zst": (b"(\xb5/\xfd\x04", "compressed with zstd; unpack it first"),
    "text.pdf": (b"%PDF-1.7\n", "a PDF; save its text"),
    "table.xls": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "a file of an old office program"),
}


@pytest.mark.parametrize("name", PACKED)
def test_packed_files_and_those_of_other_programs_are_told_in_a_sentence(name: str) -> None:
    data, said = PACKED[name]
    with pytest.raises(FormError) as error:
        require_text(data, name)
    assert str(error.value).startswith(f"{name}: {said}")
    require_text(b"a\tb\n", name)  # by what is in it, not by its name


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
@pytest.mark.parametrize(
    "line", ["Where is the station?\r\n", "Où est la gare ?\tWo ist der Bahnhof?\n", "It’s a café.\n"]
)
def test_wide_encodings_are_told_with_the_name_that_iconv_has_for_them(encoding: str, line: str) -> None:
    data = line.encode(encoding)
    data = data[: data.index(b"\n") + 1]  # as a reader of bytes sees the first line
    name = wide_encoding(data)
    assert (line * 3).encode(encoding).decode(name) == line * 3
    with pytest.raises(EncodingError, match=f"^t: UTF-(16|32), not UTF-8; .* iconv -f {name} -t utf-8$"):
        require_text(data, "t")


@given(st.text(st.characters(exclude_characters="\0", codec="utf-8")))
def test_text_is_never_taken_for_anything_else(text: str) -> None:
    require_text(text.encode(), "t.zip")


@pytest.mark.parametrize("data", [b"", b"\n", b"a\0b\n", b"\0\0\0\0\0\0\0\0\n", b"PK\n", b"a \0\0\0\0 few zeros\n"])
def test_a_few_zeros_are_no_other_encoding(data: bytes) -> None:
    require_text(data, "t")


def refusal(path: Path, *rows: str, codes: tuple[str, str] = CODES) -> str:
    """What is said of a file; empty where nothing is."""
    try:
        require_table(path, rows, codes)
    except FormError as error:
        return str(error)
    return ""


def test_one_side_of_a_pair_of_files_is_led_to_their_prefix(tmp_path: Path) -> None:
    for name in ("all.en", "all.fr.gz", "lonely.en", "all.txt"):
        (tmp_path / name).write_text("A sentence.\n")
    expected = f"name their prefix instead: {tmp_path / 'all'} (for all.en and all.fr.gz)"
    assert expected in refusal(tmp_path / "all.en", "A sentence.")
    assert f"{tmp_path / 'all'} (for all.fr.gz and all.en)" in refusal(tmp_path / "all.fr.gz", "Une phrase.")
    assert refusal(tmp_path / "all.en", "A sentence.\tUne phrase.") == ""
    assert refusal(tmp_path / "lonely.en", "A sentence.") == ""
    assert refusal(tmp_path / "all.txt", "A sentence.") == ""
    assert refusal(tmp_path / "all.en", "A sentence.", codes=("en", "en")) == ""
    assert refusal(tmp_path / "all.en") == ""


def test_tables_of_other_programs_are_told_unless_they_are_tsv_all_the_same() -> None:
    assert "TMX, which is not read" in refusal(Path("a.tmx"), '<?xml version="1.0"?>', "<tmx>")
    assert "TMX, which is not read" in refusal(Path("a.xml"), '<?xml version="1.0"?>', '<tmx version="1.4">')
    assert "XML, which is not read" in refusal(Path("a.xlf"), '<?xml version="1.0"?>', "<xliff>")
    assert "not separated by tabs; save the table as tab-separated" in refusal(Path("a.CSV.gz"), "Hi,Salut")
    for name in ("a.tmx", "a.xml", "a.csv"):
        assert refusal(Path(name), "<tmx>, she said\t<tmx>, dit-elle") == ""
    assert refusal(Path("a.txt"), "Hi, there") == ""


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ("n a n b", "column 1 holds numbers only; the first two columns must be source and target"),
        ("n a n b", "cut -f 2,4"),
        ("n a b", "cut -f 2,3"),
        ("a n b", "column 2 holds numbers only"),
        ("a n b", "cut -f 1,3"),
        ("a b n", ""),
        ("n a", ""),
        ("n n n", ""),
        ("n a n", ""),
    ],
)
def test_a_column_of_numbers_beside_two_of_text_is_no_source(columns: str, said: str) -> None:
    rows = ["\t".join(str(1000 + n) if c == "n" else f"{c} sentence" for c in columns.split()) for n in range(50)]
    assert said in refusal(Path("t.tsv"), *rows)
    assert bool(refusal(Path("t.tsv"), *rows)) == bool(said)
    assert bool(refusal(Path("t.tsv"), columns.replace(" ", "\t"), *rows)) == bool(said), "a line of headings"
    assert refusal(Path("t.tsv"), *rows[:10]) == "", "too few rows to say"
    mixed = [row if n % 2 else "\t".join("x" * len(columns.split())) for n, row in enumerate(rows)]
    assert refusal(Path("t.tsv"), *mixed) == ""


cells = st.text(st.sampled_from('ab "«,.'), max_size=12)


@given(cells, cells)
def test_whatever_a_spreadsheet_writes_with_a_pair_of_quotes_is_seen(before: str, within: str) -> None:
    text = f'{before.replace(chr(34), "")} "{within.replace(chr(34), "")}"'
    file = io.StringIO()
    csv.writer(file, "excel-tab").writerow([text, "plain"])
    assert is_quoted(file.getvalue().rstrip("\r\n"))
    assert not is_quoted(f"{text}\tplain")


@pytest.mark.parametrize(
    "row",
    [
        '"Hello," she said.\t"Bonjour", dit-elle.',
        '"Hello."\t"Bonjour."',
        '"Why?" "To go."\t"Pourquoi ?""Pour aller."',
        '""Hello""\t""Bonjour""',
        '""\t""',
        "He said '' twice\tx",
        'a 5"" pipe\tx',
    ],
)
def test_sentences_with_quotes_are_not_a_spreadsheet_s(row: str) -> None:
    assert not is_quoted(row)


def test_a_part_of_a_cell_is_told_by_its_lone_quote() -> None:
    assert [is_torn(row) for row in ('"He said', 'and left."', '"He said ""yes""', '"Hello."', "plain", '5" pipe')] == [
        True, True, True, False, False, False,
    ]  # fmt: skip
    assert 'csv.reader(file, "excel-tab")' in explain_missing_tab('"He said')
    assert "each line of a TSV is the source, a tab and the target" in explain_missing_tab("plain")
