"""The tables of time to quality: one for each length of the runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

Record = dict[str, Any]
HEAD = ("", "minutes", "BLEU", "target", "times Dragoman's minutes")


def is_time_to_quality(record: Record) -> bool:
    """Whether a results file holds them."""
    return "minutes to BLEU" in record["result"]


def title(steps: int, target: float) -> str:
    """Above a table."""
    return f"{target:g} BLEU, {steps:,} steps"


def cells(row: Record, name: str, target: float) -> tuple[str, ...]:
    """One row under HEAD; a target that was not reached says so."""
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
    """All tables of a results file in Markdown, after the settings and versions of what took part."""
    versions = ", ".join(f"{name} {version}" for name, version in sorted(record["versions"].items()))
    settings = record["settings"]
    parts = [
        f"{settings['threads']} threads each; preset {settings['preset']}; {versions}; commit {record['commit']}.",
        f"All make as many steps, on the same batches, with the same learning rates: Dragoman with "
        f"`{settings['train']}`, "
        f"the peers with their own models, first weights, loss and search, in one run each. Their minutes are those of "
        f"their steps, and of preparing the text; saving and validating is Dragoman's alone, which keeps the best of "
        f"its checkpoints. JoeyNMT also drops attention weights and inner activations. All are scored at beam "
        f"{settings['beam']}, Dragoman with its length penalty, 0.6, the peers with {settings['length_penalty']:g}. A "
        f"target is what Dragoman was to reach with so many steps; who reached more could have stopped earlier.",
    ]
    for found in record["result"]["minutes to BLEU"]:
        parts.append(f"**{title(found['steps'], found['target'])}**")
        rows = [cells(row, name, found["target"]) for name, row in found["toolkits"].items()]
        parts.append("\n".join(_lines([HEAD, ["---", *["---:"] * (len(HEAD) - 1)], *rows])))
    return "\n\n".join(parts)


def _lines(rows: Sequence[Sequence[str]]) -> Iterable[str]:
    return (f"| {' | '.join(row)} |" for row in rows)
