"""The token store: a parallel text as ids on disk, memory-mapped, so that memory grows by some bytes a sentence.

A store is a folder: `source.ids` and `target.ids` hold all sentences back to back, each ending in EOS;
`source.ends` and `target.ends` say where each one ends; `store.json` says what it was made from.
"""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from dragoman.config import EOS, DragomanError
from dragoman.runtime.files import not_saved
from dragoman.text.corpus import Pair
from dragoman.text.subwords import MOST_CHARACTERS, SubwordModel, Vocabulary

_CHUNK = 20_000  # pairs encoded at a time
_FILES = ("source.ids", "source.ends", "target.ids", "target.ends")
_SPACES = [character for character in map(chr, range(0x3001)) if character.isspace()]


@dataclass(frozen=True)
class StoreReport:
    """What went into a store and what was left out."""

    pairs: int
    empty: int
    too_long: int
    source_tokens: int
    target_tokens: int
    fingerprint: str
    """SHA-256 of the text of all pairs that came, kept or not."""
    cleaned: dict[str, int] = field(default_factory=dict)
    """Pairs that cleaning took out before, by reason."""

    def describe(self) -> str:
        """One line for people."""
        reasons = {"with an empty side": self.empty, "too long": self.too_long} | self.cleaned
        removed = [f"{number:,} {reason}" for reason, number in reasons.items() if number]
        left_out = f"; left out {', '.join(removed)}" if removed else ""
        return f"{self.pairs:,} pairs, {self.source_tokens:,} → {self.target_tokens:,} subwords{left_out}"


class TokenStore:
    """Sentence pairs as ids, read from a memory-mapped folder."""

    def __init__(self, folder: Path) -> None:
        """Open a store that build_store wrote.

        Raises:
            DragomanError: the folder is no complete store.
        """
        try:
            made = json.loads((folder / "store.json").read_text())
            self.report = StoreReport(**made["report"])
            if made["checksums"] != {name: _checksum(folder / name) for name in _FILES}:
                raise ValueError("damaged")
            self._source = _Side(folder, "source")
            self._target = _Side(folder, "target")
            for side, tokens in ((self._source, self.report.source_tokens), (self._target, self.report.target_tokens)):
                if len(side.lengths) != self.report.pairs or side.tokens != tokens:
                    raise ValueError("cut short")
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            raise DragomanError(f"{folder}: no complete token store; delete it and it will be made again") from None

    def __len__(self) -> int:
        """Number of sentence pairs."""
        return self.report.pairs

    @property
    def source_lengths(self) -> NDArray[np.int64]:
        """Subwords of each source sentence, EOS included, (N,)."""
        return self._source.lengths

    @property
    def target_lengths(self) -> NDArray[np.int64]:
        """Subwords of each target sentence, EOS included, (N,)."""
        return self._target.lengths

    def source(self, index: int) -> NDArray[np.integer]:
        """Ids of one source sentence, EOS included."""
        return self._source[index]

    def target(self, index: int) -> NDArray[np.integer]:
        """Ids of one target sentence, EOS included, BOS not."""
        return self._target[index]


class _Side:
    """The sentences of one language: their ids, which stay on the disk, and where each ends."""

    def __init__(self, folder: Path, name: str) -> None:
        self._ends = np.fromfile(folder / f"{name}.ends", dtype=np.int64)
        dtype = np.dtype(json.loads((folder / "store.json").read_text())["dtype"])
        self._ids = np.memmap(folder / f"{name}.ids", dtype=dtype, mode="r")
        self.lengths = np.diff(self._ends, prepend=0)
        self.tokens = len(self._ids) if len(self._ends) and self._ends[-1] == len(self._ids) else -1

    def __getitem__(self, index: int) -> NDArray[np.integer]:
        end = self._ends[index]
        return self._ids[end - self.lengths[index] : end]


def _checksum(path: Path) -> int:
    """CRC-32: a store of gigabytes is checked in seconds whenever it is opened."""
    checksum = 0
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            checksum = zlib.crc32(block, checksum)
    return checksum


class _SideWriter:
    """Writes the files that _Side reads."""

    def __init__(self, folder: Path, name: str, subwords: SubwordModel, dtype: np.dtype[np.integer]) -> None:
        self.subwords = subwords
        self.total = 0
        self._dtype = dtype
        self._ids: BinaryIO = (folder / f"{name}.ids").open("wb")
        self._ends: BinaryIO = (folder / f"{name}.ends").open("wb")

    def write(self, sentences: Sequence[Sequence[int]]) -> None:
        """Append sentences."""
        lengths = np.fromiter((len(ids) for ids in sentences), dtype=np.int64, count=len(sentences))
        ends = self.total + lengths.cumsum()
        flat = np.fromiter((i for ids in sentences for i in ids), dtype=self._dtype, count=int(lengths.sum()))
        self._ids.write(flat.tobytes())
        self._ends.write(ends.tobytes())
        self.total = int(ends[-1]) if len(ends) else self.total

    def __enter__(self) -> _SideWriter:
        return self

    def __exit__(self, *exception: object) -> None:
        self._ids.close()
        self._ends.close()


def build_store(
    pairs: Iterable[Pair],
    vocabulary: Vocabulary,
    folder: Path,
    max_length: int,
    progress: Callable[[int], None] | None = None,
    cleaned: dict[str, int] | None = None,
    name: str = "the text",
) -> TokenStore:
    """Encode pairs into a new store; the folder appears only when it is complete.

    Args:
        pairs: the text; read once, in chunks.
        vocabulary: the subword models.
        folder: where to put the store; an older one there is replaced.
        max_length: leave out pairs with a side of more subwords than this.
        progress: called with the number of pairs read so far.
        cleaned: how many pairs were taken out before, by reason; for the report.
        name: of the text, for the error that no pair is left.

    Raises:
        DragomanError: no pair is left, or whatever reading the pairs raises.
    """
    dtype = _smallest(max(len(vocabulary.source), len(vocabulary.target)))
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        with (
            _SideWriter(partial, "source", vocabulary.source, dtype) as source,
            _SideWriter(partial, "target", vocabulary.target, dtype) as target,
        ):
            report = _write_pairs(pairs, source, target, max_length, progress)
        if not report.pairs:
            read = report.empty + report.too_long
            raise DragomanError(
                f"{name}: no sentence pair is left of {read:,}: {report.empty:,} have an empty side and "
                f"{report.too_long:,} are longer than {max_length} subwords"
            )
        report = replace(report, cleaned=cleaned or {})
        checksums = {name: _checksum(partial / name) for name in _FILES}
        made = {"dtype": dtype.name, "report": asdict(report), "checksums": checksums}
        (partial / "store.json").write_text(json.dumps(made))
        shutil.rmtree(folder, ignore_errors=True)
        partial.rename(folder)
    except OSError as error:
        raise not_saved(folder, error) from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return TokenStore(folder)


def _smallest(subwords: int) -> np.dtype[np.integer]:
    """The smallest kind of number that holds the ids of so many subwords."""
    return np.dtype(np.uint16) if subwords <= 2**16 else np.dtype(np.uint32)


def _write_pairs(
    pairs: Iterable[Pair],
    source: _SideWriter,
    target: _SideWriter,
    max_length: int,
    progress: Callable[[int], None] | None,
) -> StoreReport:
    digest = hashlib.sha256()
    read = kept = empty = too_long = 0
    iterator = iter(pairs)
    while chunk := list(islice(iterator, _CHUNK)):
        read += len(chunk)
        digest.update("".join(f"{len(s)} {s}{t}\n" for s, t in chunk).encode())
        full = [pair for pair in chunk if pair[0].strip() and pair[1].strip()]
        empty += len(chunk) - len(full)
        bearable = [pair for pair in full if not any(_hopeless(side, max_length) for side in pair)]
        encoded = zip(*(side.subwords.encode(texts) for side, texts in _sides(source, target, bearable)), strict=True)
        written = [pair for pair in encoded if pair[0] and pair[1]]  # of some characters nothing is left
        fitting = [pair for pair in written if len(pair[0]) <= max_length and len(pair[1]) <= max_length]
        empty += len(bearable) - len(written)
        too_long += len(full) - len(bearable) + len(written) - len(fitting)
        kept += len(fitting)
        source.write([[*ids, EOS] for ids, _ in fitting])
        target.write([[*ids, EOS] for _, ids in fitting])
        if progress is not None:
            progress(read)
    return StoreReport(kept, empty, too_long, source.total, target.total, digest.hexdigest())


def _hopeless(text: str, max_length: int) -> bool:
    """Whether a text is too long for so many subwords, however they are cut; those of megabytes are not even tried."""
    most = max_length * MOST_CHARACTERS
    return len(text) > most and len(text) - sum(map(text.count, _SPACES)) > most


def _sides(source: _SideWriter, target: _SideWriter, pairs: list[Pair]) -> list[tuple[_SideWriter, list[str]]]:
    return [(source, [s for s, _ in pairs]), (target, [t for _, t in pairs])]


def sample_pairs(pairs: Iterable[Pair], size: int, seed: int) -> tuple[list[Pair], int]:
    """A uniform random sample of at most size pairs (reservoir sampling), and how many there were."""
    generator = random.Random(seed)
    iterator: Iterator[Pair] = iter(pairs)
    sample = list(islice(iterator, size))
    count = len(sample)
    for pair in iterator:
        count += 1
        slot = generator.randrange(count)
        if slot < size:
            sample[slot] = pair
    return sample, count
