"""A text small enough to be looked at pair by pair, and cleaning that leaves out what it is told."""

from collections.abc import Collection
from pathlib import Path

import numpy as np

from dragoman.config import TrainConfig
from dragoman.runtime.console import Report
from dragoman.text.corpus import Pair, read_pairs
from dragoman.text.preprocess import Clean, Cleaning, PreparedText

ANIMALS = {"cat": "Katze", "dog": "Hündin", "cow": "Kuh", "bee": "Biene", "hen": "Henne", "owl": "Eule"}
VERBS = {"sees": "sieht", "hears": "hört", "likes": "mag", "seeks": "sucht"}


def sentences() -> list[Pair]:
    return [
        (f"the {a} {verb} the {b} .", f"die {ANIMALS[a]} {VERBS[verb]} die {ANIMALS[b]} .")
        for a in ANIMALS
        for verb in VERBS
        for b in ANIMALS
    ]


def write_text(prefix: Path, pairs: list[Pair]) -> str:
    for side, language in enumerate(("en", "de")):
        text = "".join(pair[side] + "\n" for pair in pairs)
        prefix.with_name(f"{prefix.name}.{language}").write_text(text, encoding="utf-8")
    return str(prefix)


def cleaning(left_out: Collection[int] = (), not_for_validation: Collection[int] = ()) -> Clean:
    """Cleaning that leaves out these pairs, by number, and holds out neither them nor the others."""

    def clean(config: TrainConfig, report: Report) -> Cleaning:
        count = sum(1 for _ in read_pairs(config.train, config.source, config.target))
        gone, unfit = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
        gone[list(left_out)] = True
        unfit[[*left_out, *not_for_validation]] = True
        return Cleaning(gone, unfit, {"of no use": len(left_out)} if left_out else {})

    return clean


keep_all = cleaning()


def snapshot(config: TrainConfig) -> dict[str, int]:
    """Every prepared file and when it was written."""
    return {str(path): path.stat().st_mtime_ns for path in (Path(config.out) / "data").rglob("*") if path.is_file()}


def decoded(prepared: PreparedText) -> list[Pair]:
    """The pairs that are trained on."""
    store, vocabulary = prepared.train, prepared.vocabulary
    sources = vocabulary.source.decode([store[i][0].tolist() for i in range(len(store))])
    targets = vocabulary.target.decode([store[i][1].tolist() for i in range(len(store))])
    return list(zip(sources, targets, strict=True))


def held_out(config: TrainConfig) -> list[Pair]:
    return list(read_pairs([str(Path(config.out) / "heldout")], "en", "de"))
