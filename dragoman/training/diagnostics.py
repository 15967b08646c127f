"""How healthy the translations of a validation text are, and in words what is wrong with a run and how to cure it.

A validation loss, with the model shown the reference, can't see a decoder that ignores the source or repeats itself.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from statistics import fmean

import numpy as np
from numpy.typing import ArrayLike

from dragoman.config import EOS, UNK

_LONGEST_STUTTER = 3  # subwords
_LOOP = 4  # subwords
_REPETITIONS = 3
_UNKNOWN = ("<unk>", "⁇", "\ufffd")  # the symbol, how SentencePiece writes it, and bytes that are not a character
_ENOUGH_FOR_MEANS = 16  # sentences


@dataclass(frozen=True)
class Health:
    """How healthy the translations of a validation text are; shares are 0 to 1."""

    sentences: int
    forced_accuracy: float
    """Share of the reference's subwords, `</s>` included, that the model finds the most probable when it is shown
    the reference before them (teacher forcing)."""
    free_accuracy: float
    """Share of the references' subwords that the translations also contain, in any order: the recall of ROUGE-1
    (Lin, 2004). Order does not count, so a translation that is one word late is not wrong from there on."""
    chance_accuracy: float
    """free_accuracy of the same translations against the references of other sentences. If free_accuracy is no higher,
    the source has no influence."""
    length_ratio: float  # subwords of all translations / subwords of all references
    empty: float  # share of translations without any text
    identical: float
    """Share of the most frequent wrong translation among those, not empty, of different sources; 0 if none recurs."""
    repeated: float
    """Share of translations caught in a loop, unlike their reference: one, two or three subwords three times in a row,
    or the same four subwords at three places."""
    copied: float
    """Share of translations that equal their source, although the reference does not."""
    unknown: float
    """Share of translations with `<unk>` or bytes that are not a character, although the reference has none."""
    gradient_norm: float  # median of the norms since the last validation, before clipping

    @property
    def relation(self) -> float:
        """What the translations share with their own references and not with others."""
        return self.free_accuracy - self.chance_accuracy

    def line(self) -> str:
        """Everything on one line; of the shares, those that are not 0%."""
        shares = {"empty": self.empty, "alike": self.identical, "looping": self.repeated}
        shares |= {"copied": self.copied, "unknown": self.unknown}
        parts = [
            f"accuracy {self.forced_accuracy:.0%} forced, {self.free_accuracy:.0%} free",
            f"length {self.length_ratio:.2f}",
            "" if math.isnan(self.gradient_norm) else f"gradient {self.gradient_norm:.2g}",
            ", ".join(f"{share:.0%} {name}" for name, share in shares.items() if f"{share:.0%}" != "0%"),
        ]
        return "health: " + "; ".join(filter(None, parts))

    def values(self) -> dict[str, float]:
        """The numbers by name, for metrics.jsonl and TensorBoard."""
        numbers = {name: float(value) for name, value in asdict(self).items() if name != "sentences"}
        return numbers | {"accuracy_gap": self.forced_accuracy - self.free_accuracy}


def examine_translations(
    sources: Sequence[str],
    references: Sequence[str],
    translations: Sequence[str],
    reference_ids: Sequence[Sequence[int]],
    translation_ids: Sequence[Sequence[int]],
    forced_accuracy: float,
    gradient_norm: float,
) -> Health:
    """Measure the translations of a validation text.

    Ids are target subwords; special symbols such as EOS don't count. The two numbers are passed on to Health.
    """
    written, expected = _without_symbols(translation_ids), _without_symbols(reference_ids)
    looping = [_loops(ids) and not _loops(other) for ids, other in zip(written, expected, strict=True)]
    texts = list(zip(sources, references, translations, strict=True))
    return Health(
        sentences=len(sources),
        forced_accuracy=forced_accuracy,
        free_accuracy=_overlap(written, expected),
        chance_accuracy=_chance_overlap(written, expected),
        length_ratio=sum(map(len, written)) / max(1, sum(map(len, expected))),
        empty=fmean(not translation.strip() for translation in translations),
        identical=_share_of_commonest(texts),
        repeated=fmean(looping),
        copied=fmean(_same(source, text) and not _same(source, reference) for source, reference, text in texts),
        unknown=fmean(
            (UNK in ids or _broken(text)) and not _broken(reference)
            for ids, (_, reference, text) in zip(translation_ids, texts, strict=True)
        ),
        gradient_norm=gradient_norm,
    )


def unigram_loss(counts: ArrayLike) -> float:
    """Loss of guessing each subword by its frequency, in nats per subword: the entropy of the frequencies.

    counts (V,) says how often each id occurs in the validation targets, EOS included.
    """
    numbers = np.asarray(counts, dtype=np.float64)
    shares = numbers[numbers > 0] / numbers.sum()
    return float(-(shares * np.log(shares)).sum())


def _without_symbols(sentences: Sequence[Sequence[int]]) -> list[list[int]]:
    return [[int(i) for i in ids if i > EOS] for ids in sentences]


def _overlap(written: Sequence[Sequence[int]], expected: Sequence[Sequence[int]]) -> float:
    """Share of the expected subwords that were written, sentence by sentence."""
    shared = sum((Counter(ids) & Counter(other)).total() for ids, other in zip(written, expected, strict=True))
    return shared / max(1, sum(map(len, expected)))


def _chance_overlap(written: Sequence[Sequence[int]], expected: Sequence[Sequence[int]]) -> float:
    """Overlap with the references of other sentences, far away because neighbours are often alike."""
    eighths = range(2, 7) if len(expected) >= _ENOUGH_FOR_MEANS else [4]
    places = [len(expected) * eighth // 8 for eighth in eighths]
    return fmean(_overlap(written, [*expected[place:], *expected[:place]]) for place in places)


def _share_of_commonest(texts: Sequence[tuple[str, str, str]]) -> float:
    """Share of the most frequent wrong translation among those of different sources."""
    by_source = {source.strip(): (reference, text) for source, reference, text in texts if text.strip()}
    wrong = Counter(" ".join(text.split()) for reference, text in by_source.values() if not _same(text, reference))
    most = max(wrong.values(), default=0)
    return most / len(by_source) if most > 1 else 0.0


def _loops(ids: Sequence[int]) -> bool:
    """Whether up to three subwords come three times in a row, or four at three places."""
    for length in range(1, _LONGEST_STUTTER + 1):
        run = 0  # positions that equal the one `length` before
        for before, after in zip(ids, ids[length:], strict=False):
            run = run + 1 if before == after else 0
            if run == length * (_REPETITIONS - 1):
                return True
    places = Counter(tuple(ids[i : i + _LOOP]) for i in range(len(ids) - _LOOP + 1))
    return max(places.values(), default=0) >= _REPETITIONS


def _same(first: str, second: str) -> bool:
    return bool(first.strip()) and first.split() == second.split()


def _broken(text: str) -> bool:
    return any(sign in text for sign in _UNKNOWN)


# ---- diagnosing a run


@dataclass(frozen=True)
class Observation:
    """One validation, as diagnose looks at it."""

    step: int
    train_loss: float  # mean since the last validation, as trained, in nats per target subword; nan if unknown
    valid_loss: float  # cross-entropy of the validation text, without smoothing, in nats per target subword
    unigram_loss: float  # unigram_loss of the validation text
    health: Health
    skipped: int = 0  # steps since the last validation, because the loss or the gradient was out of bounds


def diagnose(observations: Sequence[Observation], warmup_steps: int = 0) -> str | None:
    """Say what is wrong with a run, and the cure, in one sentence: the most serious problem only.

    A model early in training writes the same sentence for everything, then loops, then gets it right, and that is no
    fault. So a bad translation counts only if it lasts: for the second half of the run so far, in steps, without
    getting rarer. No number of steps is built in, nor any loss that a healthy model would have to reach.
    During the warm-up of the learning rate, a loss that hardly falls says nothing.

    Takes all validations of the run so far, in order. Returns a sentence without a full stop; None if nothing is wrong,
    or if it is too early to tell.
    """
    course = _Course(observations, warmup_steps)
    return next(chain(_of_training(course), _of_translations(course)), None)


# What counts as wrong, and why so much.
_SLOWER = "lower the learning rate (optimizer.peak_lr; with the paper's schedule, optimizer.lr_scale)"
_GENTLER = f"{_SLOWER}, or raise optimizer.warmup_steps"
_PAIRS = "check that source and target match line by line (dragoman check)"
_SKIPPED = 0.01  # of the steps: a single bad batch is an accident, one in a hundred is a habit
_WORSE, _NATS_WORSE = 1.25, 0.5  # times the best loss, and nats: overfitting takes many validations to get so far
_LOST_ACCURACY = 0.75  # of the best: overfitting does not change it, divergence does
_GUESSING = 0.95  # of the entropy: the place of `</s>` alone is worth a little less than 5%
_UNRELATED = 0.03  # noise of Health.relation in a few hundred sentences
_RELATED = 0.1  # what it is when the first words of the translations are right
_FLUENT = 0.75  # of the entropy: what a model of the target language alone reaches; others are related by then
_STALLED = 0.02  # of the loss, gained while the steps doubled: healthy runs gain 20% and more early on
_ENOUGH = 30  # sentences: a share of fewer says nothing
_LASTING = 0.7  # of what it was half the run ago: what falls faster is cured by training on
_MANY, _SOME = 0.3, 0.1  # a third is wrong at any time; undertrained models have a tenth, finished ones a hundredth
_FEW = 0.05  # of what no model does only because it is early
_SHORT, _LONG = 0.7, 1.5  # greedy search alone gives 0.8 to 1.2
_RISEN = 1.1  # times the best loss: below that it may be noise, and BLEU seldom falls


class _Course:
    """A run so far, with the questions that the checks ask."""

    def __init__(self, observations: Sequence[Observation], warmup_steps: int) -> None:
        self.now, self.health = observations[-1], observations[-1].health
        self.before = [o for o in observations[:-1] if math.isfinite(o.valid_loss)]
        self.best = min(self.before, key=lambda o: o.valid_loss, default=self.now)
        early = [o for o in self.before if o.step <= self.now.step / 2]
        self.late = [*self.before[len(early) :], self.now]
        self._from_half_way = [*early[-1:], *self.late]
        best_early = min((o.valid_loss for o in early), default=math.inf)
        # Whether the second half of the run has hardly lowered the loss.
        hardly = min(o.valid_loss for o in self.late) > (1.0 - _STALLED) * best_early
        self.stalled = hardly and len(early) > 1 and self.now.step > warmup_steps
        self._judged = len(early) > 1 and self.health.sentences >= _ENOUGH

    def unrelated(self) -> bool:
        """Whether for half the run the model has written the target language without a relation to the source."""
        if not self._judged or max(o.health.relation for o in self.late) >= _UNRELATED:
            return False
        return self.stalled or all(o.valid_loss <= _FLUENT * o.unigram_loss for o in self._from_half_way)

    def lasting(self, measure: Callable[[Health], float], least: float, least_when_stalled: float) -> bool:
        """Whether a measure has been this high for half the run, and training on does not lower it."""
        if not self._judged:
            return False
        lowest = min(measure(o.health) for o in self.late)
        if self.stalled and lowest >= least_when_stalled:
            return True
        mature = min(o.health.relation for o in self._from_half_way) >= _RELATED
        return mature and lowest >= least and measure(self.health) >= _LASTING * measure(self._from_half_way[0].health)


def _of_training(course: _Course) -> Iterator[str]:
    """What is wrong with the loss; the most serious first."""
    now, best, health = course.now, course.best, course.health
    if not math.isfinite(now.valid_loss):
        yield f"the validation loss has become NaN (or infinite), and the model is lost; {_SLOWER} and start again"
    steps = now.step - (course.before[-1].step if course.before else 0)
    if now.skipped >= max(2, _SKIPPED * steps):
        yield f"{now.skipped:,} of the last {steps:,} steps were skipped (loss or gradient out of bounds): {_SLOWER}"
    if now.valid_loss >= max(_WORSE * best.valid_loss, best.valid_loss + _NATS_WORSE):
        accuracy = max(o.health.forced_accuracy for o in course.before)
        if health.forced_accuracy < _LOST_ACCURACY * accuracy or now.train_loss > _RISEN * best.train_loss:
            rise = f"from {best.valid_loss:.2f} (step {best.step:,}) to {now.valid_loss:.2f}"
            yield f"training diverges: the validation loss rose {rise}; {_GENTLER}"
    guess = now.unigram_loss
    if now.valid_loss >= _GUESSING * guess and health.relation < _RELATED and course.stalled:
        costs = f"guessing by them costs {guess:.2f}, its loss is {now.valid_loss:.2f} and hardly falls"
        yield f"the model has learned no more than word frequencies: {costs}; {_GENTLER}"
    risen = best is not now and min(o.valid_loss for o in (now, course.before[-1])) > _RISEN * best.valid_loss
    learned = now.train_loss < min(best.train_loss, now.valid_loss)
    gained = health.free_accuracy >= max((o.health.free_accuracy for o in course.before), default=0.0)
    if risen and learned and not gained:
        yield (
            f"the model is overfitting: since step {best.step:,} the validation loss rose from {best.valid_loss:.2f} "
            f"to {now.valid_loss:.2f} while the training loss fell to {now.train_loss:.2f}; add text, raise "
            f"model.dropout, or choose a smaller model"
        )


def _of_translations(course: _Course) -> Iterator[str]:
    """What is wrong with the translations; the most serious first."""
    health = course.health
    if course.lasting(lambda h: h.empty, _SOME, _FEW):
        yield f"{health.empty:.0%} of the translations are empty: look for empty or cut targets (dragoman check)"
    if course.unrelated() or course.lasting(lambda h: h.identical, _MANY, _SOME):
        yield (
            f"the decoder ignores the source: {health.free_accuracy:.0%} of the subwords are right, "
            f"{health.chance_accuracy:.0%} by chance, and {health.identical:.0%} of the translations are the same "
            f"sentence; {_PAIRS}, then {_GENTLER}"
        )
    if course.lasting(lambda h: h.unknown, _SOME, _FEW):
        cure = "look for text in a wrong encoding (dragoman check, --clean.characters)"
        yield f"{health.unknown:.0%} of the translations contain broken characters: {cure}"
    if course.lasting(lambda h: h.copied, _FEW, _FEW):
        cure = "look for untranslated pairs (dragoman check, --clean.copies)"
        yield f"{health.copied:.0%} of the translations copy their source: {cure}"
    if course.lasting(lambda h: h.repeated, _MANY, _SOME):
        cure = "train longer, add text, or choose a smaller model"
        yield f"{health.repeated:.0%} of the translations repeat themselves: {cure}"
    if course.lasting(lambda h: max(h.length_ratio / _LONG, _SHORT / max(h.length_ratio, 1e-9)), 1.0, 1.0):
        cure = "look for targets that are cut short or say more than their source (dragoman check, --clean.ratio)"
        yield f"the translations have {health.length_ratio:.0%} of the length of their references: {cure}"
