"""Whose the files in a run's folder are: a run writes over its own, and over nobody else's."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import yaml

from dragoman.checkpoint import (
    CARD_FILE,
    CHECKPOINTS,
    CONFIG_FILE,
    LOCK_FILE,
    METRICS_FILE,
    RUN_FILE,
    VOCABULARY_FILES,
    WEIGHTS_FILE,
    refuse_strange_folder,
)
from dragoman.config import CHECK_FILE, SETTINGS_OF_ONE_CALL, DragomanError, TrainConfig
from dragoman.text.preprocess import locate_texts
from dragoman.training.run_state import list_states

_HELD_OUT, _DATA, _TENSORBOARD = "heldout", "data", "tensorboard"
_FROM_THE_FIRST_STEP_ON = (
    CARD_FILE,
    CONFIG_FILE,
    WEIGHTS_FILE,
    *VOCABULARY_FILES,
    RUN_FILE,
    METRICS_FILE,
    _TENSORBOARD,
)
_IN_DATA = {"key.json", "train", "valid", *VOCABULARY_FILES}
_IN_A_STORE = {"store.json", "source.ids", "source.ends", "target.ids", "target.ends"}


def refuse_strangers(config: TrainConfig) -> None:
    """Look at a run's folder before anything is written into it.

    It is the run's own where a state of one lies in it, or the train.yaml that one writes before its first step. A run
    that ended before that has left no more than .lock, check.json, heldout.* and what was prepared in data.

    Raises:
        DragomanError: training would write over a file or a folder that no run has written.
    """
    folder = Path(config.out)
    if list_states(folder) or _is_of_a_run(folder / RUN_FILE):
        return
    refuse_strange_folder(folder)
    strange = [name for name in _FROM_THE_FIRST_STEP_ON if (folder / name).exists()]
    strange += [name for name, is_own in _OWN.items() if (folder / name).exists() and not is_own(folder / name)]
    if not config.valid and not (folder / LOCK_FILE).exists():
        held_out = (f"{_HELD_OUT}.{language}" for language in (config.source, config.target))
        strange += [name for name in held_out if (folder / name).exists()]
    if strange:
        raise DragomanError(
            f"{folder}: has {' and '.join(strange[:2])}, and nothing shows that a training run wrote that, which this "
            f"one would write over; choose another --out"
        )


def refuse_to_remove_text(config: TrainConfig) -> None:
    """Raise DragomanError where a text of the run is missing, or is among what --restart removes."""
    out = Path(config.out).resolve()
    for path in locate_texts(config):
        place = path.resolve()
        if out / _DATA in place.parents or (place.parent == out and place.name.startswith(f"{_HELD_OUT}.")):
            raise DragomanError(f"{path}: --restart would remove this text; move it to another folder first")


def _is_of_a_run(path: Path) -> bool:
    """Whether a file has the settings of a run: every single one, as nobody writes them by hand."""
    names = {field.name.rstrip("_") for field in fields(TrainConfig)} - {*SETTINGS_OF_ONE_CALL}
    return names <= _mapping(path, yaml.safe_load).keys()


def _is_report(path: Path) -> bool:
    """Whether a file is what the doctor writes."""
    return _mapping(path, json.loads).keys() == {"pairs", "usable", "flagged", "findings"}


def _is_prepared(folder: Path) -> bool:
    """Whether a folder has nothing but prepared text, perhaps half of it."""
    if not _has_only(folder, _IN_DATA):
        return False
    return all(_has_only(store, _IN_A_STORE) for store in (folder / "train", folder / "valid") if store.exists())


def _is_empty(folder: Path) -> bool:
    return _has_only(folder, set())


_OWN: dict[str, Callable[[Path], bool]] = {CHECK_FILE: _is_report, _DATA: _is_prepared, CHECKPOINTS: _is_empty}


def _has_only(folder: Path, names: set[str]) -> bool:
    """Whether a path is a folder with no others than these, and with what was being written when a run ended."""
    return folder.is_dir() and all(path.name in names or path.suffix == ".partial" for path in folder.iterdir())


def _mapping(path: Path, read: Callable[[str], Any]) -> dict[Any, Any]:
    """What a file says by name; nothing where it says something else, or can't be read."""
    try:
        found = read(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
