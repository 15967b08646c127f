"""What the command line of benchmarks/speed.py says, for all parts of the comparison."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

SIZES = ("tiny", "small", "base")
PRECISIONS = ("fp32", "bf16", "int8")
PEERS = ("nn.Transformer", "marian", "annotated", "joeynmt", "ctranslate2")


@dataclass(frozen=True)
class Settings:
    """One run of the benchmark."""

    data: Path
    """Folder of the raw text."""
    work: Path
    """Folder for environments, logs, prepared text and models."""
    model: Path
    """Model folder to decode with."""
    threads: int
    """Of every competitor."""
    repeats: int
    """Rounds."""
    batches: int
    """Training batches of a measurement; 0: as many as suit the size."""
    lines: int
    """Lines of the test text to translate; 0: all."""
    sizes: tuple[str, ...]
    precisions: tuple[str, ...]
    peers: tuple[str, ...]
    report: Callable[[str], None]
    """Takes one line for people."""
    device: str = "cpu"
