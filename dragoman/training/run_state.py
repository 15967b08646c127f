"""Where a run stands, and how that is saved: any crash leaves a complete state, and a loaded one is not trusted.

`checkpoints/state-SERIAL-SHA256.pt`: the name contains the first digits of the content's checksum, as torch.hub's do.
The two newest are kept. A run resumes from the newest one that is intact.
"""

import hashlib
import json
import math
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import filelock
import torch

from dragoman.config import DragomanError, Settings, TrainConfig, differences
from dragoman.folder import CHECKPOINTS, LOCK_FILE
from dragoman.runtime.allocator import is_out_of_memory
from dragoman.runtime.console import Report
from dragoman.runtime.files import checksum, make_folder, not_saved, remove_leftovers, settle

_STATES_KEPT, _DIGITS = 2, 16
_MIN_SCORE_FOR_PATIENCE = 1.0  # BLEU or chrF below which a lower loss counts as an improvement
_LOCK_SECONDS = 5.0  # that a run which was just told to stop may still hold its folder
_LIMITS = ["max_minutes", "max_steps", "max_epochs"]
# These do not change what a run learns: its text is identified by content.
_WITHOUT_EFFECT = ["out", "restart", "accept_changes", "dry_run", "device", "compile", "save_minutes", "log_every"]
_WITHOUT_EFFECT += ["train", "valid", "test"]
_NEW_TEXT = "the training text has changed"


@dataclass
class Progress(Settings):
    """Where a run stands; part of every saved state, under these names."""

    step: int = 0
    epoch: int = 0
    batch: int = 0  # batches of this epoch already seen
    part_of_epoch: float = 0.0  # the same, 0 to 1
    accumulate: int = 0  # batches whose gradients make one step, over all processes; settled when the run starts
    piece_tokens: int = 0  # batches of more padded tokens are computed in pieces; 0: never
    tokens: int = 0  # target tokens seen
    seconds: float = 0.0  # spent training and validating
    best_score: float = -math.inf  # highest value of the metric (the loss counts negatively)
    best_loss: float = math.inf  # validation loss of the same model; decides between equal scores
    lowest_loss: float = math.inf  # lowest validation loss of all
    best_step: int = 0
    stale: int = 0  # validations since the best one
    validated: int = -1  # step of the last validation; -1 before the first
    skipped: int = 0  # steps, because the loss or the gradient was out of bounds
    skipped_in_a_row: int = 0
    skipped_since: int = 0  # since the last validation
    start_loss: float = 0.0  # training loss of the first step
    losses: list[float] = field(default_factory=list)  # training loss of each step since the last validation
    norms: list[float] = field(default_factory=list)  # of the gradients of these steps
    changes: list[str] = field(default_factory=list)  # while the run was stopped, in words
    finished: bool = False

    @property
    def best(self) -> tuple[float, float]:
        """What a better model must exceed: the metric, and between equals the loss, counted negatively."""
        return self.best_score, -self.best_loss

    def start_next_epoch(self) -> None:
        """Move to the first batch of the next epoch."""
        self.epoch, self.batch, self.part_of_epoch = self.epoch + 1, 0, 0.0

    def forget_best(self) -> None:
        """Search for the best model anew."""
        self.best_score, self.best_loss, self.lowest_loss = -math.inf, math.inf, math.inf
        self.stale, self.validated, self.finished = 0, -1, False

    def count_validation(self, loss: float, better: bool) -> None:
        """Note a validation of this step, and whether its model is the best so far."""
        self.validated = self.step
        if better:
            self.best_step, self.stale = self.step, 0
        elif self.best_score < _MIN_SCORE_FOR_PATIENCE and loss < self.lowest_loss:
            self.stale = 0  # no score worth the name yet, but the model learns
        else:
            self.stale += 1
        self.lowest_loss = min(self.lowest_loss, loss)
        self.losses, self.norms, self.skipped_since = [], [], 0

    def done(self, config: TrainConfig) -> float:
        """Part of the run that is done, 0 to 1 and beyond; 0 if the run has no limit."""
        return max(self.parts(config).values(), default=0.0)

    def parts(self, config: TrainConfig) -> dict[str, float]:
        """Part of each limit that is reached, 0 to 1 and beyond, by the name of the setting."""
        done = {
            "max_steps": float(self.step),
            "max_minutes": self.seconds / 60,
            "max_epochs": self.epoch + self.part_of_epoch,
        }
        return {name: value / limit for name, value in done.items() if (limit := getattr(config, name))}

    def out_of_patience(self, config: TrainConfig) -> bool:
        """Whether the run stops because too many validations in a row brought no improvement."""
        return 0 < config.validation.patience <= self.stale


@dataclass(frozen=True)
class Outcome:
    """How a call of Trainer.run ended."""

    reason: Literal["limit", "patience", "interrupted", "already finished"]
    progress: Progress
    scores: dict[str, float]  # of the kept model, on the validation text; empty if the run was interrupted
    signal: int = 0  # that interrupted the run, or arrived while it was finishing


def save_state(folder: Path, state: dict[str, Any]) -> None:
    """Write the state of a run: tensors, numbers, strings, lists and dicts. If that fails, the one before is intact."""
    place = folder / CHECKPOINTS
    make_folder(place)
    before = list_states(folder)
    serial = int(before[-1].name.split("-")[1]) + 1 if before else 1
    partial = place / "state.partial"
    try:
        with partial.open("wb") as file:
            torch.save(state, file)
            file.flush()
            settle(file, partial, place / f"state-{serial:06d}-{checksum(partial)[:_DIGITS]}.pt")
    except (OSError, RuntimeError) as error:  # torch reports a full disk as a RuntimeError
        partial.unlink(missing_ok=True)
        raise not_saved(place / "state", error, "what was saved before is intact" if before else "") from None
    for old in before[: -_STATES_KEPT + 1]:
        old.unlink(missing_ok=True)


def load_state(folder: Path, report: Report = lambda line: None) -> dict[str, Any] | None:
    """Load the newest intact state of a run, and report those that are damaged; None if nothing was saved."""
    states = list_states(folder)
    for path in reversed(states):
        if checksum(path)[:_DIGITS] == path.stem.split("-")[2]:
            try:
                state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
                return state
            except Exception as error:  # torch.load may raise anything
                if is_out_of_memory(error) or isinstance(error, OSError):
                    reason = getattr(error, "strerror", None) or error
                    raise DragomanError(f"{path}: can't be read ({reason}); what was saved is still there") from None
        report(f"{path}: damaged; resuming from the state before it")
    if states:
        raise DragomanError(f"{states[-1]}: damaged, and no intact state is left; start again with --restart")
    return None


def list_states(folder: Path) -> list[Path]:
    """The saved states of a run, oldest first."""
    return sorted((folder / CHECKPOINTS).glob("state-*-*.pt"))


def resume_progress(state: dict[str, Any], config: TrainConfig, identity: object, text: str, valid: str) -> Progress:
    """Where a saved run stands, without what is meaningless under the present settings and texts.

    The identity is ModelFolder.identity of the requested model, and texts are fingerprints. What makes a different
    model than the run would have become is refused unless it was accepted, and noted in words. A higher limit also does
    so if the schedule falls towards the end of the run.
    """
    if state["identity"] != identity:
        cure = "choose another --out, or start again with --restart"
        raise DragomanError(f"{config.out}: contains a run with another model shape or other subwords; {cure}")
    before, now, progress = state["settings"], asdict(config), Progress(**state["progress"])
    changes = differences(before, now, [*_LIMITS, *_WITHOUT_EFFECT, "preset"])  # what a preset sets is compared itself
    if state["text"] != text:
        changes.append(_NEW_TEXT)
    if changes and not config.accept_changes:
        cure = "choose another --out, resume with these settings by --accept-changes, or start again with --restart"
        raise DragomanError(f"{config.out}: contains a run with other settings ({'; '.join(changes)}); {cure}")
    names = {change.split(" was ")[0] for change in changes}
    of_batches = {_NEW_TEXT, "seed", "weights", "temperature", "optimizer.batch_tokens"} & names
    if of_batches or any(name.startswith(("text.", "clean.")) for name in names):
        progress.start_next_epoch()
    if "optimizer.accumulate" in names:
        progress.accumulate = 0
    of_scores = {"validation.metric", "validation.beam", "validation.max_lines"} & names
    if of_scores or state["validation text"] != valid:
        progress.forget_best()
    if config.optimizer.schedule in ("linear", "cosine"):
        changes += differences({name: before[name] for name in _LIMITS}, now)
    progress.changes += changes if progress.step else []
    return progress


def settings_digest(config: TrainConfig) -> str:
    """SHA-256 of a run's settings except its seed: the same for runs whose models may be averaged."""
    left_out = (*_WITHOUT_EFFECT, "seed", "from_")
    settings = {name: value for name, value in asdict(config).items() if name not in left_out}
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def run_lock(folder: Path) -> AbstractContextManager[object]:
    """Hold a run's folder, in a with statement; the system releases it when the process ends, for whatever reason."""
    make_folder(folder)
    try:
        held = filelock.FileLock(folder / LOCK_FILE).acquire(timeout=_LOCK_SECONDS)
    except filelock.Timeout:
        cure = "wait for it, stop it, or choose another --out"
        raise DragomanError(f"{folder}: another process is training in this folder; {cure}") from None
    remove_leftovers(folder)
    return held
