"""What an exported folder says of itself: `dragoman.json`, beside the files of the format it is in."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dragoman.checkpoint import CARD_FILE, CONFIG_FILE, EXPORT_FILE, RUN_FILES, Direction, ModelFolder, imported_from
from dragoman.config import VERSION, ConfigError, DragomanError, ModelConfig
from dragoman.runtime.files import checksum


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


def not_for_reports(folder: Path) -> list[Path]:
    """Where a model folder, exported or not, and its run keep what they are made of, whether it is there or not."""
    return [folder / name for name in (*RUN_FILES, EXPORT_FILE, *own_files(folder))]


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
        (direction, config), known = _model(content), dict(content.get("checksums", {}))
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
    return str(_legible(folder / EXPORT_FILE).get("format", ""))


def is_as_exported(folder: Path, name: str) -> bool:
    """Whether a file is the one that was exported; False where that can't be told."""
    known = _legible(folder / EXPORT_FILE).get("checksums")
    return isinstance(known, dict) and name in known and known[name] == checksum(folder / name)


def own_files(folder: Path) -> set[str]:
    """The names of the files that an export has written; none where there is no export, or an old one."""
    known = _legible(folder / EXPORT_FILE).get("checksums")
    return {*known, CARD_FILE, EXPORT_FILE} if isinstance(known, dict) and known else set()


def refuse_to_replace(folder: Path, loaded: ModelFolder, target: str = "") -> None:
    """Raise DragomanError where an earlier result is of another kind or model, or its card was edited.

    Args:
        folder: with an earlier export or import, or none.
        loaded: the model that is to take its place.
        target: what it is exported to; nothing where it was imported.
    """
    content, card = _legible(folder / (EXPORT_FILE if target else CONFIG_FILE)), folder / CARD_FILE
    if target and content.get("format", target) != target:
        raise DragomanError(f"{folder}: an export for {content['format']}; choose another --out")
    try:
        before, config = _model(content)
    except (ValueError, KeyError, TypeError, ConfigError):
        before, config = loaded.direction, loaded.model.config  # nothing is known
    if _origin(before) != _origin(loaded.direction) or config.shape() != loaded.model.config.shape():
        raise DragomanError(f"{folder}: another model is there ({' '.join(_origin(before))}); choose another --out")
    if content.get("card") and card.is_file() and checksum(card) != content["card"]:
        raise DragomanError(f"{card}: was edited, and would be written over; choose another --out, or move it away")


def _model(content: dict[str, Any]) -> tuple[Direction, ModelConfig]:
    direction = Direction(str(content["source"]), str(content["target"]), dict(content["facts"]))
    return direction, ModelConfig(**content["model"])


def _origin(direction: Direction) -> tuple[str, ...]:
    """What tells models apart for people: languages, and where it is from if that is another toolkit."""
    imported = imported_from(direction.facts)
    return direction.source, "→", direction.target, *([f"imported from {imported}"] if imported else [])


def _legible(path: Path) -> dict[str, Any]:
    """The content of a JSON file; nothing where there is none, or a damaged one."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}
