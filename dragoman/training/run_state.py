"""What a run needs to continue exactly: saved so that any crash leaves a whole one, and loaded with suspicion.

`checkpoints/state-SERIAL-SHA256.pt`: the name holds the first digits of the content's checksum, as torch.hub's do. The
two newest are kept; the newest whole one wins.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO

import filelock
import torch

from dragoman.checkpoint import CHANGES_FACT, CHECKPOINTS, LOCK_FILE, SETTINGS_FACT, VALID_FACT, ModelFolder
from dragoman.config import DragomanError, TrainConfig, UnreadableError, differences
from dragoman.runtime.allocator import is_out_of_memory
from dragoman.runtime.console import Report
from dragoman.runtime.files import make_folder, not_saved, settle
from dragoman.training.progress import Progress

_KEPT, _DIGITS = 2, 16
_LAST_WORDS = 5.0  # seconds that a run which was just told to end may still hold its folder
# Where a run lies and what it shows; its text is known by its content.
_WITHOUT_EFFECT = ["out", "restart", "accept_changes", "dry_run", "device", "save_minutes", "log_every"]
_WITHOUT_EFFECT += ["train", "valid", "test"]
_LIMITS = ["max_minutes", "max_steps", "max_epochs"]
_FREE = [*_LIMITS, *_WITHOUT_EFFECT]  # may change while a run continues
_NAME = re.compile(rf"state-(\d+)-([0-9a-f]{{{_DIGITS}}})\.pt")


def save_state(folder: Path, state: dict[str, Any]) -> None:
    """Write the state of a run: tensors, numbers, texts, lists and dicts.

    Raises:
        DragomanError: it can't be written; the state before is intact.
    """
    place = folder / CHECKPOINTS
    make_folder(place)
    before = list_states(folder)
    partial = place / "state.partial"
    try:
        with partial.open("wb") as file:
            hashing = _Hashing(file)
            torch.save(state, hashing)  # type: ignore[arg-type]
            name = f"state-{_serial(before[-1]) + 1 if before else 1:06d}-{hashing.digest.hexdigest()[:_DIGITS]}.pt"
            settle(file, partial, place / name)
    except (OSError, RuntimeError) as error:  # torch reports a full disk as a RuntimeError
        partial.unlink(missing_ok=True)
        raise not_saved(place / "state", error, "what was saved before is intact" if before else "") from None
    for old in before[: -_KEPT + 1]:
        old.unlink(missing_ok=True)


def load_state(folder: Path, report: Report = lambda line: None) -> dict[str, Any] | None:
    """The newest whole state of a run, or None where nothing was saved.

    Args:
        folder: of the run.
        report: told when the newest one is damaged.

    Raises:
        DragomanError: all of them are damaged.
        UnreadableError: the newest can't be read now.
    """
    states = list_states(folder)
    for path in reversed(states):
        try:
            return _load(path)
        except Exception as error:  # there is nothing that torch.load would not raise
            gone = isinstance(error, FileNotFoundError | IsADirectoryError)
            if is_out_of_memory(error) or (isinstance(error, OSError) and not gone):
                reason = "too little memory" if is_out_of_memory(error) else getattr(error, "strerror", None) or error
                raise UnreadableError(f"{path}: can't be read ({reason}); what was saved is still there") from None
            report(f"{path}: damaged; going on from the state before it")
    if states:
        raise DragomanError(f"{states[-1]}: damaged, and no whole state is left; begin again with --restart")
    return None


def has_whole_model(folder: Path, report: Report) -> bool:
    """Whether the model that a run kept is still there, and whole.

    Args:
        folder: of the run.
        report: told what is the matter.

    Raises:
        UnreadableError: it can't be read now, so that nobody knows.
    """
    try:
        ModelFolder.load(folder)
    except UnreadableError:
        raise
    except DragomanError as error:
        report(f"{error}; going on without it, from the state of the run")
        return False
    return True


@contextmanager
def taking_up(folder: Path) -> Iterator[None]:
    """Say what is the matter where the state of a run, which is whole, can't be taken up.

    Raises:
        DragomanError: memory is short, or something in the state is missing or of another kind.
    """
    try:
        yield
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        if is_out_of_memory(error):
            raise DragomanError(f"{folder}: too little memory to take the run up again; make room") from None
        raise DragomanError(
            f"{folder}: holds a run of another version of Dragoman; choose another --out, or begin again with --restart"
        ) from None


def accepted_changes(state: dict[str, Any], identity: object, config: TrainConfig, text: str) -> list[str]:
    """What a run goes on with that it did not begin with, in words, where that makes another model of it.

    More room does so where the schedule falls towards the end.

    Args:
        state: of the run that was saved.
        identity: of the model that is asked for (ModelFolder.identity).
        config: of the run that is asked for.
        text: fingerprint of its training text.

    Raises:
        DragomanError: the run is not the one that was saved, and nobody has accepted that.
    """
    if state["identity"] != identity:
        raise DragomanError(
            f"{config.out}: holds a run with a model of another shape or other subwords; choose another --out, or "
            f"begin again with --restart"
        )
    changes = differences(state["settings"], asdict(config), _FREE)
    if state["text"] != text:
        changes.append("the training text is another")
    if changes and not config.accept_changes:
        raise DragomanError(
            f"{config.out}: holds a run with other settings ({'; '.join(changes)}); choose another --out, continue "
            f"all the same with --accept-changes, or begin again with --restart"
        )
    if config.optimizer.schedule in ("linear", "cosine"):
        changes += differences({name: state["settings"][name] for name in _LIMITS}, asdict(config))
    return changes if state["progress"]["step"] else []


def facts_of_run(config: TrainConfig, progress: Progress, valid: str, device: str) -> dict[str, Any]:
    """What is told of a whole run with its model.

    Args:
        config: of the run.
        progress: where it ended.
        valid: fingerprint of the validation text.
        device: what it ran on, in words.
    """
    facts = {"steps": progress.step, "minutes": round(progress.seconds / 60, 1), "on": device}
    facts |= {SETTINGS_FACT: settings_digest(config), VALID_FACT: valid}
    return facts | ({CHANGES_FACT: "; ".join(progress.changes)} if progress.changes else {})


def settings_digest(config: TrainConfig) -> str:
    """SHA-256 of what the settings of a run say, but for its seed: the same for runs that may be averaged."""
    settings = {
        name: value for name, value in asdict(config).items() if name not in (*_WITHOUT_EFFECT, "seed", "from_")
    }
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def list_states(folder: Path) -> list[Path]:
    """The states that a run keeps, oldest first."""
    return sorted((p for p in (folder / CHECKPOINTS).glob("state-*.pt") if _NAME.fullmatch(p.name)), key=_serial)


def _serial(path: Path) -> int:
    match = _NAME.fullmatch(path.name)
    assert match is not None
    return int(match[1])


def _load(path: Path) -> dict[str, Any]:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    match = _NAME.fullmatch(path.name)
    if match is None or digest.hexdigest()[:_DIGITS] != match[2]:
        raise ValueError("its checksum differs")
    state = torch.load(path, map_location="cpu", weights_only=True)
    if not isinstance(state, dict):
        raise ValueError("not a state")
    return state


class _Hashing:
    """A file that computes the checksum of what is written to it."""

    def __init__(self, file: BinaryIO) -> None:
        self.digest = hashlib.sha256()
        self._file = file

    def write(self, content: bytes) -> int:
        """Write, as a file does."""
        self.digest.update(content)
        return self._file.write(content)

    def flush(self) -> None:
        """Flush, as a file does."""
        self._file.flush()


@contextmanager
def run_lock(folder: Path) -> Iterator[None]:
    """Hold a run's folder; the system lets go of it when the process ends, however it ends.

    Raises:
        DragomanError: another process holds it.
    """
    make_folder(folder)
    lock = filelock.FileLock(folder / LOCK_FILE)
    try:
        lock.acquire(timeout=_LAST_WORDS)
    except filelock.Timeout:
        raise DragomanError(
            f"{folder}: another process is training in this folder; wait for it or stop it, or choose another --out"
        ) from None
    try:
        yield
    finally:
        lock.release()
