"""What an exported folder says of itself: `dragoman.json`, beside the files of the format it is in."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dragoman.checkpoint import CARD_FILE, EXPORT_FILE, Direction, ModelFolder
from dragoman.config import VERSION, ConfigError, DragomanError, ModelConfig
from dragoman.files import checksum


def describe(loaded: ModelFolder, target: str, files: Iterable[Path] = (), card: Path | None = None) -> bytes:
    """The content of dragoman.json.

    Args:
        loaded: the model.
        target: what it was exported to.
        files: they are verified where the folder is used.
        card: a file that people may edit, which is then not written over.
    """
    content = {
        "format": target,
        "source": loaded.direction.source,
        "target": loaded.direction.target,
        "model": asdict(loaded.model.config),
        "facts": loaded.direction.facts,
        "checksums": {path.name: checksum(path) for path in files},
        "card": checksum(card) if card else None,
        "dragoman": VERSION,
    }
    return (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode()


def read_description(folder: Path, verify: bool = False) -> tuple[Direction, ModelConfig]:
    """What dragoman.json says: what the model translates, and its shape.

    Args:
        folder: that was exported.
        verify: compare the other files with their checksums.

    Raises:
        DragomanError: a file is missing or damaged.
    """
    path = folder / EXPORT_FILE
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        direction = Direction(str(content["source"]), str(content["target"]), dict(content["facts"]))
        config, known = ModelConfig(**content["model"]), dict(content.get("checksums", {}))
    except FileNotFoundError:
        raise DragomanError(f"{folder}: has no {EXPORT_FILE}; only folders that Dragoman exported work here") from None
    except (OSError, ValueError, KeyError, TypeError, RecursionError, ConfigError) as error:
        raise DragomanError(f"{path}: damaged ({error}); export the model again") from None
    for name, expected in known.items() if verify else ():
        if not (folder / name).is_file():
            raise DragomanError(f"{folder / name}: no such file; export the model again")
        if checksum(folder / name) != expected:
            raise DragomanError(f"{folder / name}: damaged, or of another model; export the model again")
    return direction, config


def exported_to(folder: Path) -> str:
    """What a folder was exported to; "" where that can't be read."""
    return str(_legible(folder).get("format", ""))


def refuse_to_replace(folder: Path, target: str) -> None:
    """Raise DragomanError where an earlier export is of another kind than this target, or its card was edited."""
    content, card = _legible(folder), folder / CARD_FILE
    if content.get("format", target) != target:
        raise DragomanError(f"{folder}: an export for {content['format']}; choose another --out")
    if content.get("card") and card.is_file() and checksum(card) != content["card"]:
        raise DragomanError(f"{card}: was edited, and would be written over; choose another --out, or move it away")


def _legible(folder: Path) -> dict[str, Any]:
    """The content of dragoman.json; nothing where there is none, or a damaged one."""
    try:
        content = json.loads((folder / EXPORT_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}
