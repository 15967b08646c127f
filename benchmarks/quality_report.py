"""The tables of time to quality, one for each length of run, in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

Record = dict[str, Any]
HEAD = ("", "minutes", "BLEU", "target", "times Dragoman's minutes")


def is_time_to_quality(record: Record) -> bool:
    """Whether a results file compares time to quality."""
    return "minutes to BLEU" in record["result"]


def title(steps: int, target: float) -> str:
    """Return the title of a table."""
    return f"{target:g} BLEU, {steps:,} steps"


def cells(row: Record, name: str, target: float) -> tuple[str, ...]:
    """Return one row under HEAD."""
    times = f"{row['times_dragoman']:.2f}" if "times_dragoman" in row else ""
    reached = "reached" if row["bleu"] >= target else "not reached"
    return (
        f"{name.replace('marian', 'MarianMTModel')} {row['precision']}",
        f"{row['minutes']:.1f}",
        f"{row['bleu']:.2f}",
        reached,
        times,
    )


def quality_tables(record: Record) -> str:
    """Return all tables of a results file, after the settings and versions."""
    versions = ", ".join(f"{name} {version}" for name, version in sorted(record["versions"].items()))
    settings = record["settings"]
    parts = [
        f"{settings['threads']} threads each; preset {settings['preset']}; {versions}; commit {record['commit']}.",
        f"All toolkits make the same number of steps on the same batches with the same learning rates: Dragoman with "
        f"`{settings['train']}`, the others with their own models, initial weights, loss and search. Minutes include "
        f"preparing the text and, for Dragoman, saving and validating; only Dragoman keeps its best checkpoint. "
        f"JoeyNMT also applies dropout to attention weights and inner activations. The beam is {settings['beam']}; the "
        f"length penalty is 0.6 for Dragoman, {settings['length_penalty']:g} for the others. The target is the score "
        f"that Dragoman was expected to reach; a toolkit that scored higher could have stopped earlier.",
    ]
    for found in record["result"]["minutes to BLEU"]:
        parts.append(f"**{title(found['steps'], found['target'])}**")
        rows = [cells(row, name, found["target"]) for name, row in found["toolkits"].items()]
        parts.append("\n".join(_lines([HEAD, ["---", *["---:"] * (len(HEAD) - 1)], *rows])))
    return "\n\n".join(parts)


def _lines(rows: Sequence[Sequence[str]]) -> Iterable[str]:
    return (f"| {' | '.join(row)} |" for row in rows)
