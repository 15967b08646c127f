"""The phrasebook: 115,000 everyday sentences in English and French, which `dragoman demo` trains on.

`tools/phrasebook` in the repository has the hand-written sentences and the grammar that they are made of.
"""

import gzip
from pathlib import Path
from typing import NamedTuple

from dragoman.runtime.files import make_folder, refuse_to_overwrite, write_together
from dragoman.text.corpus import Pair

PHRASEBOOK_FILE = Path(__file__).with_name("phrasebook.tsv.gz")
"""Lines of part, English and French, with tabs between them."""


class Phrasebook(NamedTuple):
    """The pairs of each part; no sentence is in two."""

    train: list[Pair]
    valid: list[Pair]
    test: list[Pair]
    """Sentences that combine in a new way what training shows."""
    everyday: list[Pair]
    """Sentences that somebody wrote for testing, without looking at the rest."""


def read_phrasebook() -> Phrasebook:
    """Return the phrasebook that comes with Dragoman."""
    book = Phrasebook([], [], [], [])
    with gzip.open(PHRASEBOOK_FILE, "rt", encoding="utf-8") as lines:
        for line in lines:
            part, english, french = line.rstrip("\n").split("\t")
            getattr(book, part).append((english, french))
    return book


def write_phrasebook(folder: Path) -> None:
    """Write train.en, train.fr, valid.en, …, test.fr into a folder, a sentence on each line."""
    contents = {}
    for part, pairs in read_phrasebook()._asdict().items():
        for language, side in zip(("en", "fr"), zip(*pairs, strict=True), strict=True):
            contents[folder / f"{part}.{language}"] = "".join(f"{line}\n" for line in side).encode()
    same = [path.name for path, content in contents.items() if path.is_file() and path.read_bytes() == content]
    refuse_to_overwrite(folder, ours=same, written=[path.name for path in contents])
    make_folder(folder)
    write_together(contents)
