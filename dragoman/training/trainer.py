"""The training loop (section 5): batches in, a better model out; stops and continues as if it had not.

Shapes: B batch, S source length, T target length, N real target positions, V vocabulary.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from dragoman.checkpoint import (
    ModelFolder,
    average_weights,
    checkpoint_path,
    list_checkpoints,
    load_training_state,
    read_weights,
    save_training_state,
    save_weights,
)
from dragoman.config import DragomanError, TrainConfig
from dragoman.model.transformer import Transformer
from dragoman.text.batches import Batch, collate, plan_epoch, plan_in_order
from dragoman.text.preparation import PreparedText
from dragoman.training.loss import TrainingObjective
from dragoman.training.memory import keep_freed_memory
from dragoman.training.optimizer import build_optimizer, learning_rate
from dragoman.training.precision import use_bf16
from dragoman.training.recorder import Recorder
from dragoman.training.signals import StopRequest

_MOST_SKIPPED = 20  # consecutive steps without a finite gradient before the run gives up


@dataclass(frozen=True)
class Validation:
    """How well the model translates the validation text."""

    scores: dict[str, float]
    """bleu and chrf, 0 to 100."""
    signatures: dict[str, str]
    samples: list[tuple[str, str, str]] = field(default_factory=list)
    """(source, reference, translation) to look at."""


Validate = Callable[[Transformer], Validation]
"""Translates the validation text; given by the command line, because training knows nothing of inference."""


@dataclass
class Progress:
    """Where a run stands; saved with every checkpoint."""

    step: int = 0
    epoch: int = 0
    batch: int = 0
    """Batches of this epoch already seen."""
    tokens: int = 0
    """Target tokens seen."""
    seconds: float = 0.0
    """Time spent training and validating."""
    best_score: float = -math.inf
    """Highest value of the metric (the loss counts negatively)."""
    best_step: int = 0
    stale: int = 0
    """Validations since the best one."""
    validated: int = 0
    """Step of the last validation."""
    skipped: int = 0
    """Steps left out because the gradient was not finite."""
    finished: bool = False


@dataclass(frozen=True)
class Outcome:
    """How a call of Trainer.run ended."""

    reason: Literal["limit", "patience", "interrupted", "already finished"]
    progress: Progress
    scores: dict[str, float]
    """Of the model that was kept, on the validation text; empty where the run was interrupted."""
    signal: int = 0
    """The signal that interrupted the run."""


class Trainer:
    """Trains one model on one prepared text, in one folder."""

    def __init__(self, config: TrainConfig, folder: ModelFolder, text: PreparedText, validate: Validate) -> None:
        """Set up a run, or take up the one that config.out holds.

        Args:
            config: the run.
            folder: the model to train, on the device to train on.
            text: what to learn from.
            validate: translates the validation text.

        Raises:
            DragomanError: the saved state is damaged.
        """
        self.config = config
        self.folder = folder
        self.text = text
        self.out = Path(config.out)
        self.model = folder.model
        self.device = next(self.model.parameters()).device
        self.bf16 = use_bf16(config.precision, self.device)
        self.objective = TrainingObjective(self.model, config.optimizer.label_smoothing)
        self.optimizer = build_optimizer(self.model, config.optimizer)
        keep_freed_memory()
        self.progress = Progress()
        self._validate_translations = validate
        self._kept_scores: dict[str, float] = {}
        self._consecutive_skips = 0
        self._resume()

    def finished(self) -> Outcome | None:
        """The outcome of a run that has finished and was not given more room since; None while there is work to do."""
        if self.progress.finished and (self._done() >= 1.0 or self._out_of_patience()):
            return Outcome("already finished", self.progress, self._kept_scores)
        return None

    def run(self) -> Outcome:
        """Train until a limit or the patience is reached, or a signal asks to stop."""
        if outcome := self.finished():
            return outcome
        self.progress.finished = False
        with Recorder(self.out, self.progress.step) as self.recorder, StopRequest() as stop:
            self._announce()
            self._started = time.monotonic() - self.progress.seconds
            reason: Literal["limit", "patience"] = "limit"
            self._validate_if_due()  # a signal may have come in between
            for batches in self._steps():
                self._train_step(batches)
                if stop.signal:
                    self._save_state()
                    return Outcome("interrupted", self.progress, {}, stop.signal)
                self._validate_if_due()
                if self._out_of_patience():
                    reason = "patience"
                    break
            self._conclude()
            return Outcome(reason, self.progress, self._kept_scores)

    def _steps(self) -> Iterator[list[Batch]]:
        """The batches of each step, from where the run stands, until a limit is reached."""
        accumulate = self.config.optimizer.accumulate
        store, lengths = self.text.train, (self.text.train.source_lengths, self.text.train.target_lengths)
        while True:
            plan = plan_epoch(*lengths, self.config.optimizer.batch_tokens, self.config.seed, self.progress.epoch)
            while self.progress.batch < len(plan):
                if self._done() >= 1.0:
                    return
                indices = plan[self.progress.batch : self.progress.batch + accumulate]
                self.progress.batch += len(indices)
                yield [collate(store, some) for some in indices]
            self.progress.epoch += 1
            self.progress.batch = 0

    def _train_step(self, batches: Sequence[Batch]) -> None:
        """One update: gradients of all batches, normalised by their target tokens, then Adam."""
        progress, optimizer = self.progress, self.config.optimizer
        num_tokens = sum(batch.num_tokens for batch in batches)
        started = time.monotonic()
        self.model.train()
        loss = torch.zeros((), device=self.device)
        for batch in batches:
            batch_loss = self._loss(batch, optimizer.label_smoothing) / num_tokens
            batch_loss.backward()  # type: ignore[no-untyped-call]
            loss += batch_loss.detach()
        clip = optimizer.clip_norm or math.inf
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), clip)
        progress.step += 1
        rate = learning_rate(optimizer, self.model.config.d_model, progress.step, self._done())
        if math.isfinite(norm):
            for group in self.optimizer.param_groups:
                group["lr"] = rate
            self.optimizer.step()
            self._consecutive_skips = 0
        else:
            self._skip_step()
        self.optimizer.zero_grad(set_to_none=True)
        progress.tokens += num_tokens
        now = time.monotonic()
        progress.seconds = now - self._started
        values = {"loss": float(loss), "lr": rate, "grad_norm": float(norm)}
        self._show(values, num_tokens / (now - started))

    def _loss(self, batch: Batch, smoothing: float) -> Tensor:
        """Sum of the losses of a batch."""
        self.objective.smoothing = smoothing
        ids = (torch.from_numpy(x).to(self.device) for x in (batch.source, batch.target_input, batch.target_output))
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16):
            return self.objective(*ids)  # type: ignore[no-any-return]

    def _skip_step(self) -> None:
        self.progress.skipped += 1
        self._consecutive_skips += 1
        if self._consecutive_skips >= _MOST_SKIPPED:
            raise DragomanError(
                f"the gradient was not finite for {_MOST_SKIPPED} steps in a row (step {self.progress.step:,}): lower "
                f"the learning rate; the last good checkpoint is in {self.out}"
            )

    # ---- validation and what is kept

    def _validate_if_due(self) -> None:
        if self.progress.step % self.config.validation.every == 0 and self.progress.step != self.progress.validated:
            self._validate()

    def _validate(self) -> None:
        """Measure, record, save a checkpoint; the best one becomes the folder's model."""
        scores = self._measure()
        self.progress.validated = self.progress.step
        self._save_checkpoint()
        score = self._score(scores)
        if score > self.progress.best_score:
            self.progress.best_score, self.progress.best_step, self.progress.stale = score, self.progress.step, 0
            self._keep(scores)
        else:
            self.progress.stale += 1
        self._save_state()

    def _measure(self, name: str = "") -> dict[str, float]:
        """Scores of the present weights on the validation text: loss, bleu, chrf."""
        loss = self._validation_loss()
        validation = self._validate_translations(self.model)
        scores = {"loss": loss} | validation.scores
        self.progress.seconds = time.monotonic() - self._started
        if not name:
            self.recorder.record(self.progress.step, {f"valid/{key}": value for key, value in scores.items()})
        better = " (best so far)" if not name and self._score(scores) > self.progress.best_score else ""
        self.recorder.say(
            f"{name or f'step {self.progress.step:,}'}: valid loss {loss:.3f}, "
            f"BLEU {scores['bleu']:.1f}, chrF {scores['chrf']:.1f}{better}"
        )
        for source, reference, translation in validation.samples if not name else ():
            self.recorder.say(f"    {source}\n    → {translation}\n    = {reference}")
        self.folder = self.folder.with_facts({"signatures": validation.signatures})
        return scores

    @torch.no_grad()
    def _validation_loss(self) -> float:
        """Cross-entropy of the validation text in nats per target token, without smoothing or dropout."""
        self.model.eval()
        store = self.text.valid
        longest = np.maximum(store.source_lengths, store.target_lengths)
        total, num_tokens = 0.0, 0
        for indices in plan_in_order(longest, self.config.optimizer.batch_tokens):
            batch = collate(store, indices)
            total, num_tokens = total + float(self._loss(batch, smoothing=0.0)), num_tokens + batch.num_tokens
        return total / num_tokens

    def _score(self, scores: dict[str, float]) -> float:
        metric = self.config.validation.metric
        return -scores["loss"] if metric == "loss" else scores[metric]

    def _keep(self, scores: dict[str, float]) -> None:
        """Make the present weights the folder's model."""
        self._kept_scores = scores
        progress = self.progress
        facts = {"validation": {k: round(v, 4) for k, v in scores.items()}, "steps": progress.step}
        facts |= {"minutes": round(progress.seconds / 60, 1), "precision": "bf16" if self.bf16 else "fp32"}
        self.folder = self.folder.with_facts(facts)
        self.folder.save(self.out)

    def _conclude(self) -> None:
        """Let the average of the last checkpoints compete with the best one (section 6.1)."""
        if self.progress.step != self.progress.validated:
            self._validate()
        checkpoints = list_checkpoints(self.out)[-self.config.validation.keep_last :]
        if len(checkpoints) > 1:
            self._load(average_weights(checkpoints))
            scores = self._measure(f"average of the last {len(checkpoints)} checkpoints")
            if self._score(scores) >= self.progress.best_score:
                self.progress.best_score = self._score(scores)
                self._keep(scores)
            self._load(read_weights(checkpoints[-1]))
        self.progress.finished = True
        self._save_state()

    # ---- limits

    def _done(self) -> float:
        """Part of the run that is done; 0 where it has no limit."""
        config, progress = self.config, self.progress
        parts = [0.0]
        if config.max_steps:
            parts.append(progress.step / config.max_steps)
        if config.max_minutes:
            parts.append(progress.seconds / 60 / config.max_minutes)
        if config.max_epochs:
            parts.append(progress.epoch / config.max_epochs)
        return max(parts)

    def _out_of_patience(self) -> bool:
        return 0 < self.config.validation.patience <= self.progress.stale

    # ---- saving and resuming

    def _save_checkpoint(self) -> None:
        save_weights(dict(self.model.named_parameters()), checkpoint_path(self.out, self.progress.step))
        for old in list_checkpoints(self.out)[: -self.config.validation.keep_last]:
            old.unlink()

    def _save_state(self) -> None:
        state: dict[str, Any] = {
            "progress": asdict(self.progress),
            "model": {name: p.detach() for name, p in self.model.named_parameters()},
            "optimizer": self.optimizer.state_dict(),
            "random": torch.get_rng_state(),
            "kept_scores": self._kept_scores,
            "identity": self._identity(),
            "facts": self.folder.direction.facts,
        }
        if self.device.type == "cuda":
            state["random_cuda"] = torch.cuda.get_rng_state(self.device)
        save_training_state(self.out, state)

    def _resume(self) -> None:
        state = load_training_state(self.out)
        if state is None:
            return
        try:
            if state["identity"] != self._identity():
                raise ValueError("another model or vocabulary")
            self._load(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.progress = Progress(**state["progress"])
            self.folder = self.folder.with_facts(state["facts"])
            self._kept_scores = state["kept_scores"]
            torch.set_rng_state(state["random"])
            if self.device.type == "cuda" and "random_cuda" in state:
                torch.cuda.set_rng_state(state["random_cuda"], self.device)
        except (KeyError, TypeError, ValueError, RuntimeError):
            raise DragomanError(
                f"{self.out}: holds a run with another model or other subwords (was the text changed?); "
                f"choose another --out, or begin again with --restart true"
            ) from None

    def _identity(self) -> dict[str, Any]:
        """What must be the same for a run to continue: the model's shape and the meaning of its ids."""
        subwords = b"".join(self.folder.vocabulary.files().values())
        return {"model": asdict(self.model.config), "subwords": hashlib.sha256(subwords).hexdigest()}

    @torch.no_grad()
    def _load(self, weights: dict[str, Tensor]) -> None:
        for name, parameter in self.model.named_parameters():
            parameter.copy_(weights[name])

    # ---- showing

    def _announce(self) -> None:
        precision = "bf16" if self.bf16 else "fp32"
        where = f"{self.device}, {precision}, {torch.get_num_threads()} threads"
        self.recorder.say(f"training {self.model.num_parameters:,} parameters on {where}")
        if self.progress.step:
            self.recorder.say(f"continuing after step {self.progress.step:,}")

    def _show(self, values: dict[str, float], tokens_per_second: float) -> None:
        progress, done = self.progress, self._done()
        if progress.step % 10 == 0:
            record = {f"train/{name}": value for name, value in values.items()}
            self.recorder.record(progress.step, record | {"train/tokens_per_second": tokens_per_second})
        left = f", {_clock(progress.seconds * (1 - done) / done)} left" if 0 < done < 1 else ""
        status = (
            f"loss {values['loss']:.3f}, lr {values['lr']:.2e}, {tokens_per_second:,.0f} tok/s, "
            f"epoch {progress.epoch + 1}{left}"
        )
        self.recorder.show(progress.step, status, done)


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{seconds:02d}" if minutes >= 60 else f"{minutes}:{seconds:02d}"
