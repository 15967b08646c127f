"""The verb `split`: one parallel text → training, validation and test text."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from dragoman.cli.options import SplitConfig
from dragoman.config import DragomanError
from dragoman.runtime.console import say
from dragoman.runtime.files import appearing, make_folder
from dragoman.text.corpus import Pair, holds_out, read_pairs

_PARTS = ("train", "valid", "test")
_LARGEST_SHARE = 0.1  # of the pairs, for validation and again for testing


def split(config: SplitConfig) -> int:
    """Write the three parts into a folder and say what is in them; returns the exit code.

    A sentence of the source is in one of them only, and with it those that differ from it in case, spaces and
    punctuation alone. The hash of its letters and digits decides in which, so that the order of the text does not
    matter; in validation and test text it stands once, with its first translation. So is a sentence of the target: a
    pair whose target is that of a held-out pair is left out of the training text, and one whose target is in the test
    text out of the validation text.

    Raises:
        DragomanError: the text can't be read or is too short, or something is there already.
    """
    out, languages = Path(config.out), (config.source, config.target)
    prefixes = [out / part for part in _PARTS]
    paths = [Path(f"{prefix}.{language}") for prefix in prefixes for language in languages]
    if there := [path for path in paths if path.exists()]:
        raise DragomanError(f"{there[0]}: already there; name another place with --out")
    name, total = ", ".join(config.text), sum(1 for _ in _pairs(config))
    wanted = min(config.pairs, int(total * _LARGEST_SHARE))
    if not wanted:
        raise DragomanError(f"{name}: {total:,} pairs are too few to hold some of them out")
    counts: Counter[str] = Counter()
    make_folder(out)
    with appearing(*paths) as files:
        for part, pair in _parts(config, wanted / total, counts):
            for file, side in zip(files[2 * _PARTS.index(part) :], pair, strict=False):
                file.write(f"{side}\n".encode())
        if missing := [part for part in _PARTS if not counts[part]]:
            raise DragomanError(f"{name}: too few distinct sentences; nothing is left for {missing[0]}")
    for part, prefix in zip(_PARTS, prefixes, strict=True):
        say(f"{', '.join(f'{prefix}.{language}' for language in languages)}: {counts.pop(part):,} pairs")
    if counts:
        say("left out: " + ", ".join(f"{count:,} {reason}" for reason, count in counts.items()))
    texts = " ".join(f"--{part} {prefix}" for part, prefix in zip(_PARTS, prefixes, strict=True))
    say("now:")
    say(f"$ dragoman check --source {config.source} --target {config.target} {texts}")
    return 0


def _pairs(config: SplitConfig) -> Iterator[Pair]:
    """The pairs of the text, without white space around them."""
    pairs = read_pairs(config.text, config.source, config.target)
    return ((source.strip(), target.strip()) for source, target in pairs)


def _parts(config: SplitConfig, share: float, counts: Counter[str]) -> Iterator[tuple[str, Pair]]:
    """The pairs to keep, each with the part it belongs to; all are counted, by part or by why they are left out."""
    tested, held_out = set[str](), set[str]()  # targets
    for place, (_, target) in _placed(config, share):
        if place in _PARTS[1:]:
            (tested if place == "test" else held_out).add(_fold(target))
    held_out |= tested
    taken = {"train": held_out, "valid": tested}
    for place, pair in _placed(config, share):
        if place in taken and _fold(pair[1]) in taken[place]:
            place = "with a target sentence that is held out"
        counts[place] += 1
        if place in _PARTS:
            yield place, pair


def _placed(config: SplitConfig, share: float) -> Iterator[tuple[str, Pair]]:
    """All pairs, each with the part that its source decides on, or why it is left out."""
    held_out = set[str]()
    for source, target in _pairs(config):
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
    """A sentence's letters with their marks and digits, in lower case and normal form C; what has none stays as it is.

    The doctor leaves out digits as well when it looks for what is almost held out. Here that would take all the
    sentences that differ in a number alone for one, and "Room 12" and its like for too large a share of the text.
    """
    return "".join(filter(_tells_apart, unicodedata.normalize("NFC", sentence).casefold())) or sentence


def _tells_apart(character: str) -> bool:
    """Vowel signs are marks: without them many words of Indic scripts and Thai would be the same."""
    return character.isalnum() or unicodedata.category(character).startswith("M")
