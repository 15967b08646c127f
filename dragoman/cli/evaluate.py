"""The verb that compares evaluations."""

from __future__ import annotations

import json
from pathlib import Path

from dragoman.cli.options import CompareConfig
from dragoman.evaluation.report import compare_evaluations, comparison_table
from dragoman.runtime.files import prepare_reports, write_atomically


def compare(config: CompareConfig) -> int:
    """Print a table of scores and differences; returns the exit code."""
    prepare_reports({"--json": config.json}, map(Path, [*config.system, *config.baseline]))
    comparison = compare_evaluations(config.system, config.baseline)
    if config.json:
        write_atomically(Path(config.json), json.dumps(comparison, indent=1, ensure_ascii=False).encode())
    print(comparison_table(comparison["result"]), end="")  # last: whoever reads it may be gone
    return 0
