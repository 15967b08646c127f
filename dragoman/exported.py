"""What an exported folder says of itself: `dragoman.json`, beside the files of the format it is in."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from dragoman.checkpoint import EXPORT_FILE, Direction, ModelFolder
from dragoman.config import ConfigError, DragomanError, ModelConfig
from dragoman.fetching import checksum


def describe(loaded: ModelFolder, target: str, files: Iterable[Path] = ()) -> bytes:
    """The content of dragoman.json for a model exported to this target, with the checksums of these files."""
    content = {
        "format": target,
        "source": loaded.direction.source,
        "target": loaded.direction.target,
        "model": asdict(loaded.model.config),
        "facts": loaded.direction.facts,
        "checksums": {path.name: checksum(path) for path in files},
        "dragoman": version("dragoman"),
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
