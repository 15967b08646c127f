"""The tables of BLEU: after equally many steps, and by direction; in Markdown."""

from __future__ import annotations

from statistics import fmean, stdev
from typing import Any

Record = dict[str, Any]
HEAD = ("", "minutes", "times Dragoman's", "BLEU", "of each seed")


def is_time_to_quality(record: Record) -> bool:
    """Whether a results file compares time and quality."""
    return "toolkits" in record["result"]


def mean(runs: Record, name: str, digits: int) -> str:
    """Return the mean of the runs of all seeds, with the standard deviation where there are several."""
    values = [run[name] for run in runs.values()]
    return f"{fmean(values):.{digits}f}" + (f" ± {stdev(values):.{digits}f}" if len(values) > 1 else "")


def cells(name: str, toolkits: Record) -> tuple[str, ...]:
    """Return one row under HEAD."""
    runs = toolkits[name]
    times = [run["minutes"] / toolkits["dragoman"][seed]["minutes"] for seed, run in runs.items()]
    return (
        f"{name.replace('marian', 'MarianMTModel')} {next(iter(runs.values()))['precision']}",
        mean(runs, "minutes", 1),
        f"{fmean(times):.2f}",
        mean(runs, "bleu", 2),
        ", ".join(f"{run['bleu']:.2f}" for run in runs.values()),
    )


def quality_tables(record: Record) -> str:
    """Return the table of a results file, after the settings and versions."""
    versions = ", ".join(f"{name} {version}" for name, version in sorted(record["versions"].items()))
    settings, toolkits = record["settings"], record["result"]["toolkits"]
    rows = [HEAD, ("---", *["---:"] * (len(HEAD) - 1)), *(cells(name, toolkits) for name in toolkits)]
    train = f"Dragoman with `{settings['train']}`, MarianMTModel with its own initial weights, loss and search"
    parts = [
        f"{settings['threads']} threads each; preset {settings['preset']}; {record['result']['steps']:,} steps; "
        f"{versions}; commit {record['commit']}.",
        f"Both make the same steps on the same batches with the same learning rates: {train}. Minutes include "
        f"preparing the text and, for Dragoman, saving and validating; only Dragoman keeps its best checkpoint. Both "
        f"search in fp32 with a beam of {settings['beam']}, without length penalty.",
        "\n".join(f"| {' | '.join(row)} |" for row in rows),
    ]
    return "\n\n".join(parts)


def is_by_direction(record: Record) -> bool:
    """Whether a results file has the scores of each kind of model in each direction."""
    return any(kind.startswith(("a model for each", "pairs alone")) for kind in record["result"])


def directions_table(record: Record) -> str:
    """Return BLEU by kind of model and direction, after the settings."""
    kinds, settings = record["result"], record["settings"]
    directions = list(dict.fromkeys(direction for found in kinds.values() for direction in found))
    rows = [["BLEU", *directions, "mean"], ["---", *["---:"] * (len(directions) + 1)]]
    for kind, found in kinds.items():
        scores = [mean(found[direction], "bleu", 1) if direction in found else "" for direction in directions]
        all_runs = [run["bleu"] for runs in found.values() for run in runs.values()]
        rows.append([kind, *scores, f"{fmean(all_runs):.1f}" if all(scores) else ""])
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return f"Preset {settings['preset']}, batches of {settings['batch_tokens']:,} tokens. {record['note']}\n\n{table}"


def is_shapes(record: Record) -> bool:
    """Whether a results file has the scores and speeds of several shapes of a model."""
    return "shapes" in record


def shapes_table(record: Record) -> str:
    """Return scores and speed by shape; the first one is what the others are compared with."""
    first, *_ = record["result"].values()
    rows = [
        "| shape | steps | minutes, estimated | BLEU | chrF2 | sentences/s | times |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for found in record["result"].values():
        scores, speed = found["scores"], found["sentences_per_second"]
        times = f"{speed:.0f} | {speed / first['sentences_per_second']:.2f}"
        name = f"`{found['settings']}` | {found['steps']:,} | {found['minutes']:.0f}"
        rows.append(f"| {name} | {mean(scores, 'bleu', 1)} | {mean(scores, 'chrf', 1)} | {times} |")
    return "\n".join(rows)
