"""One parallel text divided into training, validation and test text."""

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from dragoman.config import DragomanError
from dragoman.datasets import PARTS
from dragoman.runtime.files import appearing, make_folder, refuse_to_overwrite
from dragoman.text.corpus import Pair, holds_out, read_pairs


def split(texts: Sequence[str], source: str, target: str, out: Path, pairs: int = 1000) -> Counter[str]:
    """Write the three parts into a folder; return how many pairs each has, and how many were left out for what reason.

    A source sentence is in one part only, and with it those that differ from it in case, spaces and punctuation alone.
    The hash of its letters and digits decides in which. In validation and test text it stands once, with its first
    translation. Pairs whose target is held out are left out of the training text, and those whose target is in the
    test text also of the validation text.

    Of short text, a tenth is held out for validation and a tenth for testing, instead of about so many pairs.
    """
    paths = [out / f"{part}.{language}" for part in PARTS for language in (source, target)]
    refuse_to_overwrite(out, written=[path.name for path in paths])

    def read() -> Iterator[Pair]:
        return ((one.strip(), other.strip()) for one, other in read_pairs(texts, source, target))

    name, total = ", ".join(texts), sum(1 for _ in read())
    wanted = min(pairs, total // 10)
    if not wanted:
        raise DragomanError(f"{name}: {total:,} pairs are too few to hold some of them out")
    counts: Counter[str] = Counter()
    make_folder(out)
    with appearing(*paths) as files:
        for place, pair in _without_held_out_targets(read, wanted / total):
            counts[place] += 1
            if place in PARTS:
                for file, side in zip(files[2 * PARTS.index(place) :], pair, strict=False):
                    file.write(f"{side}\n".encode())
        if missing := [part for part in PARTS if not counts[part]]:
            raise DragomanError(f"{name}: too few distinct sentences; nothing is left for {missing[0]}")
    return counts


def _without_held_out_targets(read: Callable[[], Iterator[Pair]], share: float) -> Iterator[tuple[str, Pair]]:
    """All pairs, each with the part it belongs to or why it is left out."""
    held_out: dict[str, set[str]] = {"valid": set(), "test": set()}
    for place, (_, target) in _placed_by_source(read(), share):
        if place in held_out:
            held_out[place].add(_fold(target))
    taken = {"train": held_out["valid"] | held_out["test"], "valid": held_out["test"]}
    for place, pair in _placed_by_source(read(), share):
        clash = place in taken and _fold(pair[1]) in taken[place]
        yield "with a target sentence that is held out" if clash else place, pair


def _placed_by_source(pairs: Iterator[Pair], share: float) -> Iterator[tuple[str, Pair]]:
    """All pairs, each with the part that its source decides on, or why it is left out."""
    held_out = set[str]()
    for source, target in pairs:
        key = _fold(source)
        place = "test" if holds_out(key, share) else "valid" if holds_out(key, 2 * share) else "train"
        if not (source and target):
            place = "with an empty side"
        elif source in held_out:
            place = "with a source sentence that is held out already"
        elif place != "train":
            held_out.add(source)
        yield place, (source, target)


def _fold(sentence: str) -> str:
    """A sentence's letters with their marks and digits, in lower case and normal form C; unchanged if it has none.

    Digits tell "Room 12" and its like apart; marks are vowel signs in Indic scripts and Thai.
    """
    folded = unicodedata.normalize("NFC", sentence).casefold()
    return "".join(c for c in folded if c.isalnum() or unicodedata.category(c).startswith("M")) or sentence
