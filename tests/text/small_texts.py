"""A text small enough to be looked at pair by pair."""

from __future__ import annotations

from pathlib import Path

from dragoman.config import (
    TrainConfig,
)
from dragoman.text.corpus import Pair, read_pairs
from dragoman.text.preprocess import PreparedText

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


def snapshot(config: TrainConfig) -> dict[str, int]:
    """Every prepared file and when it was written."""
    return {str(path): path.stat().st_mtime_ns for path in (Path(config.out) / "data").rglob("*") if path.is_file()}


def decoded(prepared: PreparedText) -> list[Pair]:
    store, vocabulary = prepared.train, prepared.vocabulary
    sources = vocabulary.source.decode([store.source(i).tolist() for i in range(len(store))])
    targets = vocabulary.target.decode([store.target(i).tolist() for i in range(len(store))])
    return list(zip(sources, targets, strict=True))


def make_invalid(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace("Hündin".encode(), b"H\xfcndin", 1))


def held_out(config: TrainConfig) -> list[Pair]:
    return list(read_pairs([str(Path(config.out) / "heldout")], "en", "de"))
