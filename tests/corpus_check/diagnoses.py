"""Text for the doctor to look at, and what it says in a form to compare."""

from collections.abc import Iterable
from pathlib import Path

from dragoman.corpus_check.check import Diagnosis, examine_text
from dragoman.corpus_check.issues import Finding
from dragoman.text.corpus import Pair

PLACE = 700
"""The line in which faults are planted."""


def save(folder: Path, pairs: Iterable[Pair], name: str = "train") -> str:
    pairs = list(pairs)
    for side, language in enumerate(("en", "fr")):
        text = "".join(pair[side] + "\n" for pair in pairs)
        (folder / f"{name}.{language}").write_bytes(text.encode())
    return str(folder / name)


def examine(train: str | list[str], valid: str = "", test: str = "", examples: int = 3) -> Diagnosis:
    texts = [train] if isinstance(train, str) else train
    return examine_text(texts, "en", "fr", [valid] if valid else [], [test] if test else [], examples)


def only(diagnosis: Diagnosis) -> Finding:
    """The one thing that is wrong."""
    assert len(diagnosis.findings) == 1, [(f.reason, f.count) for f in diagnosis.findings]
    return diagnosis.findings[0]


def places(finding: Finding) -> list[tuple[str, int]]:
    return [(Path(example.file).name, example.line) for example in finding.examples]


def replaced(pairs: list[Pair], *changes: tuple[int, Pair]) -> list[Pair]:
    return [dict(changes).get(number, pair) for number, pair in enumerate(pairs)]
