"""Reading parallel text in UTF-8: two files, TSV or JSONL, each also compressed (.gz, .zst).

A line ends at "\\n" and nowhere else: U+2028 or U+0085 would put the two sides out of step.
"""

import codecs
import glob
import gzip
import hashlib
import io
import json
import re
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from dragoman.config import DragomanError
from dragoman.runtime.optional_imports import import_optional
from dragoman.text.languages import directions, target_tag

Pair = tuple[str, str]
"""A source sentence and its translation."""

# What stands for a line beyond the end of a file, and for one that is not UTF-8: no line contains a line feed.
_NO_LINE, _NOT_UTF8 = "\n", "\n\n"
_COMPRESSED = (".gz", ".zst")
_FIRST_ROWS = 100  # rows of a table that show what its columns hold
_NOT_TEXT = (b"PK\x03\x04", b"\x1f\x8b", b"BZh91AY", b"\xfd7zXZ", b"(\xb5/\xfd", b"%PDF-")
"""How archives (and office documents, which are some), compressed files and PDFs begin."""


class Problem(NamedTuple):
    """Something wrong with a line of a corpus."""

    kind: str
    """The name that the corpus check has for it."""
    file: str
    line: int
    """From 1. Where two files differ in length: where they go apart, judging by the lengths of sentences."""
    message: str = ""
    """The sentence with which strict reading stops; empty if it passes over this."""
    remark: str = ""
    """What exactly is wrong, to stand beside the place."""
    text: str = ""
    """The row as it stands in the file, if no pair could be made of it."""
    lines: int = 1
    """Lines concerned; of two files that differ in length, those that the longer one has beyond the shorter."""


OnProblem = Callable[[Problem], None]


def refuse(problem: Problem) -> None:
    """Stop at a problem, which is what strict reading does, unless it is only a note."""
    if problem.message:
        raise DragomanError(problem.message)


@dataclass(frozen=True)
class Corpus:
    """One parallel text: two line-by-line files, or one TSV or JSONL file."""

    paths: tuple[Path, ...]
    languages: tuple[str, str]
    tag: str = ""
    """What read_pairs puts before each source."""

    def read(self, on_problem: OnProblem = refuse) -> Iterator[Pair]:
        """Yield the pairs in order, in constant memory.

        Strict reading stops at the first problem. With another on_problem it goes on: a pair that can't be read is
        ("", ""), so that the n-th pair is always line n, and the longer of two files is cut to the length of the other.
        A file that is missing, damaged, or in another form is a DragomanError in any case.
        """
        if len(self.paths) == 2:
            return self._read_two_files(on_problem)
        is_jsonl = _plain(self.paths[0].name).endswith((".jsonl", ".json"))
        return self._read_jsonl(on_problem) if is_jsonl else self._read_tsv(on_problem)

    def tagged(self) -> Iterator[Pair]:
        """Yield the pairs with the tag before each source that is not empty; stops at the first problem."""
        for source, target in self.read():
            yield f"{self.tag}{source}" if source.strip() else source, target

    def _read_two_files(self, on_problem: OnProblem) -> Iterator[Pair]:
        sides = (read_lines(path, on_problem) for path in self.paths)
        for source, target in zip_longest(*sides, fillvalue=_NO_LINE):
            if _NO_LINE in (source, target) and not f"{source}{target}".strip():
                continue  # blank lines at the end of one file
            if _NO_LINE in (source, target):
                on_problem(_compare_lengths(self.paths[0], self.paths[1]))
                return
            yield ("", "") if _NOT_UTF8 in (source, target) else (source, target)

    def _read_tsv(self, on_problem: OnProblem) -> Iterator[Pair]:
        (path,) = self.paths
        lines = read_lines(path, on_problem)
        first = list(islice(lines, _FIRST_ROWS))
        rows = [line.split("\t") for line in first if line != _NOT_UTF8]
        usual = max(2, Counter(map(len, rows)).most_common(1)[0][0]) if rows else 2
        numbers = sum(row[0].strip().isdecimal() for row in rows)
        if usual > 2 and len(rows) >= 20 and numbers >= 0.95 * len(rows):  # one line of headings, perhaps
            raise DragomanError(f"{path}: the first column holds numbers only; keep the texts (cut -f 2,{usual})")
        all_quoted = 2 * sum(bool(_ENCLOSED_ROW.fullmatch(line)) for line in first) > len(first)
        for number, line in enumerate(chain(first, lines), start=1):
            if line == _NOT_UTF8:
                yield "", ""
                continue
            if (all_quoted and _ENCLOSED_ROW.fullmatch(line)) or ('""' in line and _DOUBLED_QUOTES.search(line)):
                on_problem(Problem("spreadsheet quoting", str(path), number))
            columns = line.split("\t")
            if len(columns) < 2:
                form = "the source, a tab and the target (for two files, give a prefix or SOURCE_FILE,TARGET_FILE)"
                message = f"{path}, line {number}: no tab; each line of a TSV is {form}"
                on_problem(Problem("row without a tab", str(path), number, message, text=line))
                yield "", ""
                continue
            if len(columns) != usual:
                remark = f"{len(columns)} columns instead of {usual}"
                on_problem(Problem("unusual number of columns", str(path), number, remark=remark))
            yield columns[0], columns[1]

    def _read_jsonl(self, on_problem: OnProblem) -> Iterator[Pair]:
        (path,) = self.paths
        for number, line in enumerate(read_lines(path, on_problem), start=1):
            pair = _parse_json_row(line, self.languages) if line != _NOT_UTF8 else ("", "")
            if pair is None:
                message = f"{path}, line {number}: {json_form(self.languages)}"
                on_problem(Problem("unreadable JSON", str(path), number, message, text=line))
            yield pair or ("", "")


def locate(text: str, source: str, target: str) -> Corpus:
    """Find the files that a --train, --valid or --test argument means, also if they are compressed.

    The text is a prefix (for PREFIX.source and PREFIX.target), "SOURCE_FILE,TARGET_FILE", or a TSV or JSONL file.
    """
    prefix, (first, comma, second) = [f"{text}.{source}", f"{text}.{target}"], text.partition(",")
    for names in (prefix, [text], [first, second] if comma else prefix):
        found = tuple(path for name in names if (path := _existing(Path(name))))
        if len(found) == len(names):
            return Corpus(found, (source, target))
    missing = [name for name in names if not _existing(Path(name))]
    raise DragomanError(
        f"{' and '.join(missing)}: no such file (nor with {' or '.join(_COMPRESSED)}), nor one named {text}"
    )


def locate_all(texts: Iterable[str], source: str, target: str) -> list[Corpus]:
    """Find the files of several texts, one text after the other; arguments and errors as for locate.

    A text may be a pattern such as "parts/*.tsv.gz" or, for prefixes, "parts/part-*": then it is all files that match,
    in alphabetical order. source and target may be lists of codes such as "en,de". Then a text is a prefix, and has
    each direction whose two files are there, one after the other.
    """
    pairs = directions(source, target)
    found = []
    for text in texts:
        names = _matching(text, {language for pair in pairs for language in pair})
        if len(pairs) == 1:
            found += [locate(name, *pairs[0]) for name in names]
            continue
        own = [locate(n, *pair) for pair in pairs for n in names if all(_existing(Path(f"{n}.{one}")) for one in pair)]
        if not own:
            files = " and ".join(f"{text}.{language}" for language in pairs[0])
            raise DragomanError(f"{text}: no direction has both its files, such as {files}")
        found += [replace(one, tag=target_tag(one.languages[1]) * ("," in target)) for one in own]
    return found


def _existing(path: Path) -> Path | None:
    """This file, or a compressed one."""
    return next((one for one in (path, *(Path(f"{path}{end}") for end in _COMPRESSED)) if one.is_file()), None)


def _plain(name: str) -> str:
    """The name of a file without what says that it is compressed."""
    return name.removesuffix(".gz").removesuffix(".zst")


def _matching(text: str, languages: Collection[str]) -> list[str]:
    """The prefixes, or else the files, that a pattern matches; the text itself if it is none."""
    if not {*"*?"}.intersection(text):
        return [text]
    pattern = text.replace("[", "[[]")  # only * and ? make a pattern
    files = {language: map(_plain, glob.glob(f"{pattern}.{language}*")) for language in languages}
    found = {name.removesuffix(f".{one}") for one, names in files.items() for name in names if name.endswith(f".{one}")}
    found = found or {name for name in glob.glob(pattern) if Path(name).is_file()}
    if not found:
        raise DragomanError(f"{text}: no file matches this pattern")
    return sorted(found)


def read_pairs(texts: Iterable[str], source: str, target: str) -> Iterator[Pair]:
    """Yield the pairs of several parallel texts, one after the other; arguments and errors as for locate_all.

    Where there are several targets, each source begins with the tag of its own, such as ">>de<<".
    """
    for corpus in locate_all(texts, source, target):
        yield from corpus.tagged()


def holds_out(source: str, share: float) -> bool:
    """Whether a pair with this source sentence belongs to the held-out share (0 to 1).

    A hash of the sentence decides, so that all translations of one sentence fall on the same side.
    """
    digest = hashlib.blake2b(source.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") < share * 2**64


# ---- lines


def read_lines(path: Path, on_problem: OnProblem = refuse) -> Iterator[str]:
    """Yield the lines of a UTF-8 file, without their ends; compressed if the name ends in .gz or .zst."""
    broken: tuple[type[Exception], ...] = (gzip.BadGzipFile, EOFError, zlib.error)
    try:
        if path.suffix == ".zst":
            zstd = import_optional("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd", "zstd")
            broken = (*broken, zstd.ZstdError)
            file: BinaryIO = io.BufferedReader(zstd.open(path))  # the libraries give lines slowly by themselves
        else:
            file = io.BufferedReader(gzip.open(path)) if path.suffix == ".gz" else path.open("rb")  # noqa: SIM115
        with file:
            yield from decode_lines(file, str(path), on_problem)
    except broken as error:
        cure = f"get the file again, or rename it without {path.suffix} if it is not compressed"
        raise DragomanError(f"{path}: damaged compressed file ({error}); {cure}") from None
    except OSError as error:
        raise DragomanError(f"{path}: {error.strerror or error}") from None


def decode_lines(file: Iterable[bytes], name: str, on_problem: OnProblem = refuse) -> Iterator[str]:
    """Yield the lines of an open binary file, without their ends, each as soon as it is there; name is for messages."""
    for number, raw in enumerate(file, start=1):
        if number == 1:
            if raw.startswith(_NOT_TEXT):
                raise DragomanError(f"{name}: compressed or a document; unpack it, or save it as plain text in UTF-8")
            if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                raise DragomanError(f"{name}: UTF-16; convert the file, for example with iconv -f utf-16 -t utf-8")
            raw = raw.removeprefix(codecs.BOM_UTF8)
        try:
            yield raw.decode().rstrip("\r\n")
        except UnicodeDecodeError as error:
            # Windows-1252 has all the letters of Latin-1, and quotation marks and dashes where Latin-1 has none.
            cure = "convert the file, for example with iconv -f cp1252 -t utf-8"
            message = f"{name}, line {number}, byte {error.start + 1}: not UTF-8 ({error.reason}); {cure}"
            remark = f"byte {error.start + 1} is 0x{raw[error.start]:02X}"
            on_problem(Problem("not UTF-8", name, number, message, remark))
            yield _NOT_UTF8


# ---- two files of different length


def _compare_lengths(source: Path, target: Path) -> Problem:
    lengths = [
        np.array([len(line.rstrip("\n")) for line in read_lines(path, lambda problem: None)], dtype=np.float64)
        for path in (source, target)
    ]
    line, counts = _find_divergence(*lengths), [side.size for side in lengths]
    place = f"judging by sentence lengths they go apart near line {line:,}"
    remark = f"{source} has {counts[0]:,} lines but {target} has {counts[1]:,}; {place}"
    message = f"{remark}: align them and try again"
    return Problem("line counts differ", str(source), line, message, remark, lines=abs(counts[0] - counts[1]))


def _find_divergence(source_lengths: np.ndarray, target_lengths: np.ndarray) -> int:
    """The line (from 1) where the longer side most likely begins to have extra lines, by characters per line.

    Assumes that all the extra lines stand together, and finds the place for them that makes the lengths of the
    remaining pairs most alike.
    """
    shorter, longer = sorted((np.log1p(source_lengths), np.log1p(target_lengths)), key=len)
    extra = longer.size - shorter.size
    typical = np.median(longer[: shorter.size] - shorter) if shorter.size else 0.0
    before = np.abs(longer[: shorter.size] - shorter - typical)
    after = np.abs(longer[extra:] - shorter - typical)
    # How much better it is to pair up the first 0, 1, … lines after skipping the extra lines than as they stand.
    return int(np.cumsum([0.0, *(before - after)]).argmin()) + 1


# ---- rows of tables and JSON


def json_form(languages: tuple[str, str]) -> str:
    """How a line of JSONL must look."""
    row = ", ".join(f'"{language}": "…"' for language in languages)
    return f'each line must look like {{{row}}} or {{"translation": {{{row}}}}}'


def _parse_json_row(line: str, languages: tuple[str, str]) -> Pair | None:
    """The pair in a line such as {"en": "…", "de": "…"} or {"translation": {"en": "…", "de": "…"}}, or None.

    A line break inside a sentence becomes a space: it would be two lines everywhere else.
    """
    try:
        row = json.loads(line)
        row = row.get("translation", row)
        source, target = (row[language].replace("\n", " ") for language in languages)
        (source + target).encode()  # JSON can spell half a surrogate pair
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return source, target


# A cell in quotes, and in it pairs of doubled ones: what two people say may be "Where to?""Home.".
_DOUBLED_QUOTES = re.compile(r'(?:^|\t)"[^"\t]*(?:""[^"\t]*""[^"\t]*)+"(?=\t|$)')
_ENCLOSED_ROW = re.compile(r'"[^\t]*"(?:\t"[^\t]*")*')
