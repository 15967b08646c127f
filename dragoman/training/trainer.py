"""The training loop (section 5): batches in, a better model out; stops and continues as if it had not."""

from __future__ import annotations

import math
import statistics
import time
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from signal import SIGINT, SIGTERM
from typing import Any, Literal

import torch
from torch import Tensor

from dragoman.checkpoint import (
    CHECKPOINTS,
    LONGEST_FACT,
    RUN_FACT,
    ModelFolder,
    average_weights,
    checkpoint_path,
    learned_checkpoints,
    list_checkpoints,
    put_weights,
    save_weights,
)
from dragoman.config import DragomanError, TrainConfig
from dragoman.runtime.allocator import give_back_memory, keep_freed_memory, remember_fewer_products
from dragoman.runtime.console import beginning, say
from dragoman.runtime.device import describe_device, describe_precision, use_bf16
from dragoman.text.preprocess import PreparedText
from dragoman.training.data_loader import Shares
from dragoman.training.diagnostics import Observation, diagnose, out_of_bounds
from dragoman.training.distributed import Processes
from dragoman.training.fit import fit_memory
from dragoman.training.metrics import Recorder, SilentRecorder, clock
from dragoman.training.optimizer import learning_rate
from dragoman.training.progress import Outcome, Progress
from dragoman.training.run_state import (
    accepted_changes,
    facts_of_run,
    has_whole_model,
    load_state,
    save_state,
    taking_up,
)
from dragoman.training.signals import StopRequest
from dragoman.training.step import Share, Stepper
from dragoman.training.validation import Measurement, Validate, Validator

_MOST_SKIPPED = 20  # steps in a row out of bounds before the run gives up
_SAMPLES = 3  # translations shown at each validation
_YOUNG = 1.0  # BLEU or chrF below which a lower loss is progress enough
_ECHO = 1.0  # seconds
_STEPS_BETWEEN_REPAIRS = 50  # of memory that has fallen to pieces
_STOPPING = "stopping after this step, then saving; once more stops at once, without saving"
_SHOWN = 200  # characters of a sentence
_EXPLODED = 2.0  # times the loss of guessing every subword alike


class Trainer:
    """Trains one model on one prepared text, in one folder."""

    def __init__(
        self,
        config: TrainConfig,
        folder: ModelFolder,
        text: PreparedText,
        validate: Validate,
        processes: Processes = Processes(),  # noqa: B008 (a frozen value)
    ) -> None:
        """Set up a run, or take up the one that config.out holds.

        Args:
            config: the run.
            folder: the model to train, on the device to train on.
            text: what to learn from.
            validate: translates the validation text.
            processes: that share the work, each with its own Trainer.

        Raises:
            DragomanError: the saved state is damaged, or belongs to a run with other settings, text or model.
        """
        self.config, self.folder, self.text, self.processes = config, folder, text, processes
        self.out, self._metric = Path(config.out), config.validation.metric
        self.model = folder.model
        remember_fewer_products()
        keep_freed_memory()
        state = load_state(self.out, self._say_at_first)
        device = next(self.model.parameters()).device
        self.bf16 = processes.tell(use_bf16(config.precision, device, (state or {}).get("precision")))
        self.stepper = Stepper(self.model, config, self.bf16, processes)
        self.validator = Validator(text.valid, config.optimizer.batch_tokens, self.bf16, validate, processes)
        self.shares = Shares(text.train, config, processes, text.vocabulary)
        self.recorder: Recorder = SilentRecorder()
        self.progress = Progress()
        self._observations: list[Observation] = []
        self._kept_scores: dict[str, float] = {}
        self._signal, self._fitted_for = 0, ""
        if state is not None:
            self._resume(state)

    def finished(self) -> Outcome | None:
        """The outcome of a run that has finished and was not given more room since; None while there is work to do."""
        progress = self.progress
        if progress.finished and (progress.done(self.config) >= 1.0 or progress.out_of_patience(self.config)):
            return Outcome("already finished", progress, self._kept_scores)
        return None

    def run(self) -> Outcome:
        """Train until a limit or the patience is reached, or a signal asks to stop."""
        if outcome := self.finished():
            return outcome
        self.progress.finished = False
        recorder = Recorder(self.out, self.progress.step) if self.processes.first else SilentRecorder()
        stop = StopRequest(lambda: self.recorder.say(_STOPPING), _ECHO if self.processes.size > 1 else 0.0)
        with recorder as self.recorder, stop as self._stop:
            self._begin()
            self._validate_if_due()  # a signal may have come in between
            for share in () if self.progress.out_of_patience(self.config) else self.shares.following(self.progress):
                self._train_step(share)
                if not self._signal:
                    self._validate_if_due()
                if self._signal or self.progress.out_of_patience(self.config):
                    break
                if self.progress.step % _STEPS_BETWEEN_REPAIRS == 0:
                    give_back_memory()
            if not self._signal:
                self._agree()  # a signal may have come during the last validation
            if self._signal:
                self._save_state()
                return Outcome("interrupted", self.progress, {}, self._signal)
            self._conclude()
            self._agree()
            reason: Literal["limit", "patience"] = "limit" if self.progress.done(self.config) >= 1.0 else "patience"
            return Outcome(reason, self.progress, self._kept_scores, self._signal)

    def _begin(self) -> None:
        """Say what is to be done, and settle what depends on the machine."""
        progress, processes, threads = self.progress, self.processes, torch.get_num_threads()
        each = f" in each of {processes.size} processes" if processes.size > 1 else ""
        self.recorder.say(
            f"training {self.model.num_parameters:,} parameters on {self.stepper.device}, "
            f"{'bf16' if self.bf16 else 'fp32'}, {threads} thread{'s' if threads > 1 else ''}{each}"
        )
        if progress.step:
            self.recorder.say(f"continuing after step {progress.step:,}")
        if message := self.shares.settle(progress):
            self.recorder.say(message)
        if any(processes.total([self._fitted_for != self._memory_in_words()])):
            self._fit_memory()
        self.stepper.piece_tokens = progress.piece_tokens
        self._started, self._saved_at = time.monotonic() - progress.seconds, progress.seconds
        if not progress.step:
            self._save_state()  # from now on there is a run to continue

    def _fit_memory(self) -> None:
        self.stepper.piece_tokens = self.progress.piece_tokens
        fit_memory(self.stepper, self.shares.most_demanding(), self.recorder.say)
        found = [tokens for tokens in self.processes.collect([self.stepper.piece_tokens]) if tokens]
        self.progress.piece_tokens = min(found, default=0)

    def _memory_in_words(self) -> str:
        """What batches have to fit; a run that continues elsewhere tries them again."""
        return f"{self.config.optimizer.batch_tokens} tokens, {describe_device(self.stepper.device)}"

    # ---- steps

    def _train_step(self, share: Share) -> None:
        """One update, or none where loss or gradient are out of bounds."""
        progress, optimizer = self.progress, self.config.optimizer
        started = time.monotonic()
        own_loss, norm = self.stepper.gradients(share, self.recorder.say)
        progress.piece_tokens = self.stepper.piece_tokens
        progress.step += 1
        rate = learning_rate(optimizer, self.model.config.d_model, progress.step, progress.done(self.config))
        seconds = time.monotonic() - self._started if self.processes.first else 0.0
        loss, progress.seconds = self._agree(own_loss, seconds)
        progress.start_loss = progress.start_loss or (loss if math.isfinite(loss) else 0.0)
        if self._in_bounds(loss, norm):
            self.stepper.apply(rate)
            self.stepper.average.update(progress.step)
            progress.skipped_in_a_row = 0
            progress.losses.append(loss)
            progress.norms.append(norm)
        else:
            self._skip_step(loss, norm)
        progress.tokens += share.num_tokens
        values = {"loss": loss, "lr": rate, "grad_norm": norm}
        self._show(values, share.num_tokens / max(time.monotonic() - started, 1e-6))  # some clocks tick slowly
        if progress.seconds - self._saved_at > 60 * self.config.save_minutes:
            self._save_state()

    def _agree(self, *facts: float) -> list[float]:
        """The sums of numbers over the processes, which agree on signals to stop, too."""
        signal = self._stop.signal
        *sums, interrupted, terminated = self.processes.total([*facts, signal == SIGINT, signal == SIGTERM])
        self._signal = SIGTERM if terminated else SIGINT if interrupted else 0
        return sums

    def _in_bounds(self, loss: float, norm: float) -> bool:
        """Whether a step may be made: the loss is far from what it was at the start, the gradient is finite."""
        worst = max(math.log(self.model.config.target_vocab_size), self.progress.start_loss)
        return math.isfinite(norm) and loss < _EXPLODED * worst

    def _skip_step(self, loss: float, norm: float) -> None:
        self.stepper.forget()
        progress = self.progress
        progress.skipped, progress.skipped_in_a_row = progress.skipped + 1, progress.skipped_in_a_row + 1
        progress.skipped_since += 1
        if progress.skipped_in_a_row >= _MOST_SKIPPED:
            best = f"the best model so far is in {self.out}"
            kept = best if self._kept_scores else "no model was good enough to keep"
            raise DragomanError(f"{out_of_bounds(_MOST_SKIPPED, progress.step, loss, norm, self.config)}; {kept}")

    # ---- validation and what is kept

    def _validate_if_due(self) -> None:
        progress = self.progress
        due = progress.step % self.config.validation.every == 0 and progress.step != progress.validated
        if due and (progress.step or self.config.from_):  # fine-tuning may make a good model worse: measure it, too
            self._validate()

    def _validate(self) -> None:
        """Measure, record, save a checkpoint; the best one becomes the folder's model."""
        progress = self.progress
        with self.stepper.average.in_use():
            measured = self._measure()
            progress.validated = progress.step
            self._save_checkpoint()
            if better := self._rank(measured.scores) > progress.best:
                self._keep(measured.scores, f"step {progress.step:,}")
        if better:
            progress.best_step, progress.stale = progress.step, 0
        elif progress.best_score < _YOUNG and measured.scores["loss"] < progress.lowest_loss:
            progress.stale = 0  # no score to speak of yet, but it learns
        else:
            progress.stale += 1
        progress.lowest_loss = min(progress.lowest_loss, measured.scores["loss"])
        progress.losses, progress.norms, progress.skipped_since = [], [], 0
        self._save_state()

    def _measure(self, name: str = "") -> Measurement:
        """Scores of the present weights on the validation text; told to people, and recorded if they have no name."""
        measured = self.validator.measure(self.model)
        scores = measured.scores
        self.progress.seconds = self.processes.tell(time.monotonic() - self._started)
        self.folder = self.folder.with_facts({"signatures": measured.validation.signatures})
        better = " (best so far)" if not name and self._rank(scores) > self.progress.best else ""
        self.recorder.say(
            f"{name or f'step {self.progress.step:,}'}: valid loss {scores['loss']:.3f}, "
            f"BLEU {scores['bleu']:.1f}, chrF {scores['chrf']:.1f}{better}"
        )
        if not name:
            self.recorder.record(self.progress.step, {f"valid/{key}": value for key, value in scores.items()})
            self._look_at(measured)
        return measured

    def _look_at(self, measured: Measurement) -> None:
        """Say how healthy the translations are, and what is wrong if something is."""
        progress, validation = self.progress, measured.validation
        norm = statistics.median(progress.norms) if progress.norms else math.nan
        if (health := validation.health(measured.accuracy, norm)) is None:
            return
        train_loss = statistics.fmean(progress.losses) if progress.losses else math.nan
        self._observations.append(
            Observation(
                step=progress.step,
                train_loss=train_loss,
                valid_loss=measured.scores["loss"],
                unigram_loss=self.validator.unigram_loss(),
                health=health,
                skipped=progress.skipped_since,
            )
        )
        self.recorder.record(progress.step, {f"health/{name}": value for name, value in health.values().items()})
        self.recorder.say(f"    {health.line()}")
        if problem := diagnose(self._observations, self.config.optimizer.warmup_steps):
            self.recorder.say(f"    warning: {problem}")
        texts = zip(validation.sources, validation.references, validation.translations, strict=True)
        for sample in islice(texts, _SAMPLES):
            source, reference, translation = (beginning(text, _SHOWN) for text in sample)
            self.recorder.say(f"    {source}\n    → {translation}\n    = {reference}")

    def _rank(self, scores: dict[str, float]) -> tuple[float, float]:
        """What decides between two models: the metric, and between equals the loss."""
        return -scores["loss"] if self._metric == "loss" else scores[self._metric], -scores["loss"]

    def _keep(self, scores: dict[str, float], which: str) -> None:
        """Make the present weights the folder's model; which says in words where they are from."""
        self._kept_scores, progress = scores, self.progress
        progress.best_score, progress.best_loss = self._rank(scores)[0], scores["loss"]
        facts = {"validation": {k: round(v, 4) for k, v in scores.items()}, "kept": which, "steps": progress.step}
        facts |= {"minutes": round(progress.seconds / 60, 1), "precision": "bf16" if self.bf16 else "fp32"}
        self.folder = self.folder.with_facts(facts)
        if self.processes.first:
            self.folder.save(self.out)

    def _conclude(self) -> None:
        """Let the average of the last checkpoints compete with the best one (section 6.1)."""
        if self.progress.step != self.progress.validated:
            self._validate()
        checkpoints = self.processes.tell(learned_checkpoints(self.out)[-self.config.validation.keep_last :])
        if len(checkpoints) > 1:
            before = {name: p.detach().clone() for name, p in self.model.named_parameters()}
            self._load(average_weights(checkpoints))
            average = f"average of the last {len(checkpoints)} checkpoints"
            scores = self._measure(average).scores
            if self._rank(scores) >= self.progress.best:
                self._keep(scores, average)
            self._load(before)
        self._describe_run()
        self.progress.finished = True
        self._save_state()

    def _describe_run(self) -> None:
        """Tell in the model folder what the whole run took; the weights that were kept may be earlier ones."""
        times = f"{self.processes.size} × " if self.processes.size > 1 else ""
        device, valid = times + describe_device(self.stepper.device), self.text.valid.report.fingerprint
        self.folder = self.folder.with_facts({RUN_FACT: facts_of_run(self.config, self.progress, valid, device)})
        if self.processes.first and self._kept_scores:
            self.folder.save_description(self.out)

    # ---- saving and resuming

    def _save_checkpoint(self) -> None:
        if not self.processes.first:
            return
        save_weights(dict(self.model.named_parameters()), checkpoint_path(self.out, self.progress.step))
        for old in list_checkpoints(self.out)[: -self.config.validation.keep_last]:
            old.unlink()

    def _save_state(self) -> None:
        self._saved_at = self.progress.seconds
        if not self.processes.first:
            return
        state: dict[str, Any] = {
            "progress": asdict(self.progress),
            "model": {name: p.detach() for name, p in self.model.named_parameters()},
            "optimizer": self.stepper.optimizer.state_dict(),
            "average": self.stepper.average.average,
            "precision": describe_precision(self.bf16, self.stepper.device),
            "fitted for": self._memory_in_words(),
            "kept_scores": self._kept_scores,
            "observations": [observation.state() for observation in self._observations],
            "identity": self.folder.identity(),
            "text": self.text.train.report.fingerprint,
            "validation text": self.text.valid.report.fingerprint,
            "settings": asdict(self.config),
            "facts": self.folder.direction.facts,
        }
        save_state(self.out, state)

    def _resume(self, state: dict[str, Any]) -> None:
        with taking_up(self.out):
            fingerprint = self.text.train.report.fingerprint
            self.progress = Progress.restore(state["progress"])
            self.progress.changes += accepted_changes(state, self.folder.identity(), self.config, fingerprint)
            self._load({name: state["model"][name] for name, _ in self.model.named_parameters()})
            self.stepper.restore(state["optimizer"])
            self.stepper.average.restore(state.get("average", []))
            before, now = state["facts"], self.folder.direction.facts
            longest = {name: max(before[name], now.get(name, 0)) for name in [LONGEST_FACT] if name in before}
            self.folder = self.folder.with_facts(before | now | longest)
            self._kept_scores = state["kept_scores"]
            self._observations = [Observation.restore(observation) for observation in state["observations"]]
            other_text = state["text"] != fingerprint
            other_valid = state.get("validation text") not in (None, self.text.valid.report.fingerprint)
            self.progress.take_up_changes(state["settings"], self.config, other_text, other_valid)
            self._fitted_for = str(state.get("fitted for"))
        if self.progress.validated >= 0 and not has_whole_model(self.out, self._say_at_first):
            self.progress.forget_best()
        if self.processes.first:
            for path in list_checkpoints(self.out):
                if path > checkpoint_path(self.out, self.progress.step):
                    path.unlink()  # beyond the state: the run will come there again

    def _load(self, weights: dict[str, Tensor]) -> None:
        put_weights(self.model, weights, self.out / CHECKPOINTS)

    # ---- showing

    def _say_at_first(self, line: str) -> None:
        if self.processes.first:
            say(line)

    def _show(self, values: dict[str, float], tokens_per_second: float) -> None:
        progress, done = self.progress, self.progress.done(self.config)
        if progress.step % self.config.log_every == 0:
            record = {f"train/{name}": value for name, value in values.items()}
            self.recorder.record(progress.step, record | {"train/tokens_per_second": tokens_per_second})
        left = f", {clock(progress.seconds * (1 - done) / done)} left" if 0 < done < 1 else ""
        status = (
            f"loss {values['loss']:.3f}, lr {values['lr']:.2e}, {tokens_per_second:,.0f} tok/s, "
            f"epoch {progress.epoch + 1}{left}"
        )
        self.recorder.show(progress.step, status, done)
