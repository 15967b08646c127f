"""The verbs that bring and divide parallel text: download and split."""

from __future__ import annotations

import textwrap
from pathlib import Path

from dragoman.cli.options import DownloadConfig, SplitConfig
from dragoman.datasets import PARTS
from dragoman.datasets import download as texts
from dragoman.datasets import split as parts
from dragoman.datasets.registry import SOURCES
from dragoman.runtime.console import say


def download(config: DownloadConfig) -> int:
    """Download a text, or list what there is; returns the exit code."""
    if config.name:
        texts.download(config.name, Path(config.out), config.mirror)
        return 0
    names: dict[str, list[str]] = {}
    for name, source in SOURCES.items():
        names.setdefault(source.about, []).append(name)
    entries = [(", ".join(alike), about) for about, alike in names.items()]
    entries += [(f"{library}:…", about) for library, about in texts.LIBRARIES.items()]
    for name, about in entries:
        print(textwrap.fill(name, 79, break_on_hyphens=False))
        print(textwrap.indent(textwrap.fill(about, 75, break_on_hyphens=False), "    "))
    return 0


def split(config: SplitConfig) -> int:
    """Write the three parts of a text and say what is in them; returns the exit code."""
    counts = parts.split(config.text, config.source, config.target, Path(config.out), config.pairs)
    prefixes = {part: Path(config.out, part) for part in PARTS}
    for part, prefix in prefixes.items():
        say(f"{prefix}.{config.source}, {prefix}.{config.target}: {counts.pop(part):,} pairs")
    if counts:
        say("left out: " + ", ".join(f"{count:,} {reason}" for reason, count in counts.items()))
    options = " ".join(f"--{part} {prefix}" for part, prefix in prefixes.items())
    say(f"now:\n$ dragoman check --source {config.source} --target {config.target} {options}")
    return 0
