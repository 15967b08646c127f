"""What a validation says in words: what is wrong with a run, and what to do about it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from dragoman.config import TrainConfig
from dragoman.training.symptoms import Health, examine_translations, unigram_loss

__all__ = ["Health", "Observation", "diagnose", "examine_translations", "unigram_loss"]


@dataclass(frozen=True)
class Observation:
    """One validation, as diagnose looks at it."""

    step: int
    """Of the run."""
    train_loss: float
    """Mean training loss since the last validation, as the optimizer sees it: with dropout and label smoothing, in
    nats per target subword; nan where nobody knows."""
    valid_loss: float
    """Cross-entropy of the validation text, without smoothing, in nats per target subword."""
    unigram_loss: float
    """What unigram_loss says of the validation text."""
    health: Health
    skipped: int = 0
    """Steps since the last validation that were left out because the loss or the gradient was out of bounds."""

    def state(self) -> dict[str, Any]:
        """Plain numbers, to be saved with a run."""
        return asdict(self)

    @staticmethod
    def restore(state: Mapping[str, Any]) -> Observation:
        """The observation that state() described."""
        return Observation(**{**state, "health": Health(**state["health"])})


def diagnose(observations: Sequence[Observation], warmup_steps: int = 0) -> str | None:
    """What is wrong with a run, in one sentence with the cure; the most serious thing first.

    A young model writes the same sentence for everything, then loops, then gets it right, and that is no illness. So
    a bad translation counts only where it lasts: for the second half of the run so far, in steps, without getting
    rarer. No number of steps is built in, nor any loss that a healthy model would have to reach.

    Args:
        observations: all validations of the run so far, in order; the last one is the present.
        warmup_steps: of the learning rate; until then a loss that hardly falls says nothing.

    Returns:
        A sentence without a full stop; None where nothing is wrong, where it is too early to tell, or where nothing
        was observed.
    """
    if not observations:
        return None
    course = _Course(observations, warmup_steps)
    return next(filter(None, (check(course) for check in _CHECKS)), None)


def out_of_bounds(steps: int, step: int, loss: float, norm: float, config: TrainConfig) -> str:
    """Why a run can't go on and what to do about it, in words.

    Args:
        steps: so many in a row had to be left out.
        step: the last of them.
        loss: its training loss, in nats per target subword.
        norm: of its gradient.
        config: of the run.
    """
    optimizer = config.optimizer
    name = "lr_scale" if optimizer.schedule == "paper" else "peak_lr"
    return (
        f"for {steps} steps in a row the loss or its gradient was out of bounds (step {step:,}: loss {loss:.1f}, "
        f"gradient {norm:.1f}): begin again with --restart and a lower --optimizer.{name.replace('_', '-')} than "
        f"{getattr(optimizer, name):g}, or with more --optimizer.warmup-steps than {optimizer.warmup_steps:,}"
    )


# What counts as wrong, and why so much.
_SLOWER = "lower the learning rate (optimizer.peak_lr; with the paper's schedule, optimizer.lr_scale)"
_SKIPPED = 0.01  # of the steps: a single bad batch is an accident, one in a hundred is a habit
_WORSE, _NATS_WORSE = 1.25, 0.5  # times the best loss, and nats: overfitting takes many validations to get so far
_LOST_ACCURACY = 0.75  # of the best: overfitting leaves it as it was, a model that has come apart does not
_LONGER_GRADIENT = 10.0  # times the usual: batches of other lengths make it two or three times as long
_SHORT_GRADIENT = 1.0  # where clipping begins by default: shorter ones do no harm
_GUESSING = 0.95  # of the entropy: the place of `</s>` alone is worth a little less than 5%
_UNRELATED = 0.03  # noise of free_accuracy - chance_accuracy in a few hundred sentences
_RELATED = 0.1  # what it is when the first words of the translations are right
_FLUENT = 0.75  # of the entropy: what a model of the target language alone reaches; others are related by then
_STALLED = 0.02  # of the loss, gained while the steps doubled: young healthy runs gain 20% and more
_ENOUGH = 30  # sentences: a share of fewer says nothing
_LASTING = 0.7  # of what it was half the run ago: what falls faster is being cured by training on
_MANY, _SOME = 0.3, 0.1  # a third is wrong at any time; undertrained models have a tenth, finished ones a hundredth
_FEW = 0.05  # of what no model does by being young
_SHORT, _LONG = 0.7, 1.5  # greedy search alone gives 0.8 to 1.2
_GAP = 0.2  # 0.1 is the most that a healthy run showed, early
_RISEN = 1.1  # times the best loss: below that it may be noise, and BLEU seldom falls


class _Course:
    """A run so far, with the questions that the checks ask."""

    def __init__(self, observations: Sequence[Observation], warmup_steps: int) -> None:
        self.now = observations[-1]
        self.warm = self.now.step > warmup_steps
        self.health = self.now.health
        self.before = [o for o in observations[:-1] if math.isfinite(o.valid_loss)]
        self.early = [o for o in self.before if o.step <= self.now.step / 2]
        self.late = [*self.before[len(self.early) :], self.now]
        self.best = min(self.before, key=lambda o: o.valid_loss, default=self.now)
        self.judged = len(self.early) > 1 and self.health.sentences >= _ENOUGH

    def stalled(self) -> bool:
        """Whether the second half of the run has hardly lowered the loss."""
        losses = [o.valid_loss for o in self.early]
        return self.warm and len(losses) > 1 and min(o.valid_loss for o in self.late) > (1.0 - _STALLED) * min(losses)

    def unrelated(self) -> bool:
        """Whether the model has written the target language for half the run, and nothing of the source."""
        if not self.judged or max(_relation(o.health) for o in self.late) >= _UNRELATED:
            return False
        fluent = all(o.valid_loss <= _FLUENT * o.unigram_loss for o in (self.early[-1], *self.late))
        return fluent or self.stalled()

    def lasting(self, measure: Callable[[Health], float], least: float, least_when_stalled: float) -> bool:
        """Whether a measure has been this high for half the run, and training on does not lower it."""
        if not self.judged:
            return False
        lowest = min(measure(o.health) for o in self.late)
        if self.stalled() and lowest >= least_when_stalled:
            return True
        half_way = self.early[-1].health
        grown_up = min(_relation(o.health) for o in (self.early[-1], *self.late)) >= _RELATED
        return grown_up and lowest >= least and measure(self.health) >= _LASTING * measure(half_way)


def _relation(health: Health) -> float:
    """What the translations share with their own references and not with others."""
    return health.free_accuracy - health.chance_accuracy


def _not_a_number(course: _Course) -> str | None:
    if math.isfinite(course.now.valid_loss):
        return None
    return f"the validation loss is no number any more: the model is ruined; {_SLOWER} and begin again"


def _skipping(course: _Course) -> str | None:
    now, steps = course.now, course.now.step - (course.before[-1].step if course.before else 0)
    if now.skipped < max(2, _SKIPPED * steps):
        return None
    return f"{now.skipped:,} of the last {steps:,} steps were left out, loss or gradient being out of bounds: {_SLOWER}"


def _diverged(course: _Course) -> str | None:
    now, best = course.now.valid_loss, course.best.valid_loss
    if now < max(_WORSE * best, best + _NATS_WORSE):
        return None
    accuracy = max(o.health.forced_accuracy for o in course.before)
    forgot = course.health.forced_accuracy < _LOST_ACCURACY * accuracy
    if not forgot and not course.now.train_loss > _RISEN * course.best.train_loss:
        return None
    return (
        f"the validation loss went up from {best:.2f} (step {course.best.step:,}) to {now:.2f}: the training has come "
        f"apart; {_SLOWER}, or lengthen optimizer.warmup_steps"
    )


def _exploding(course: _Course) -> str | None:
    now = course.health.gradient_norm
    norms = [o.health.gradient_norm for o in course.before if math.isfinite(o.health.gradient_norm)]
    usual = median(norms) if len(norms) > 2 else math.inf
    if not max(_SHORT_GRADIENT, _LONGER_GRADIENT * usual) < now or course.now.valid_loss <= course.best.valid_loss:
        return None
    return (
        f"the norm of the gradient is {now / max(usual, 1e-9):.0f} times what it was and the loss no longer "
        f"falls: {_SLOWER}, or clip them (optimizer.clip_norm)"
    )


def _guessing(course: _Course) -> str | None:
    loss, guess = course.now.valid_loss, course.now.unigram_loss
    if loss < _GUESSING * guess or _relation(course.health) >= _RELATED or not course.stalled():
        return None
    return (
        f"the model has learned word frequencies at best: its loss of {loss:.2f} is no better than guessing by them "
        f"({guess:.2f}), and hardly falls; {_SLOWER}, or lengthen optimizer.warmup_steps"
    )


_PAIRS = "check that source and target match line by line (dragoman check)"


def _ignoring(course: _Course) -> str | None:
    health = course.health
    same = course.lasting(lambda h: h.identical, _MANY, _SOME)
    if not same and not course.unrelated():
        return None
    if health.identical >= _SOME:
        return (
            f"{health.identical:.0%} of the translations are the same sentence: the decoder ignores the source; "
            f"{_PAIRS}, then {_SLOWER}"
        )
    return (
        f"the translations have no more to do with their own sources than with others ({health.free_accuracy:.0%} of "
        f"the subwords right, {health.chance_accuracy:.0%} by chance): the decoder ignores the source; {_PAIRS}"
    )


def _empty(course: _Course) -> str | None:
    silent = course.unrelated() and min(o.health.empty for o in course.late) >= _MANY
    if not silent and not course.lasting(lambda h: h.empty, _SOME, _FEW):
        return None
    return f"{course.health.empty:.0%} of the translations are empty: look for empty or cut targets (dragoman check)"


def _unknown(course: _Course) -> str | None:
    if not course.lasting(lambda h: h.unknown, _SOME, _FEW):
        return None
    return (
        f"{course.health.unknown:.0%} of the translations hold broken characters: look for text in a wrong encoding "
        f"(dragoman check, --clean.characters)"
    )


def _copying(course: _Course) -> str | None:
    # No model copies because it is young, so that two validations are enough.
    last_two = [course.health, *(o.health for o in course.before[-1:])]
    if len(last_two) < 2 or course.health.sentences < _ENOUGH or min(h.copied for h in last_two) < _FEW:
        return None
    return (
        f"{course.health.copied:.0%} of the translations copy their source: look for untranslated pairs "
        f"(dragoman check, --clean.copies)"
    )


def _looping(course: _Course) -> str | None:
    if not course.lasting(lambda h: h.repeated, _MANY, _SOME):
        return None
    if course.now.valid_loss > course.best.valid_loss and course.now.train_loss < course.best.train_loss:
        why, cure = "the text is too little for the model", "add text, or take a smaller model"
    else:
        why, cure = "the model is undertrained or the text too little", "train on, or add text"
    return f"{course.health.repeated:.0%} of the translations repeat themselves: {why}; {cure}"


def _wrong_length(course: _Course) -> str | None:
    ratio = course.health.length_ratio
    if course.lasting(lambda h: 1.0 / max(h.length_ratio, 1e-9), 1.0 / _SHORT, 1.0 / _SHORT):
        return (
            f"the translations have {ratio:.0%} of the length of their references: look for targets that are cut "
            f"short (dragoman check, --clean.ratio)"
        )
    if course.lasting(lambda h: h.length_ratio, _LONG, _LONG):
        return (
            f"the translations are {ratio:.1f} times as long as their references: look for targets with more than "
            f"their source says (dragoman check, --clean.ratio)"
        )
    return None


def _lost_alone(course: _Course) -> str | None:
    health = course.health
    if not course.lasting(lambda h: h.gap, _GAP, _GAP):
        return None
    return (
        f"{health.forced_accuracy:.0%} of the subwords are right when the model is shown the reference, but only "
        f"{health.free_accuracy:.0%} in its own translations: it leans on the target more than on the source; {_PAIRS}"
    )


def _overfitting(course: _Course) -> str | None:
    now, best = course.now, course.best
    since = [o for o in course.before if o.step > best.step]
    risen = len(since) > 0 and min(o.valid_loss for o in (now, since[-1])) > _RISEN * best.valid_loss
    learned = now.train_loss < min(best.train_loss, now.valid_loss)
    gained = now.health.free_accuracy >= max((o.health.free_accuracy for o in course.before), default=0.0)
    if not risen or not learned or gained:
        return None
    return (
        f"the model learns the training text by heart: since step {best.step:,} the validation loss rose from "
        f"{best.valid_loss:.2f} to {now.valid_loss:.2f} while the training loss fell to {now.train_loss:.2f}; add "
        f"text, raise model.dropout or take a smaller model"
    )


# The most serious first.
_CHECKS: tuple[Callable[[_Course], str | None], ...] = (
    _not_a_number,
    _skipping,
    _diverged,
    _exploding,
    _guessing,
    _empty,
    _ignoring,
    _unknown,
    _copying,
    _looping,
    _wrong_length,
    _lost_alone,
    _overfitting,
)
