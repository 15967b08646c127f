"""The tables of growing cost and of other processors, in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

Record = dict[str, Any]


def is_growth(record: Record) -> bool:
    """Whether a results file measures how cost grows."""
    return {"decoding", "text", "start"} <= record["result"].keys()


def growth_tables(record: Record) -> str:
    """Return the tables: decoding by length, preparing by pairs, and the time to start."""
    decoding, text, start = (record["result"][name] for name in ("decoding", "text", "start"))
    ways = ("with_cache", "without_cache")
    by_length = [decoding[f"milliseconds_a_subword_{way}"] for way in ways]
    growth = [decoding[f"total_time_grows_as_length_to_the_{way}"] for way in ways]
    lengths = [
        [n, f"{by_length[0][n]:.2f}", f"{by_length[1][n]:.2f}" if n in by_length[1] else ""] for n in by_length[0]
    ]
    ranges = [f"{min(map(int, known))} to {max(map(int, known))}" for known in by_length]
    powers = [f"{power} ({lengths_known})" for power, lengths_known in zip(growth, ranges, strict=True)]
    lengths.append(["exponent of total time in length (measured between)", *powers])
    sizes = [_size_row(name, row) for name, row in text.items() if isinstance(row, dict)]
    seconds = [*start["seconds_of"].items(), ("the whole command", start["seconds_to_first_translation"])]
    return "\n\n".join(
        [
            f"**Milliseconds per subword**, {decoding['sentences_at_once']} sentences at once, beam "
            f"{decoding['beam']}, {decoding['precision']}",
            _table(["subwords", "with the cache", "whole prefixes"], lengths),
            f"**Preparing text**, preset {text['preset']}, {text['steps']} steps",
            _table(
                ["text", "seconds", "µs per pair", "peak MiB preparing", "peak MiB training", "seconds per step"], sizes
            ),
            "**Time from the command to the first translated line**",
            _table(["", "seconds"], [[name, f"{value:.2f}"] for name, value in seconds]),
        ]
    )


def _size_row(name: str, row: Record) -> list[str]:
    seconds, pair = row["preparation_seconds"]["all"], row["preparation_microseconds_a_pair"]
    peaks = (f"{row[f'peak_resident_mib_{what}']:,}" for what in ("with_preparation", "training"))
    return [name, f"{seconds:.1f}", f"{pair:.0f}", *peaks, f"{row['seconds_a_step']:.3f}"]


def is_processors(record: Record) -> bool:
    """Whether a results file compares processors."""
    return "AVX2" in record["result"]


def processors_table(record: Record) -> str:
    """Return a row for each emulated processor."""
    result = record["result"]
    rows = []
    for name, row in result.items():
        if isinstance(row, dict):
            speeds = (row["training_tokens_per_second"], row["translating_sentences_per_second"])
            figures = [f"{speed[precision]:,.0f}" for speed in speeds for precision in ("fp32", "bf16")]
            right = "yes" if all(row["auto_was_faster"].values()) else "no"
            rows.append([name, *figures, row["auto"], f"{row['milliseconds_to_choose']:.0f}", right])
    head = ["instructions up to", "training fp32", "training bf16", "translating fp32", "translating bf16"]
    head += ["`auto` chooses", "ms to choose", "chose the faster"]
    return (
        f"{result['threads']} threads, preset {result['preset']}; training in target tokens per second, translating in "
        f"sentences of {result['length']} subwords per second.\n\n" + _table(head, rows)
    )


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in lines)
