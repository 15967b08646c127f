"""What a file is that is no parallel text, and what helps: one sentence, judged by what is in the file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from dragoman.config import DragomanError

FIRST_ROWS = 100
"""Rows of a table that show what its columns hold."""

_FIRST_BYTES = 1000
_OFFICE = {
    **dict.fromkeys((".xlsx", ".xlsm", ".ods"), "a spreadsheet; save it as tab-separated text in UTF-8 first"),
    **dict.fromkeys((".docx", ".odt"), "a word processor's document; save it as plain text in UTF-8 first"),
}
_UNPACK = "unpack it first and name the files in it"
_BINARY = {
    b"PK\x03\x04": f"a zip archive; {_UNPACK}",
    b"\x1f\x8b\x08": "compressed with gzip, although its name does not say so; unpack it first",
    b"BZh[1-9]1AY&SY": "compressed with bzip2; unpack it first",
    b"\xfd7zXZ\x00": "compressed with xz; unpack it first",
    b"\\(\xb5/\xfd": "compressed with zstd; unpack it first",
    b"7z\xbc\xaf'\x1c": f"a 7-Zip archive; {_UNPACK}",
    b"Rar!\x1a\x07": f"a RAR archive; {_UNPACK}",
    b"%PDF-": "a PDF; save its text as a plain text file in UTF-8 first",
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": "a file of an old office program; save it as text in UTF-8 first",
}
"""Patterns of first bytes."""
_ENOUGH_ROWS = 20
_NUMBERS_ONLY = 0.95  # of the first rows, as there may be a line of headings


class FormError(DragomanError):
    """A whole file is in a form that is not read."""


class EncodingError(FormError):
    """A whole file is in another encoding than UTF-8."""


def require_text(first: bytes, name: str) -> None:
    """Refuse a file that is no text in UTF-8 at all.

    Args:
        first: its first line, or as much of it as there is.
        name: of the file, for the sentence.

    Raises:
        FormError: it is packed or belongs to another program; EncodingError where it is in UTF-16.
    """
    for pattern, what in _BINARY.items():
        if re.match(pattern, first):
            office = _OFFICE.get(Path(name).suffix.lower()) if first.startswith(b"PK") else None
            raise FormError(f"{name}: {office or what}")
    if encoding := wide_encoding(first):
        raise EncodingError(
            f"{name}: {encoding[:6].upper()}, not UTF-8; convert the file, for example with "
            f"iconv -f {encoding} -t utf-8"
        )


def wide_encoding(first: bytes) -> str:
    """What iconv calls the encoding of a file in UTF-16 or UTF-32; empty for any other.

    A byte-order mark tells, or, in a line of at least four letters, that nearly every other byte is zero.

    Args:
        first: the first line.
    """
    if first.startswith((b"\xff\xfe\x00\x00", b"\x00\x00\xfe\xff")):
        return "utf-32"
    if first.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    line = first[:_FIRST_BYTES].rstrip(b"\n")
    even, odd = line[0::2], line[1::2]
    for zeros, others, encoding in ((odd, even, "utf-16le"), (even, odd, "utf-16be")):
        if zeros.count(0) >= max(4, 0.8 * len(zeros)) and others.count(0) <= 0.1 * len(others):
            return encoding
    return ""


def require_table(path: Path, rows: Sequence[str], languages: tuple[str, str]) -> None:
    """Refuse a file that is no table of source, tab and target, where it is clear what it is instead.

    Args:
        path: the file.
        rows: its first lines; FIRST_ROWS say enough.
        languages: the language codes of source and target.

    Raises:
        FormError: it is one side of a pair of files, XML, separated by commas, or has numbers for sentences.
    """
    if not rows:
        return
    if "\t" in rows[0]:
        _require_sentences(path, rows)
        return
    name = path.name.removesuffix(".gz")
    for code, other in (languages, languages[::-1]):
        prefix = name.removesuffix(f".{code}")
        beside = (path.with_name(f"{prefix}.{other}{packed}") for packed in ("", ".gz"))
        if name != prefix and code != other and (there := next(filter(Path.is_file, beside), None)):
            raise FormError(
                f"{path}: one side of a pair of files; name their prefix instead: {path.with_name(prefix)} "
                f"(for {path.name} and {there.name})"
            )
    if name.lower().endswith(".tmx") or re.match(r"\s*<(\?xml|!DOCTYPE|tmx)\b", rows[0]):
        form = "TMX" if name.lower().endswith(".tmx") or "<tmx" in "".join(rows) else "XML"
        raise FormError(f"{path}: {form}, which is not read; convert it to tab-separated text first")
    if name.lower().endswith(".csv"):
        raise FormError(f"{path}: its values are not separated by tabs; save the table as tab-separated text first")


def _require_sentences(path: Path, rows: Sequence[str]) -> None:
    """Refuse a table whose first or second column has numbers, where two other columns have text.

    Of two columns both are left in peace: someone may well want numbers translated into words.
    """
    table = [row.split("\t") for row in rows]
    width = min(map(len, table))
    if len(table) < _ENOUGH_ROWS or width < 3:
        return
    shares = [sum(row[column].strip().isdecimal() for row in table) / len(table) for column in range(width)]
    numbers = [column for column in range(2) if shares[column] >= _NUMBERS_ONLY]
    texts = [column + 1 for column in range(width) if shares[column] < 0.5]
    if numbers and len(texts) >= 2:
        raise FormError(
            f"{path}: column {numbers[0] + 1} holds numbers only; the first two columns must be source and target: "
            f"keep the two that are, for example with cut -f {texts[0]},{texts[1]}"
        )


def explain_missing_tab(line: str) -> str:
    """What is wrong with a line of a TSV that has no tab, as the end of a sentence."""
    if is_torn(line):
        return (
            "no tab, but a lone quotation mark, as where a spreadsheet has put quotes around a cell with a line break; "
            'read the table with csv.reader(file, "excel-tab") of Python and write it without quotes and such breaks'
        )
    return (
        "no tab; each line of a TSV is the source, a tab and the target "
        "(for two files, give a prefix or SOURCE_FILE,TARGET_FILE)"
    )


def find_quoted(rows: Sequence[str], bad: Sequence[int], first: bool) -> dict[int, str]:
    """The rows of a table that a program has quoted, by number from 0, rising, each with what there is to say of it.

    Args:
        rows: some lines of the table.
        bad: those without a tab.
        first: whether they are the first ones. If most of these have every cell in quotes, so has the whole table,
            which is said of one row.
    """
    found = {number: "" for number, row in enumerate(rows) if is_quoted(row)}
    found |= {number: "a part of a cell" for number in bad if is_torn(rows[number])}
    enclosed = [number for number, row in enumerate(rows) if _is_enclosed(row)] if first else []
    if 2 * len(enclosed) > len(rows):
        found[enclosed[0]] = "every cell is in quotes, here and in most rows"
    return dict(sorted(found.items()))


def is_quoted(row: str) -> bool:
    """Whether a cell of a row has the quoting of CSV: quotes around it, and those inside doubled.

    Quotes around a cell alone don't count, as a sentence may have them, nor does what is said by two people:
    "Where to?""Home.". Inside, the doubled ones must be pairs, the first of which opens.
    """
    return '""' in row and any(map(_has_doubled_quotes, row.split("\t")))


def is_torn(row: str) -> bool:
    """Whether a row begins or ends with a quotation mark that has no other: a part of a cell with a line break."""
    return row.count('"') % 2 == 1 and (row.startswith('"') or row.endswith('"'))


def _is_enclosed(row: str) -> bool:
    return all(len(cell) > 1 and cell.startswith('"') and cell.endswith('"') for cell in row.split("\t"))


def _has_doubled_quotes(cell: str) -> bool:
    if not (cell.startswith('"') and cell.endswith('"')):
        return False
    before, *others = cell[1:-1].split('""')
    opens = not before or before[-1].isspace() or before[-1] in "([«—–-"
    return opens and len(others) % 2 == 0 and len(others) > 0 and '"' not in before + "".join(others)
