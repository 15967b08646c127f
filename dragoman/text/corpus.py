"""Reading parallel text: prefix pairs, two files, TSV and JSONL, each also gzipped.

Lines end at "\\n" and nowhere else (not at U+2028 or U+0085, which would put the two sides out of step); a "\\r"
before it and a byte-order mark are dropped. Text must be UTF-8; forms.py says of a file what it is instead.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO

import numpy as np

from dragoman.config import DragomanError
from dragoman.text.forms import FIRST_ROWS, explain_missing_tab, require_table, require_text

Pair = tuple[str, str]
"""A source sentence and its translation."""

EMPTY_LINE = "an empty line"
"""What is told of a line of JSONL that shows nothing."""

_BOM = "\ufeff"


@dataclass(frozen=True)
class Corpus:
    """Where one parallel text lies: two line-by-line files, or one TSV or JSONL file."""

    paths: tuple[Path, ...]
    languages: tuple[str, str]

    def read(self) -> Iterator[Pair]:
        """Yield the pairs one by one, in order, in constant memory.

        Raises:
            DragomanError: a file is missing, damaged, not UTF-8, or its two sides differ in length; FormError where a
                whole file is in another form.
        """
        if len(self.paths) == 2:
            return self._read_two()
        return self._read_jsonl() if self.is_jsonl else self._read_tsv()

    @property
    def is_jsonl(self) -> bool:
        """Whether the text is one JSONL file."""
        return len(self.paths) == 1 and _suffix(self.paths[0]) in (".jsonl", ".json")

    def _read_two(self) -> Iterator[Pair]:
        source_path, target_path = self.paths
        with closing(read_lines(source_path)) as source_lines, closing(read_lines(target_path)) as target_lines:
            while True:
                source, target = next(source_lines, None), next(target_lines, None)
                if source is None and target is None:
                    return
                if source is None or target is None:
                    raise DragomanError(_describe_mismatch(source_path, target_path))
                yield source, target

    def _read_tsv(self) -> Iterator[Pair]:
        (path,) = self.paths
        lines = read_lines(path)
        first = list(islice(lines, FIRST_ROWS))
        require_table(path, first, self.languages)
        for number, line in enumerate(chain(first, lines), start=1):
            columns = line.split("\t")
            if len(columns) < 2:
                raise DragomanError(f"{path}, line {number}: {explain_missing_tab(line)}")
            yield columns[0], columns[1]

    def _read_jsonl(self) -> Iterator[Pair]:
        (path,) = self.paths
        for number, line in enumerate(read_lines(path), start=1):
            pair = parse_json_row(line, self.languages)
            if pair is None:
                blank = "" if line.strip() else f"{EMPTY_LINE}; remove it, as "
                raise DragomanError(f"{path}, line {number}: {blank}{json_form(self.languages)}")
            yield pair


def json_form(languages: tuple[str, str]) -> str:
    """How a line of JSONL must look."""
    row = ", ".join(f'"{language}": "…"' for language in languages)
    return f'each line must look like {{{row}}} or {{"translation": {{{row}}}}}'


def parse_json_row(line: str, languages: tuple[str, str]) -> Pair | None:
    """The pair in a line such as {"en": "…", "de": "…"} or {"translation": {"en": "…", "de": "…"}}, or None.

    A line break inside a sentence becomes a space: it would be two lines everywhere else.
    """
    try:
        row = json.loads(line)
        inner = row.get("translation")
        translation = inner if isinstance(inner, dict) else row
        source, target = translation[languages[0]], translation[languages[1]]
        if not (isinstance(source, str) and isinstance(target, str)):
            return None
        (source + target).encode()  # JSON can spell half a character
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return source.replace("\n", " "), target.replace("\n", " ")


def locate(text: str, source: str, target: str) -> Corpus:
    """Find the files that a --train, --valid or --test argument means.

    Args:
        text: a prefix (for PREFIX.source and PREFIX.target), "SOURCE_FILE,TARGET_FILE", or a TSV or JSONL file;
            files may be gzipped.
        source: the source language code.
        target: the target language code.

    Raises:
        DragomanError: no such files, or one file for both sides.
    """
    languages = (source, target)
    sides = [_existing(Path(f"{text}.{language}")) for language in languages]
    if sides[0] and sides[1]:
        return _two_sides(sides[0], sides[1], languages)
    if Path(text).is_file():
        return Corpus((Path(text),), languages)
    first, comma, second = text.partition(",")
    if comma:
        for path in (Path(first), Path(second)):
            if not path.is_file():
                raise DragomanError(f"{path}: no such file")
        return _two_sides(Path(first), Path(second), languages)
    if sides[0] or sides[1]:
        missing = f"{text}.{target if sides[0] else source}"
        raise DragomanError(f"{missing}: no such file (nor {missing}.gz), although its other side exists")
    if Path(text).is_dir():
        raise DragomanError(f"{text}: a folder; name the text in it, such as {Path(text, 'train')}")
    raise DragomanError(f"{text}: no such file, nor {text}.{source} with {text}.{target} (also looked for .gz)")


def _two_sides(source: Path, target: Path, languages: tuple[str, str]) -> Corpus:
    if source.samefile(target):
        raise DragomanError(f"{source}: the same file for source and target; name one file for each")
    return Corpus((source, target), languages)


def read_pairs(texts: Iterable[str], source: str, target: str) -> Iterator[Pair]:
    """Yield the pairs of several parallel texts, one after the other; arguments and errors as for locate."""
    for corpus in [locate(text, source, target) for text in texts]:
        yield from corpus.read()


def read_lines(path: Path) -> Generator[str]:
    """Yield the lines of a UTF-8 file, without their ends; gzipped where the name ends in .gz.

    Raises:
        DragomanError: the file can't be read, its gzip is damaged, or a line is not UTF-8; FormError where the file
            is no text.
    """
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            yield from decode_lines(file, str(path))  # type: ignore[arg-type]
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise damaged_gzip(path, error) from None
    except OSError as error:
        raise DragomanError(f"{path}: {error.strerror or error}") from None


def damaged_gzip(path: Path, error: Exception) -> DragomanError:
    """The error that says what is the matter with a file that can't be unzipped, and what helps."""
    with path.open("rb") as file:
        if file.read(2) != b"\x1f\x8b":
            return DragomanError(f"{path}: not a gzip file; rename it without .gz, or get it again")
    return DragomanError(f"{path}: damaged gzip file ({error}); get the file again")


def decode_lines(file: BinaryIO, name: str) -> Iterator[str]:
    """Yield the lines of an open binary file as text, without their ends; name is for the error message.

    Raises:
        DragomanError: a line is not UTF-8; FormError where the file is no text.
    """
    for number, raw in enumerate(file, start=1):
        if number == 1:
            require_text(raw, name)
        try:
            line = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            # Windows-1252 has all the letters of Latin-1, and quotation marks and dashes where that has none.
            raise DragomanError(
                f"{name}, line {number}, byte {error.start + 1}: not UTF-8 ({error.reason}); "
                f"convert the file, for example with iconv -f cp1252 -t utf-8"
            ) from None
        line = line.rstrip("\r\n")
        yield line.removeprefix(_BOM) if number == 1 else line


def holds_out(source: str, share: float) -> bool:
    """Whether a pair with this source sentence belongs to the held-out share (0 to 1).

    Decided by a hash of the sentence, so that all translations of one sentence fall on the same side.
    """
    digest = hashlib.blake2b(source.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") < share * 2**64


def _suffix(path: Path) -> str:
    return Path(path.stem).suffix if path.suffix == ".gz" else path.suffix


def _existing(path: Path) -> Path | None:
    return next((p for p in (path, path.with_name(path.name + ".gz")) if p.is_file()), None)


def _describe_mismatch(source_path: Path, target_path: Path) -> str:
    source_lengths, target_lengths = (
        np.array([len(line) for line in read_lines(path)], dtype=np.float64) for path in (source_path, target_path)
    )
    counts = f"{source_path} has {source_lengths.size:,} lines but {target_path} has {target_lengths.size:,}"
    line = find_divergence(source_lengths, target_lengths)
    return f"{counts}; judging by sentence lengths they go apart near line {line:,}: align them and try again"


def find_divergence(source_lengths: np.ndarray, target_lengths: np.ndarray) -> int:
    """The line (from 1) where the longer side most likely begins to have extra lines.

    Supposes that all the extra lines stand together, and finds the place for them that makes the lengths of the
    remaining pairs most alike.

    Args:
        source_lengths: characters per line, (n,).
        target_lengths: characters per line, (m,) with m != n.
    """
    shorter, longer = sorted((np.log1p(source_lengths), np.log1p(target_lengths)), key=len)
    extra = longer.size - shorter.size
    typical = np.median(longer[: shorter.size] - shorter) if shorter.size else 0.0
    before = np.abs(longer[: shorter.size] - shorter - typical)
    after = np.abs(longer[extra:] - shorter - typical)
    # cost[k]: the first k lines pair up as they stand, the others after skipping the extra lines
    cost = np.concatenate(([0.0], before.cumsum())) + np.concatenate((after[::-1].cumsum()[::-1], [0.0]))
    return int(cost.argmin()) + 1
