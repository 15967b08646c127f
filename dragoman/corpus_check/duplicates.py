"""Pairs that occur twice: equal or nearly equal ones, and training pairs that are also held out.

Pairs are compared by 64-bit hashes. Some two of n different pairs share one with probability n² / 2⁶⁵: about one in a
million for five million pairs.
"""

import string
import unicodedata
from collections.abc import Iterable
from functools import cache
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from dragoman.corpus_check.blocks import Block, Mask, Side

Keys = NDArray[np.uint64]
"""Hashes, which differ from process to process; 0 stands for what is not compared."""

_PARTS = 16
_NO_LETTERS = bytes(code for code in range(128) if chr(code) not in string.ascii_letters + "\n")


def hash_pairs(block: Block) -> dict[str, Keys]:
    """Hash the pairs of a block with text on both sides, independently of how accents are written.

    Returns:
        "pairs": hashes of both sides without surrounding whitespace; "letters": of their letters in lower case, if both
        sides have letters; "sources" and "targets": of one side. Each (n,).
    """
    source, target = (side.stripped for side in block.sides)
    letters = list(zip(*map(letters_of, block.sides), strict=True))
    has_letters = np.array(list(map(all, letters)), np.bool_)
    return {
        "pairs": _hash(zip(source, target, strict=True), block.has_text),
        "letters": _hash(letters, block.has_text & has_letters),
        "sources": _hash(source, block.has_text),
        "targets": _hash(target, block.has_text),
    }


def _hash(texts: Iterable[object], compared: Mask) -> Keys:
    keys = np.fromiter(map(hash, texts), np.int64, len(compared)).view(np.uint64)
    return np.where(compared, keys, np.uint64(0))


def hash_text(blocks: Iterable[Block]) -> dict[str, Keys]:
    """Return all the hashes of a text as for hash_pairs, but sorted and each once, after a 0."""
    parts = [hash_pairs(block) for block in chain([Block(0, [("", "")])], blocks)]
    return {name: np.unique(np.concatenate([part[name] for part in parts])) for name in parts[0]}


def contains(known: Keys, keys: Keys) -> Mask:
    """Return which of the keys are among those of a text."""
    places = np.minimum(np.searchsorted(known, keys), known.size - 1)
    return np.asarray((known[places] == keys) & (keys > 0))


def find_repeats(keys: Keys) -> NDArray[np.intp]:
    """Return the indices of all keys that occurred before, in order."""
    parts, repeats = keys.astype(np.uint8) % _PARTS, []  # sorted part by part, to save memory
    for part in range(_PARTS):
        order = np.flatnonzero(parts == part)
        order = order[np.argsort(keys[order], kind="stable")]
        ordered = keys[order]
        repeats.append(order[1:][(ordered[1:] == ordered[:-1]) & (ordered[1:] > 0)])
    return np.sort(np.concatenate(repeats))


def letters_of(side: Side) -> list[str]:
    """Return the letters of each line in normal form C and lower case."""
    if side.text.isascii():
        return side.text.lower().encode().translate(None, _NO_LETTERS).decode().split("\n")[:-1]
    side = side if side.composed is side.lines else Side(side.composed)
    folded = folding()[side.codes]
    kept: bytes = folded[folded != 0].astype("<u4").tobytes()
    return kept.decode("utf-32-le").split("\n")[:-1]


@cache
def folding() -> NDArray[np.int32]:
    """Return for each code point its lower case; 0 for digits, spaces, punctuation, symbols and control characters."""
    table = np.arange(0x110000, dtype=np.int32)
    for code in range(0x20000):  # beyond, letters have no case
        folded, category = chr(code).casefold(), unicodedata.category(chr(code))
        table[code] = 0 if category[0] in "PSZC" or category == "Nd" else ord(folded) if len(folded) == 1 else code
    table[0xE0000:] = 0  # tags, variation selectors, private use
    table[ord("\n")] = ord("\n")
    return table
