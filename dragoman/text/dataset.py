"""The token store: a parallel text as ids on disk, memory-mapped, so that memory grows by some bytes per sentence.

A store is a folder: `source.ids` and `target.ids` hold all sentences back to back, each ending in EOS;
`source.ends` and `target.ends` say where each one ends; `store.json` says what it was made from.
"""

import hashlib
import json
import random
import shutil
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dragoman.config import EOS, DragomanError, require
from dragoman.runtime.files import not_saved
from dragoman.runtime.processes import map_on_cores
from dragoman.text.corpus import Pair
from dragoman.text.planting import Planter, mask_pair
from dragoman.text.subwords import Vocabulary

TextEnd = tuple[int, int]
"""The number of a text, from 0, and how many pairs there are until its end, those of the texts before it included."""
_CHUNK = 20_000  # pairs encoded at a time
_Chunk = tuple[int, list[Pair], list[Pair]]
"""Number of pairs of some text; those without an empty side; copies with placeholders."""
_TOKENS = ("source_tokens", "target_tokens")
_FILES = ("source.ids", "source.ends", "target.ids", "target.ends")


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
    planted: int = 0
    """Pairs that repeat others with symbols for placeholders in them; not among `pairs`."""
    ends: list[TextEnd] = field(default_factory=list)
    """Where in the store each direction of each text ends, planted pairs included."""

    def describe(self) -> str:
        """One line for people."""
        reasons = {"with an empty side": self.empty, "too long": self.too_long} | self.cleaned
        removed = [f"{number:,} {reason}" for reason, number in reasons.items() if number]
        left_out = f"; left out {', '.join(removed)}" if removed else ""
        planted = f" and {self.planted:,} copies with placeholders" if self.planted else ""
        return f"{self.pairs:,} pairs{planted}, {self.source_tokens:,} → {self.target_tokens:,} subwords{left_out}"


class TokenStore:
    """Sentence pairs as ids, memory-mapped from a folder that build_store wrote."""

    def __init__(self, folder: Path) -> None:
        try:
            made = json.loads((folder / "store.json").read_text())
            self.report = StoreReport(**made["report"])
            if made["checksums"] != _checksums(folder):
                raise ValueError("damaged")
            kinds = [made["dtype"], np.int64] * 2
            maps = [np.asarray(np.memmap(folder / name, kind, "r")) for name, kind in zip(_FILES, kinds, strict=True)]
            self._ids, self._ends = maps[::2], maps[1::2]
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            raise DragomanError(f"{folder}: not a complete token store; delete it and it will be made again") from None

    @cached_property
    def lengths(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Subwords of each source and of each target sentence, EOS included, (N,) each."""
        return np.diff(self._ends[0], prepend=0), np.diff(self._ends[1], prepend=0)

    def __len__(self) -> int:
        return len(self._ends[0])

    def times(self, weights: Sequence[float], temperature: float) -> NDArray[np.float64] | None:
        """How often a pass over the text reads each pair on average, (N,); None if each once.

        Of texts with n pairs, the largest with m, each is read weight · (m / n)^(1 - 1/T) times. The weights are by
        the number of the text. This is sampling by size^(1/T) (Arivazhagan et al., 2019).
        """
        if not weights and temperature == 1:
            return None
        require(bool(self.report.ends), "version 0.1 of Dragoman prepared this text as one: choose another --out")
        numbers, sizes = self._parts()
        times = (sizes.max() / np.maximum(sizes, 1)) ** (1 - 1 / temperature)
        return np.repeat(times * (np.array(weights)[numbers] if weights else 1.0), sizes)

    def texts(self) -> NDArray[np.int64]:
        """The number of the text that each pair is from, (N,); empty if an older version has prepared it."""
        return np.repeat(*self._parts())

    def _parts(self) -> NDArray[np.int64]:
        """The number of the text and of the pairs of each direction of each text, (2, directions)."""
        numbers, ends = np.array(self.report.ends, np.int64).reshape(-1, 2).T
        return np.stack((numbers, np.diff(ends, prepend=0)))

    def __getitem__(self, index: int) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
        """Ids of a source and a target sentence, EOS included, BOS not; negative indices are not known."""
        source, target = (
            ids[ends[index - 1] if index else 0 : ends[index]] for ids, ends in zip(self._ids, self._ends, strict=True)
        )
        return source, target


def _checksums(folder: Path) -> dict[str, int]:
    """CRC-32 of every file, as gigabytes are checked whenever a store is opened."""
    return {name: zlib.crc32(np.memmap(folder / name, np.uint8, "r").data) for name in _FILES}


@dataclass(frozen=True)
class PairEncoder:
    """How pairs become ids."""

    vocabulary: Vocabulary
    max_length: int
    """Most subwords of a side; longer pairs are left out."""
    plant: Planter | None = None
    """Makes copies with placeholders."""

    @property
    def dtype(self) -> np.dtype[np.integer]:
        """The smallest type that holds all ids."""
        size = max(len(self.vocabulary.source), len(self.vocabulary.target))
        return np.dtype(np.uint16) if size <= 2**16 else np.dtype(np.uint32)

    def encode(self, chunk: _Chunk) -> tuple[dict[str, int], list[tuple[NDArray[np.integer], NDArray[np.int64]]]]:
        """Encode a chunk: numbers for the report; ids and lengths of all its source and of all its target sentences."""
        read, pairs, masked = chunk
        (own, too_long), (copies, _) = self._fitting(pairs), self._fitting(masked)
        counts = {"pairs": len(own), "empty": read - len(own) - too_long, "too_long": too_long, "planted": len(copies)}
        sides = []
        for place, tokens in enumerate(_TOKENS):
            sentences = [[*pair[place], EOS] for pair in chain(own, copies)]
            lengths = np.fromiter(map(len, sentences), np.int64, len(sentences))
            counts[tokens] = int(lengths.sum())
            sides.append((np.fromiter(chain.from_iterable(sentences), self.dtype, counts[tokens]), lengths))
        return counts, sides

    def _fitting(self, pairs: Sequence[Pair]) -> tuple[list[tuple[list[int], list[int]]], int]:
        """The ids of pairs that fit, and how many are too long. Pairs with an empty side are in neither."""
        sources = self.vocabulary.source.encode_text([source for source, _ in pairs])
        targets = self.vocabulary.target.encode_text([target for _, target in pairs])
        # Some characters are encoded as nothing.
        encoded = [pair for pair in zip(sources, targets, strict=True) if pair[0] and pair[1]]
        fitting = [pair for pair in encoded if max(map(len, pair)) <= self.max_length]
        return fitting, len(encoded) - len(fitting)


def build_store(
    texts: Iterable[tuple[int, Iterable[Pair]]],
    encoder: PairEncoder,
    folder: Path,
    progress: Callable[[int], None] = lambda read: None,
    cleaned: dict[str, int] | None = None,
    name: str = "the text",
) -> TokenStore:
    """Encode texts, each with its number, into a new store; it appears only when complete, in place of an older one.

    The report repeats `cleaned`, how many pairs were taken out before, by reason. The name stands in the error if no
    pair is left.
    """
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        report = _write_pairs(texts, encoder, partial, progress)
        if not report.pairs:
            too_long = f"{report.too_long:,} more than {encoder.max_length} subwords"
            raise DragomanError(f"{name}: no sentence pair is left: {report.empty:,} have an empty side and {too_long}")
        described = asdict(report) | {"cleaned": cleaned or {}}
        made = {"dtype": encoder.dtype.name, "report": described, "checksums": _checksums(partial)}
        (partial / "store.json").write_text(json.dumps(made))
        shutil.rmtree(folder, ignore_errors=True)
        partial.rename(folder)
    except OSError as error:
        raise not_saved(folder, error) from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return TokenStore(folder)


def _write_pairs(
    texts: Iterable[tuple[int, Iterable[Pair]]], encoder: PairEncoder, folder: Path, progress: Callable[[int], None]
) -> StoreReport:
    digest, ends = hashlib.sha256(), list[TextEnd]()
    totals: dict[str, Any] = dict.fromkeys(("pairs", "empty", "too_long", "planted", *_TOKENS), 0)
    for number, pairs in texts:
        for counts, sides in map_on_cores(encoder.encode, _in_chunks(pairs, encoder, digest)):
            for side, tokens, (ids, lengths) in zip(("source", "target"), _TOKENS, sides, strict=True):
                for name, content in ((f"{side}.ids", ids), (f"{side}.ends", totals[tokens] + np.cumsum(lengths))):
                    with (folder / name).open("ab") as file:
                        file.write(content.tobytes())
            totals = {name: total + counts[name] for name, total in totals.items()}
            progress(totals["pairs"] + totals["empty"] + totals["too_long"])
        ends.append((number, totals["pairs"] + totals["planted"]))
    return StoreReport(**totals, fingerprint=digest.hexdigest(), ends=ends)


def _in_chunks(pairs: Iterable[Pair], encoder: PairEncoder, digest: "hashlib._Hash") -> Iterator[_Chunk]:
    iterator = iter(pairs)
    while chunk := list(islice(iterator, _CHUNK)):
        digest.update("".join(f"{len(s)} {s}{t}\n" for s, t in chunk).encode())
        full = [pair for pair in chunk if pair[0].strip() and pair[1].strip()]
        if encoder.vocabulary.has_symbols:
            full = list(map(mask_pair, full))
        yield len(chunk), full, [copy for pair in full if encoder.plant and (copy := encoder.plant(pair))]


def sample_pairs(pairs: Iterable[Pair], size: int, seed: int) -> list[Pair]:
    """A uniform random sample of at most size pairs (reservoir sampling)."""
    generator = random.Random(seed)
    iterator = iter(pairs)
    sample = list(islice(iterator, size))
    for count, pair in enumerate(iterator, start=len(sample) + 1):
        slot = generator.randrange(count)
        if slot < size:
            sample[slot] = pair
    return sample
