"""Where a run stands, and how it ended."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from dragoman.config import TrainConfig, differences


@dataclass
class Progress:
    """Where a run stands; saved with every checkpoint."""

    step: int = 0
    epoch: int = 0
    batch: int = 0
    """Batches of this epoch already seen."""
    part_of_epoch: float = 0.0
    """That these are, 0 to 1."""
    accumulate: int = 0
    """Batches whose gradients make one step, over all processes; settled when the run begins."""
    piece_tokens: int = 0
    """Batches of more padded tokens are computed in pieces, because memory is short; 0: never."""
    tokens: int = 0
    """Target tokens seen."""
    seconds: float = 0.0
    """Time spent training and validating."""
    best_score: float = -math.inf
    """Highest value of the metric (the loss counts negatively)."""
    best_loss: float = math.inf
    """Validation loss of the same model; decides between equal scores, such as a young model's BLEU of 0."""
    lowest_loss: float = math.inf
    """Validation loss of whichever model had the lowest."""
    best_step: int = 0
    stale: int = 0
    """Validations since the best one."""
    validated: int = -1
    """Step of the last validation; -1 before the first."""
    skipped: int = 0
    """Steps left out because the loss or the gradient was out of bounds."""
    skipped_in_a_row: int = 0
    skipped_since: int = 0
    """Those since the last validation."""
    start_loss: float = 0.0
    """Training loss of the first step."""
    losses: list[float] = field(default_factory=list)
    """Training loss of each step since the last validation, in nats per target token, smoothed as in training."""
    norms: list[float] = field(default_factory=list)
    """Norm of the gradient of each of these steps."""
    changes: list[str] = field(default_factory=list)
    """What the run went on with that it had not begun with, in words."""
    finished: bool = False

    @staticmethod
    def restore(state: dict[str, Any]) -> Progress:
        """What asdict made of it.

        Raises:
            TypeError: that is something else.
        """
        progress = Progress(**state)
        for name, value in asdict(Progress()).items():
            kinds = (int, float) if isinstance(value, float) else type(value)
            if not isinstance(getattr(progress, name), kinds):
                raise TypeError(f"{name} is {getattr(progress, name)!r}")
        return progress

    @property
    def best(self) -> tuple[float, float]:
        """What a better model must surpass: the metric, and between equals the loss, counted negatively."""
        return self.best_score, -self.best_loss

    def begin_epoch(self) -> None:
        """Move on to the first batch of the next epoch."""
        self.epoch, self.batch, self.part_of_epoch = self.epoch + 1, 0, 0.0

    def forget_best(self) -> None:
        """Let the best model be found anew."""
        self.best_score, self.best_loss, self.lowest_loss = -math.inf, math.inf, math.inf
        self.stale, self.validated, self.finished = 0, -1, False

    def take_up_changes(self, before: dict[str, Any], config: TrainConfig, other_text: bool, other_valid: bool) -> None:
        """Forget what means nothing with the settings and texts that the run goes on with.

        Args:
            before: settings of the run until now (asdict of a TrainConfig).
            config: its settings from now on.
            other_text: the training text has changed.
            other_valid: the validation text has changed.
        """
        changed = {change.split(" was ")[0] for change in differences(before, asdict(config))}
        groups = {name.split(".")[0] for name in changed}
        if other_text or {"seed", "text", "clean"} & groups or "optimizer.batch_tokens" in changed:
            self.begin_epoch()  # the batches are others now
        if "optimizer.accumulate" in changed:
            self.accumulate = 0
        if other_valid or {f"validation.{name}" for name in ("metric", "beam", "max_lines")} & changed:
            self.forget_best()

    def done(self, config: TrainConfig) -> float:
        """Part of the run that is done, 0 to 1 and beyond; 0 where it has no limit."""
        return max(self._parts(config).values(), default=0.0)

    def reached(self, config: TrainConfig) -> list[str]:
        """The settings whose limit the run has reached."""
        return [name for name, part in self._parts(config).items() if part >= 1.0]

    def _parts(self, config: TrainConfig) -> dict[str, float]:
        """Part of the run that is done, by the limits that it has."""
        parts = {}
        if config.max_steps:
            parts["max_steps"] = self.step / config.max_steps
        if config.max_minutes:
            parts["max_minutes"] = self.seconds / 60 / config.max_minutes
        if config.max_epochs:
            parts["max_epochs"] = (self.epoch + self.part_of_epoch) / config.max_epochs
        return parts

    def out_of_patience(self, config: TrainConfig) -> bool:
        """Whether so many validations in a row brought nothing better that the run should end."""
        return 0 < config.validation.patience <= self.stale


@dataclass(frozen=True)
class Outcome:
    """How a call of Trainer.run ended."""

    reason: Literal["limit", "patience", "interrupted", "already finished"]
    progress: Progress
    scores: dict[str, float]
    """Of the model that was kept, on the validation text; empty where the run was interrupted."""
    signal: int = 0
    """The signal that interrupted the run, or came while it was finishing."""
