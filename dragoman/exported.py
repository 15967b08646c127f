"""What an exported folder says of itself: `dragoman.json`, beside the files of the format it is in."""

from __future__ import annotations

import json
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from dragoman.checkpoint import EXPORT_FILE, Direction, ModelFolder
from dragoman.config import ConfigError, DragomanError, ModelConfig


def describe(loaded: ModelFolder, target: str) -> bytes:
    """The content of dragoman.json for a model exported to this target."""
    content = {
        "format": target,
        "source": loaded.direction.source,
        "target": loaded.direction.target,
        "model": asdict(loaded.model.config),
        "facts": loaded.direction.facts,
        "dragoman": version("dragoman"),
    }
    return (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode()


def read_description(folder: Path) -> tuple[Direction, ModelConfig]:
    """What dragoman.json says: what the model translates, and its shape.

    Raises:
        DragomanError: the file is missing or damaged.
    """
    path = folder / EXPORT_FILE
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        direction = Direction(str(content["source"]), str(content["target"]), dict(content["facts"]))
        return direction, ModelConfig(**content["model"])
    except FileNotFoundError:
        raise DragomanError(f"{folder}: has no {EXPORT_FILE}; only folders that Dragoman exported work here") from None
    except (OSError, ValueError, KeyError, TypeError, RecursionError, ConfigError) as error:
        raise DragomanError(f"{path}: damaged ({error}); export the model again") from None
