"""What an exported folder is: the files of a library's format, a card, the proof, and `dragoman.json` about them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from dragoman.checkpoint import (
    CARD_FILE,
    CONFIG_FILE,
    EXPORT_FILE,
    MODEL_FILES,
    RUN_FILES,
    Direction,
    ModelFolder,
    imported_from,
)
from dragoman.config import VERSION, ConfigError, DragomanError, ModelConfig
from dragoman.runtime.files import checksum

PARITY_FILE = "parity.json"
"""The result of the proof, in exported and in imported folders."""
_DAMAGE = (OSError, ValueError, KeyError, TypeError, RecursionError, ConfigError)


@dataclass(frozen=True)
class Description:
    """What `dragoman.json` says about its folder, or `config.json` about a model folder."""

    target: str  # what the model was exported to; empty for a model folder
    direction: Direction
    config: ModelConfig
    checksums: dict[str, str]  # SHA-256 of each file that the library reads


def describe(loaded: ModelFolder, target: str, files: Iterable[Path] = ()) -> bytes:
    """The content of `dragoman.json`, with the checksums of the files that the library reads."""
    content = {
        "format": target,
        "source": loaded.direction.source,
        "target": loaded.direction.target,
        "model": asdict(loaded.model.config),
        "facts": loaded.direction.facts,
        "checksums": {path.name: checksum(path) for path in files},
        "dragoman": VERSION,
    }
    return (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode()


def read_description(folder: Path, verify: bool = False) -> Description:
    """What an exported folder says about itself; verify compares its files with their checksums."""
    try:
        description = _read(folder / EXPORT_FILE)
    except _DAMAGE as error:
        raise DragomanError(f"{folder / EXPORT_FILE}: missing or damaged ({error}); export the model again") from None
    for name, expected in description.checksums.items() if verify else ():
        if not (folder / name).is_file() or checksum(folder / name) != expected:
            raise DragomanError(f"{folder / name}: missing, damaged, or of another model; export the model again")
    return description


def _read(path: Path) -> Description:
    content = json.loads(path.read_text(encoding="utf-8"))
    direction = Direction(content["source"], content["target"], content["facts"])
    checksums = dict(content.get("checksums", {}))
    return Description(content.get("format", ""), direction, ModelConfig(**content["model"]), checksums)


def files_of_earlier_result(folder: Path, loaded: ModelFolder, target: str = "") -> set[str]:
    """Names of what an earlier export of this model to this target left in a folder; without a target, an import of it.

    The same model has the same languages, origin and shape. The result is empty if the folder has something else.
    """
    with suppress(*_DAMAGE):
        found, ours = _read(folder / (EXPORT_FILE if target else CONFIG_FILE)), loaded.direction
        names = [(one.source, one.target, imported_from(one.facts)) for one in (found.direction, ours)]
        same = names[0] == names[1] and found.config.shape() == loaded.model.config.shape()
        if same and found.target == target and (folder / PARITY_FILE).is_file():
            return {*(found.checksums if target else MODEL_FILES), CARD_FILE, EXPORT_FILE, PARITY_FILE}
    return set()


def files_of_model(folder: Path) -> list[Path]:
    """What a model folder, exported or not, and its run may contain that begins as a report; none may replace it."""
    return [folder / name for name in (*RUN_FILES, EXPORT_FILE, PARITY_FILE)]
