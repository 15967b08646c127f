"""Public parallel texts that can be downloaded by name; registry.yaml lists them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from dragoman.datasets import PARTS


@dataclass(frozen=True)
class File:
    """One file of a source."""

    address: str
    """Below the source's base address."""
    sha256: str = ""
    """Of the file; empty where it changes, or where nobody has published it."""
    members: dict[str, str] = field(default_factory=dict)
    """What to take out of an archive: the name of the file to write, by that of the member."""
    columns: Sequence[str] = ()
    """Languages of a table's first columns. It becomes training, validation and test text, named as members says."""

    @property
    def name(self) -> str:
        """The file's own name."""
        return self.address.rsplit("/", 1)[-1]

    @property
    def written(self) -> list[str]:
        """The files that are taken out of it."""
        if not self.columns:
            return list(self.members.values())
        return [f"{prefix}-{part}.{x}" for prefix in self.members.values() for part in PARTS for x in self.columns]


@dataclass(frozen=True)
class Source:
    """A parallel text, and what to know before using it."""

    about: str
    home: str
    licence: str
    base: str
    files: Sequence[File]
    tests: Sequence[tuple[str, str]] = ()
    """Validation and test text that sacreBLEU fetches: name of its test set, and direction."""


def _read_registry() -> dict[str, Source]:
    entries = yaml.safe_load(Path(__file__).with_name("registry.yaml").read_text(encoding="utf-8"))
    return {
        name: Source(**entry | {"files": [File(**file) for file in entry["files"]]}) for name, entry in entries.items()
    }


SOURCES = _read_registry()
"""By name."""
