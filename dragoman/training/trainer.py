"""The training loop (section 5): steps, validations, the best model kept, and a state from which a run resumes exactly.

Trainer.run takes the batches from DataLoader.steps to _train_step, which calls Stepper.gradients and Stepper.apply.
"""

import math
import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from signal import SIGINT, SIGTERM
from typing import Any, Literal

import torch

from dragoman.checkpoint import ModelFolder, average_weights, put_weights, save_weights
from dragoman.config import DragomanError, TrainConfig
from dragoman.folder import (
    CHANGES_FACT,
    CHECKPOINTS,
    LONGEST_FACT,
    PAIRS_FACT,
    RUN_FACT,
    SETTINGS_FACT,
    VALID_FACT,
    WEIGHTS_FILE,
    checkpoint_path,
    learned_checkpoints,
    list_checkpoints,
    with_plain_keys,
)
from dragoman.runtime.allocator import give_back_memory, is_out_of_memory, keep_freed_memory, limit_kernel_cache
from dragoman.runtime.device import describe_device, describe_precision, use_bf16
from dragoman.text.preprocess import PreparedText
from dragoman.training.data_loader import DataLoader
from dragoman.training.diagnostics import Health, Observation
from dragoman.training.distributed import Processes
from dragoman.training.dry_run import fit_memory
from dragoman.training.metrics import Recorder
from dragoman.training.optimizer import learning_rate
from dragoman.training.run_state import Outcome, Progress, load_state, resume_progress, save_state, settings_digest
from dragoman.training.signals import StopRequest
from dragoman.training.step import StepBatches, Stepper
from dragoman.training.validation import Validate, Validation, Validator

_MOST_SKIPPED = 20  # steps in a row out of bounds before the run stops
_STEPS_TO_KNOW_THE_RATE = 20
_STEPS_BETWEEN_TRIMS = 50  # of fragmented memory
_STOPPING = "stopping after this step, then saving; a second signal stops at once, without saving"
_EXPLODED = 2.0  # times the first loss, or that of guessing every subword with equal probability


class Trainer:
    """Trains one model on one prepared text, in one folder."""

    def __init__(
        self,
        config: TrainConfig,
        folder: ModelFolder,
        text: PreparedText,
        validate: Validate,
        processes: Processes = Processes(),  # noqa: B008 (a frozen value)
        write_page: Callable[[], None] = lambda: None,
    ) -> None:
        """Set up a run, or resume the one in config.out; the folder's model is on the device to train on."""
        self.config, self.folder, self.text, self.processes = config, folder, text, processes
        self._write_page = write_page  # when a validation is in the folder
        self.out, self.model = Path(config.out), folder.model
        limit_kernel_cache()
        keep_freed_memory()
        state = load_state(self.out, processes.say)
        device = next(self.model.parameters()).device
        self.bf16 = processes.broadcast(use_bf16(config.precision, device, (state or {}).get("precision")))
        self.stepper = Stepper(self.model, config, self.bf16, processes)
        self.validator = Validator(text, config.optimizer.batch_tokens, self.bf16, validate, processes)
        self.loader = DataLoader(text.train, config, processes, text.vocabulary)
        self.progress = Progress()
        self._kept_scores: dict[str, float] = {}
        self._signal = 0
        if state is not None:
            self._resume(state)
        at_its_end = self.progress.done(config) >= 1.0 or self.progress.out_of_patience(config)
        self.finished = self.progress.finished and at_its_end

    def run(self) -> Outcome:
        """Train until a limit or the patience is reached, or a signal asks to stop."""
        progress, config = self.progress, self.config
        if self.finished:
            return Outcome("already finished", progress, self._kept_scores)
        progress.finished = False
        out = self.out if self.processes.first else None
        recorder = Recorder(out, progress.step, progress.validated == progress.step)
        with recorder as self.recorder, StopRequest(lambda: recorder.say(_STOPPING)) as self._stop:
            self._start()
            self._validate_if_due()  # a signal may have come before it
            for step in () if progress.out_of_patience(config) else self.loader.steps(progress):
                self._train_step(step)
                if not self._signal:
                    self._validate_if_due()
                if self._signal or progress.out_of_patience(config):
                    break
                if progress.step % _STEPS_BETWEEN_TRIMS == 0:
                    give_back_memory()
            if not self._signal:
                self._all_reduce()  # a signal may have come during the last validation
            if self._signal:
                self._save_state()
                return Outcome("interrupted", progress, {}, self._signal)
            self._finish()
            self._all_reduce()
            reason: Literal["limit", "patience"] = "limit" if progress.done(config) >= 1.0 else "patience"
            return Outcome(reason, progress, self._kept_scores, self._signal)

    def _start(self) -> None:
        """Report what starts, and settle what depends on the machine."""
        progress, processes, threads = self.progress, self.processes, torch.get_num_threads()
        each = f" in each of {processes.size} processes" if processes.size > 1 else ""
        self.recorder.say(
            f"training {self.model.num_parameters:,} parameters on {self.stepper.device}, "
            f"{'bf16' if self.bf16 else 'fp32'}, {threads} thread{'s' if threads > 1 else ''}{each}"
        )
        if progress.step:
            self.recorder.say(f"resuming after step {progress.step:,}")
        self.loader.settle_accumulation(progress)
        self.stepper.piece_tokens = progress.piece_tokens
        if not progress.step:
            fit_memory(self.stepper, self.loader.largest_batches(), self.recorder.say)
            found = [tokens for tokens in processes.all_gather([self.stepper.piece_tokens]) if tokens]
            self.stepper.piece_tokens = progress.piece_tokens = min(found, default=0)
        self._started, self._saved_at = time.monotonic() - progress.seconds, progress.seconds
        if not progress.step:
            self._save_state()  # from now on there is a run to resume

    def _train_step(self, step: StepBatches) -> None:
        """Make one update, or none if the loss or the gradient is out of bounds."""
        progress, optimizer = self.progress, self.config.optimizer
        started = time.monotonic()
        own_loss, norm = self.stepper.gradients(step, self.recorder.say)
        progress.piece_tokens = self.stepper.piece_tokens
        progress.step += 1
        rate = learning_rate(optimizer, self.model.config.d_model, progress.step, progress.done(self.config))
        seconds = time.monotonic() - self._started if self.processes.first else 0.0
        loss, progress.seconds = self._all_reduce(own_loss, seconds)
        progress.start_loss = progress.start_loss or (loss if math.isfinite(loss) else 0.0)
        worst = _EXPLODED * max(math.log(self.model.config.target_vocab_size), progress.start_loss)
        if math.isfinite(norm) and loss < worst:
            self.stepper.apply(rate)
            self.stepper.average.update(progress.step)
            progress.skipped_in_a_row = 0
            progress.losses.append(loss)
            progress.norms.append(norm)
        else:
            self._skip_step()
        progress.tokens += step.num_tokens
        speed = step.num_tokens / max(time.monotonic() - started, 1e-6)  # some clocks tick slowly
        self._show({"loss": loss, "lr": rate, "grad_norm": norm, "tokens_per_second": speed}, step.pairs)
        if progress.seconds - self._saved_at > 60 * self.config.save_minutes:
            self._save_state()

    def _all_reduce(self, *values: float) -> list[float]:
        """The sums of numbers over the processes, which also agree on a signal to stop."""
        signal = self._stop.signal
        *sums, interrupted, terminated = self.processes.all_reduce([*values, signal == SIGINT, signal == SIGTERM])
        self._signal = SIGTERM if terminated else SIGINT if interrupted else 0
        return sums

    def _skip_step(self) -> None:
        self.stepper.drop_gradients()
        progress = self.progress
        progress.skipped += 1
        progress.skipped_in_a_row += 1
        progress.skipped_since += 1
        if progress.skipped_in_a_row >= _MOST_SKIPPED:
            option = "lr-scale" if self.config.optimizer.schedule == "paper" else "peak-lr"
            cure = f"start again with --restart and a lower --optimizer.{option}, or more --optimizer.warmup-steps"
            raise DragomanError(f"the loss or its gradient was out of bounds in {_MOST_SKIPPED} steps in a row: {cure}")

    def _show(self, values: dict[str, float], pairs: list[int]) -> None:
        progress, done = self.progress, self.progress.done(self.config)
        if progress.step % self.config.log_every == 0:
            record = {f"train/{name}": value for name, value in values.items()}
            composition = {"pairs": pairs} if pairs else {}
            self.recorder.record(progress.step, record, {"seconds": round(progress.seconds, 2), **composition})
        left = f", {timedelta(seconds=round(progress.seconds * (1 - done) / done))} left" if 0 < done < 1 else ""
        status = (
            f"loss {values['loss']:.3f}, lr {values['lr']:.2e}, {values['tokens_per_second']:,.0f} tok/s, "
            f"epoch {progress.epoch + 1}{left}"
        )
        self.recorder.show(progress.step, status, done)
        warmup = self.config.optimizer.warmup_steps
        if progress.step == _STEPS_TO_KNOW_THE_RATE and 0 < done < 1 and progress.step / done < warmup:
            stop = f"the run stops after about {progress.step / done:,.0f} steps"
            cure = "lower --optimizer.warmup-steps, or raise the limit of the run"
            self.recorder.say(f"at this rate {stop}, before the end of the warm-up ({warmup:,} steps): {cure}")

    def _validate_if_due(self) -> None:
        progress = self.progress
        due = progress.step % self.config.validation.every == 0 and progress.step != progress.validated
        if due and (progress.step or self.config.from_):  # fine-tuning may make a good model worse: measure that, too
            self._validate()

    def _validate(self) -> None:
        """Measure, record, save a checkpoint; the best one becomes the folder's model."""
        progress = self.progress
        with self.stepper.average.in_use():
            measured = self._measure()
            if self.processes.first:
                save_weights(dict(self.model.named_parameters()), checkpoint_path(self.out, progress.step))
                for old in list_checkpoints(self.out)[: -self.config.validation.keep_last]:
                    old.unlink()
            if better := self._rank(measured.scores) > progress.best:
                self._keep(measured.scores, f"step {progress.step:,}")
        progress.count_validation(measured.scores["loss"], better)
        self._save_state()
        if self.processes.first:
            self._write_page()

    def _measure(self, name: str = "") -> Validation:
        """Scores of the current weights on the validation text: reported, and recorded unless they have a name."""
        measured = self.validator.measure(self.model, self.progress.piece_tokens)
        scores = measured.scores
        self.progress.seconds = self.processes.broadcast(time.monotonic() - self._started)
        self.folder = self.folder.with_facts({"signatures": measured.signatures})
        better = " (best so far)" if not name and self._rank(scores) > self.progress.best else ""
        self.recorder.say(
            f"{name or f'step {self.progress.step:,}'}: valid loss {scores['loss']:.3f}, "
            f"BLEU {scores['bleu']:.1f}, chrF {scores['chrf']:.1f}{better}"
        )
        if not name:
            values = {f"valid/{key}": value for key, value in scores.items()}
            self.recorder.record(self.progress.step, values, {"seconds": round(self.progress.seconds, 2)})
            self.validator.examine(measured, self.progress, self.config.optimizer.warmup_steps, self.recorder)
        return measured

    def _rank(self, scores: dict[str, float]) -> tuple[float, float]:
        """What decides between two models: the metric, and between equals the loss."""
        metric = self.config.validation.metric
        return -scores["loss"] if metric == "loss" else scores[metric], -scores["loss"]

    def _keep(self, scores: dict[str, float], origin: str) -> None:
        """Make the current weights the folder's model; the origin says in words where they are from."""
        self._kept_scores, progress = scores, self.progress
        progress.best_score, progress.best_loss = self._rank(scores)[0], scores["loss"]
        facts = {"validation": {k: round(v, 4) for k, v in scores.items()}, "kept": origin, "steps": progress.step}
        facts |= {"minutes": round(progress.seconds / 60, 1), "precision": "bf16" if self.bf16 else "fp32"}
        self.folder = self.folder.with_facts(facts)
        if self.processes.first:
            self.folder.save(self.out)

    def _finish(self) -> None:
        """Let the average of the last checkpoints compete with the best one (section 6.1)."""
        if self.progress.step != self.progress.validated:
            self._validate()
        checkpoints = self.processes.broadcast(learned_checkpoints(self.out)[-self.config.validation.keep_last :])
        if len(checkpoints) > 1:
            before = {name: p.detach().clone() for name, p in self.model.named_parameters()}
            put_weights(self.model, average_weights(checkpoints), self.out / CHECKPOINTS)
            average = f"average of the last {len(checkpoints)} checkpoints"
            scores = self._measure(average).scores
            if self._rank(scores) >= self.progress.best:
                self._keep(scores, average)
            put_weights(self.model, before, self.out / CHECKPOINTS)
        self._describe_run()
        self.progress.finished = True
        self._save_state()

    def _describe_run(self) -> None:
        """Add to the model folder what the whole run took; the weights that were kept may be earlier ones."""
        progress, times = self.progress, f"{self.processes.size} × " if self.processes.size > 1 else ""
        facts = {
            "steps": progress.step,
            "minutes": round(progress.seconds / 60, 1),
            "on": times + describe_device(self.stepper.device),
            SETTINGS_FACT: settings_digest(self.config),
            VALID_FACT: self.text.valid.report.fingerprint,
        }
        if progress.changes:
            facts[CHANGES_FACT] = "; ".join(progress.changes)
        self.folder = self.folder.with_facts({RUN_FACT: facts})
        if self.processes.first and self._kept_scores:
            self.folder.save_description(self.out)

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
            "kept_scores": self._kept_scores,
            "observations": [asdict(observation) for observation in self.validator.observations],
            "identity": self.folder.identity(),
            "text": self.text.train.report.fingerprint,
            "validation text": self.text.valid.report.fingerprint,
            "settings": asdict(self.config),
            "facts": self.folder.direction.facts,
        }
        save_state(self.out, state)

    def _resume(self, state: dict[str, Any]) -> None:
        text, valid_text = self.text.train.report.fingerprint, self.text.valid.report.fingerprint
        try:
            self.progress = resume_progress(state, self.config, self.folder.identity(), text, valid_text)
            weights = {name: state["model"][name] for name, _ in self.model.named_parameters()}
            put_weights(self.model, weights, self.out / CHECKPOINTS)
            self.stepper.restore(state["optimizer"])
            self.stepper.average.restore(state["average"])
            before, now = with_plain_keys(state["facts"]), self.folder.direction.facts
            # Of a fine-tuned model the longest sentence may be in the parent's text, and so may directions.
            now = now | {LONGEST_FACT: max(before[LONGEST_FACT], now[LONGEST_FACT])}
            if PAIRS_FACT in now:
                now[PAIRS_FACT] = " ".join(dict.fromkeys(f"{before.get(PAIRS_FACT, '')} {now[PAIRS_FACT]}".split()))
            self.folder = self.folder.with_facts(before | now)
            self._kept_scores = state["kept_scores"]
            self.validator.observations = [
                Observation(**{**saved, "health": Health(**saved["health"])}) for saved in state["observations"]
            ]
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            if is_out_of_memory(error):
                raise
            cure = "choose another --out, or start again with --restart"
            raise DragomanError(f"{self.out}: contains a run of another version of Dragoman; {cure}") from None
        if (self.out / WEIGHTS_FILE).exists():
            ModelFolder.load(self.out)  # a damaged model is refused, so that the user can save what is left
        elif self.progress.validated >= 0:
            self.progress.forget_best()
        if self.processes.first:
            for path in list_checkpoints(self.out):
                if path > checkpoint_path(self.out, self.progress.step):
                    path.unlink()  # beyond the state: the run will save it again
