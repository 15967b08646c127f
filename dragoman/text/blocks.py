"""Reading parallel text for examination: in blocks of pairs, and on past the places where training would stop.

What can't be read keeps its place, as an empty pair that is marked unreadable, so that the number of a pair is always
the number of its line.
"""

from __future__ import annotations

import gzip
import unicodedata
import zlib
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from dragoman.config import DragomanError
from dragoman.corpus_check.issues import Example, Rows, Sighting, excerpt, visible
from dragoman.corpus_check.reasons import BAD_JSON, BOM, NO_TAB, NOT_UTF8, ODD_COLUMNS, QUOTED, WINDOWS_ENDS, Reason
from dragoman.text.corpus import EMPTY_LINE, Corpus, Pair, damaged_gzip, parse_json_row
from dragoman.text.forms import FIRST_ROWS, find_quoted, require_table, require_text

_BOM = "\ufeff"

BLOCK_PAIRS = 4096
"""Pairs that are looked at together: large enough for fast loops in C, small enough for the processor's cache."""

MOST_EXAMINED = 1 << 16
"""Characters that are looked at of one line; nobody trains on a longer one, and one of megabytes takes gigabytes."""

_CHUNK_BYTES = 1 << 20
_BLOCK_CHARACTERS = 1 << 22
_SHOWN_BEFORE = 30  # characters before a byte that is no text


@dataclass
class Lines:
    """Some consecutive lines of one file, without their ends."""

    texts: list[str]
    damaged: dict[int, str] = field(default_factory=dict)
    """Lines, from 0 within these, that are not UTF-8, and why; their text is empty."""
    windows: list[int] = field(default_factory=list)
    """Lines that ended in a carriage return."""
    marked: bool = False
    """Whether a byte-order mark was dropped from the first."""


class Side:
    """One side of a block: its lines, and their characters as numbers."""

    def __init__(self, lines: list[str]) -> None:
        """Args: lines, without a line feed in them."""
        self.lines = lines
        self.lengths: NDArray[np.intp] = np.fromiter(map(len, lines), np.intp, len(lines))
        self.sizes: NDArray[np.intp] = np.minimum(self.lengths, MOST_EXAMINED)
        whole = not len(lines) or int(self.lengths.max()) <= MOST_EXAMINED
        self.text = "\n".join(lines if whole else [line[:MOST_EXAMINED] for line in lines]) + "\n"
        self.ascii = self.text.isascii()
        self.ends: NDArray[np.intp] = np.cumsum(self.sizes + 1)
        self.starts: NDArray[np.intp] = self.ends - self.sizes - 1

    @cached_property
    def is_nfc(self) -> bool:
        """Whether the text is in Unicode's normal form C."""
        return self.ascii or unicodedata.is_normalized("NFC", self.text)

    def composed(self) -> list[str]:
        """The lines in that form."""
        return [unicodedata.normalize("NFC", line) for line in self.lines]

    @cached_property
    def codes(self) -> NDArray[np.intp]:
        """The code points of the text, each line followed by a line feed."""
        if self.ascii:
            return np.frombuffer(self.text.encode(), np.uint8).astype(np.intp)
        return np.frombuffer(self.text.encode("utf-32-le"), "<u4").astype(np.intp)

    @cached_property
    def rare(self) -> Rows:
        """The positions of the characters that are not ASCII."""
        return np.flatnonzero(self.codes > 127)

    def rows(self, positions: Rows) -> Rows:
        """The lines in which these characters of the text stand."""
        return np.searchsorted(self.ends, positions, side="right")

    def distinct_rows(self, positions: Rows) -> Rows:
        """The lines in which these characters stand, each once; the positions rise."""
        rows = self.rows(positions)
        return rows[np.flatnonzero(np.diff(rows, prepend=-1))]


@dataclass(frozen=True)
class Block:
    """Some consecutive pairs of one corpus."""

    corpus: Corpus
    line: int
    """The line of the first, from 1."""
    source: list[str]
    target: list[str]
    unreadable: Sequence[int]
    """Pairs, from 0 within the block, that are not there because training could not read them."""
    sightings: list[Sighting]
    """What reading noticed."""
    raw: Sequence[str] = ()
    """The rows of a TSV or JSONL file as they stand there."""
    surplus: tuple[int, int] = (0, 0)
    """In the last block: lines that one of two files has beyond the end of the other."""

    def __len__(self) -> int:
        """Number of pairs."""
        return len(self.source)

    @cached_property
    def sides(self) -> tuple[Side, Side]:
        """Source and target, ready for inspection."""
        return Side(self.source), Side(self.target)

    @cached_property
    def stripped(self) -> tuple[list[str], list[str]]:
        """Source and target in normal form C, for comparing, without surrounding whitespace."""
        source, target = (map(str.strip, side.lines if side.is_nfc else side.composed()) for side in self.sides)
        return list(source), list(target)

    @cached_property
    def whole(self) -> NDArray[np.bool_]:
        """Which pairs have text on both sides."""
        sides = [np.fromiter(map(bool, lines), np.bool_, len(self)) for lines in self.stripped]
        return sides[0] & sides[1]

    def example(self, row: int, side: int | None = None, place: int = 0, remark: str = "") -> Example:
        """A pair, or one side of it, as an example.

        Args:
            row: the pair, from 0 within the block.
            side: 0 source, 1 target, None both.
            place: a character of the side that must be seen.
            remark: what is wrong.
        """
        paths = self.corpus.paths
        texts: tuple[str, ...] = (
            (self.source[row], self.target[row]) if side is None else ((self.source, self.target)[side][row],)
        )
        if row in self.unreadable:
            texts = tuple(filter(None, self.raw[row : row + 1]))
        path = paths[min(side or 0, len(paths) - 1)]
        return Example(str(path), self.line + row, tuple(excerpt(text, place) for text in texts), remark)

    def examples(self, sighting: Sighting, number: int) -> list[Example]:
        """The first places of a sighting."""
        rows = sighting.rows[:number].tolist()
        places = list(sighting.places[:number]) or [0] * len(rows)
        remarks = list(sighting.remarks[:number]) or [""] * len(rows)
        return [
            self.example(row, sighting.side, place, remark)
            for row, place, remark in zip(rows, places, remarks, strict=True)
        ]


def read_blocks(corpus: Corpus, size: int = BLOCK_PAIRS, limit: int | None = None) -> Iterator[Block]:
    """Yield a corpus in blocks; the last may be shorter.

    Two files of different length are read to the end of the shorter.

    Args:
        corpus: where the text lies.
        size: pairs in a block.
        limit: stop before this many pairs.

    Raises:
        DragomanError: a file is missing or damaged; FormError where it is in another form.
    """
    line = 1
    blocks = _two_files(corpus, size) if len(corpus.paths) == 2 else _rows(corpus, size)
    with closing(blocks):
        for block in blocks:
            if limit is not None and line - 1 + len(block) > limit:
                block = _part(block, 0, limit - line + 1)
            if len(block) or any(block.surplus):
                yield from _pieces(block)
            line += len(block)
            if line - 1 == limit:
                return


def read_line_blocks(path: Path, size: int = BLOCK_PAIRS) -> Generator[Lines]:
    """Yield the lines of a file in blocks; the last may be shorter.

    Raises:
        DragomanError: the file is missing, or its gzip damaged; FormError where it is no text.
    """
    waiting, first = Lines([]), True
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            for data in _whole_lines(file):  # type: ignore[arg-type]
                if first:
                    require_text(data[: data.index(b"\n") + 1], str(path))
                _append(waiting, _decode(data, first))
                first = False
                while len(waiting.texts) > size:
                    block, waiting = _cut(waiting, size)
                    yield block
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise damaged_gzip(path, error) from None
    except OSError as error:
        raise DragomanError(f"{path}: {error.strerror or error}") from None
    if waiting.texts:
        yield waiting


def _whole_lines(file: BinaryIO) -> Iterator[bytes]:
    """The file in pieces that end where a line does."""
    pieces: list[bytes] = []
    while chunk := file.read(_CHUNK_BYTES):
        cut = chunk.rfind(b"\n") + 1
        if cut:
            yield b"".join([*pieces, chunk[:cut]])
            pieces = []
        pieces.append(chunk[cut:])
    if rest := b"".join(pieces):
        yield rest + b"\n"


def _decode(data: bytes, first: bool) -> Lines:
    """The lines in some bytes, the last of which is a line feed."""
    damaged: dict[int, str] = {}
    try:
        texts = data.decode("utf-8").split("\n")
    except UnicodeDecodeError:
        texts = [_decode_line(raw, number, damaged) for number, raw in enumerate(data.split(b"\n"))]
    texts.pop()
    windows = []
    if b"\r" in data:
        windows = [number for number, text in enumerate(texts) if text.endswith("\r")]
        for number in windows:
            texts[number] = texts[number].rstrip("\r")
    marked = first and bool(texts) and texts[0].startswith(_BOM)
    if marked:
        texts[0] = texts[0].removeprefix(_BOM)
    return Lines(texts, damaged, windows, marked)


def _decode_line(raw: bytes, number: int, damaged: dict[int, str]) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        before = visible(raw[: error.start].decode("utf-8")[-_SHOWN_BEFORE:])
        damaged[number] = f"byte {error.start + 1} is 0x{raw[error.start]:02X}" + (
            f", after “{before}”" if before else ""
        )
        return ""


def _append(lines: Lines, more: Lines) -> None:
    before = len(lines.texts)
    lines.texts += more.texts
    lines.damaged |= {before + number: why for number, why in more.damaged.items()}
    lines.windows += [before + number for number in more.windows]
    lines.marked |= more.marked


def _cut(lines: Lines, size: int) -> tuple[Lines, Lines]:
    """The first lines, and the others."""
    return (
        Lines(
            lines.texts[:size],
            {number: why for number, why in lines.damaged.items() if number < size},
            [number for number in lines.windows if number < size],
            lines.marked,
        ),
        Lines(
            lines.texts[size:],
            {number - size: why for number, why in lines.damaged.items() if number >= size},
            [number - size for number in lines.windows if number >= size],
        ),
    )


def _two_files(corpus: Corpus, size: int) -> Generator[Block]:
    nothing = Lines([])
    line = 1
    readers = (read_line_blocks(path, size) for path in corpus.paths)
    with closing(next(readers)) as sources, closing(next(readers)) as targets:
        while True:
            sides = next(sources, nothing), next(targets, nothing)
            count = min(len(side.texts) for side in sides)
            if all(len(side.texts) == count for side in sides) and count:
                yield _block(corpus, line, sides)
                line += count
                continue
            surplus = [len(side.texts) - count for side in sides]
            surplus[0] += sum(len(more.texts) for more in sources)
            surplus[1] += sum(len(more.texts) for more in targets)
            ends = _cut(sides[0], count)[0], _cut(sides[1], count)[0]
            yield replace(_block(corpus, line, ends), surplus=(surplus[0], surplus[1]))
            return


def _block(corpus: Corpus, line: int, sides: tuple[Lines, Lines]) -> Block:
    """A block of two files' lines."""
    unreadable = sorted({*sides[0].damaged, *sides[1].damaged})
    sightings = [sighting for side, lines in enumerate(sides) for sighting in _noticed(lines, side)]
    source, target = sides[0].texts, sides[1].texts
    for row in unreadable:
        source[row] = target[row] = ""
    return Block(corpus, line, source, target, unreadable, sightings)


def _noticed(lines: Lines, side: int) -> Iterator[Sighting]:
    """What reading noticed in one file."""
    if lines.marked:
        yield Sighting(BOM, np.zeros(1, np.intp), side)
    if lines.windows:
        yield Sighting(WINDOWS_ENDS, np.array(lines.windows), side)
    if lines.damaged:
        yield Sighting(NOT_UTF8, np.array(list(lines.damaged)), side, remarks=list(lines.damaged.values()))


def _rows(corpus: Corpus, size: int) -> Generator[Block]:
    """The blocks of a TSV or JSONL file."""
    line, usual = 1, 0
    with closing(read_line_blocks(corpus.paths[0], size)) as blocks:
        for lines in blocks:
            sightings = list(_noticed(lines, 0))
            if corpus.is_jsonl:
                pairs, bad = _parse_json(lines, corpus)
                sightings += _sightings(BAD_JSON, bad, ["" if lines.texts[n].strip() else EMPTY_LINE for n in bad])
            else:
                if line == 1:
                    require_table(corpus.paths[0], lines.texts[:FIRST_ROWS], corpus.languages)
                rows = [text.split("\t") for text in lines.texts]
                usual = usual or Counter(map(len, rows)).most_common(1)[0][0]
                odd = [n for n, row in enumerate(rows) if len(row) != max(usual, 2) and len(row) > 1]
                bad = [n for n, row in enumerate(rows) if len(row) < 2 and n not in lines.damaged]
                pairs = [(row[0], row[1]) if len(row) > 1 else ("", "") for row in rows]
                quoted = find_quoted(lines.texts, bad, line == 1)
                sightings += _sightings(NO_TAB, bad) + _sightings(
                    ODD_COLUMNS, odd, [f"{len(rows[n])} columns instead of {usual}" for n in odd]
                )
                sightings += _sightings(QUOTED, list(quoted), list(quoted.values()))
            unreadable = sorted({*bad, *lines.damaged})
            source, target = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
            yield Block(corpus, line, source, target, unreadable, sightings, lines.texts)
            line += len(pairs)


def _sightings(reason: Reason, rows: list[int], remarks: Sequence[str] = ()) -> list[Sighting]:
    return [Sighting(reason, np.array(rows), remarks=remarks)] if rows else []


def _parse_json(lines: Lines, corpus: Corpus) -> tuple[list[Pair], list[int]]:
    """The pairs, and the rows that hold none."""
    pairs, bad = [], []
    for number, text in enumerate(lines.texts):
        pair = None if number in lines.damaged else parse_json_row(text, corpus.languages)
        if pair is None and number not in lines.damaged:
            bad.append(number)
        pairs.append(pair or ("", ""))
    return pairs, bad


def _pieces(block: Block) -> Iterator[Block]:
    """A block whose lines are very long, in parts that memory can hold; otherwise the block."""
    characters = sum(map(len, block.source)) + sum(map(len, block.target))
    size = max(len(block) * _BLOCK_CHARACTERS // max(characters, 1), 1)
    if size >= len(block):
        yield block
        return
    for start in range(0, len(block), size):
        yield _part(block, start, min(start + size, len(block)))


def _part(block: Block, start: int, end: int) -> Block:
    """Some consecutive pairs of a block."""
    sightings = []
    for sighting in block.sightings:
        first, last = np.searchsorted(sighting.rows, (start, end)).tolist()
        rows, remarks = sighting.rows[first:last] - start, sighting.remarks[first:last]
        sightings += [replace(sighting, rows=rows, remarks=remarks)] if rows.size else []
    return replace(
        block,
        line=block.line + start,
        source=block.source[start:end],
        target=block.target[start:end],
        unreadable=[row - start for row in block.unreadable if start <= row < end],
        sightings=sightings,
        raw=block.raw[start:end],
        surplus=block.surplus if end == len(block) else (0, 0),
    )
