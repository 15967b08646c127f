"""What is said, when, and above all when nothing is said: on planted courses, recorded runs and small real ones."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from dragoman.training.diagnostics import Health, Observation, diagnose

GOOD = Health(1000, 0.6, 0.55, 0.14, 1.0, 0.0, 0.0, 0.01, 0.0, 0.0, 0.8)
UNRELATED = replace(GOOD, forced_accuracy=0.3, free_accuracy=0.2, chance_accuracy=0.2)
FALLING = (5.5, 4.5, 3.6, 3.0, 2.5, 2.0)
STALLED = (3.02, 3.0, 3.0, 3.0, 3.01, 2.99)


def observe(
    losses: Sequence[float], healths: Health | Sequence[Health] = GOOD, every: int = 500, **last: Any
) -> list[Observation]:
    """A run with a validation every so many steps; `last` changes the present one."""
    each = [healths] * len(losses) if isinstance(healths, Health) else list(healths)
    course = [
        Observation(every * number, loss + 1.0, loss, 6.0, health)
        for number, (loss, health) in enumerate(zip(losses, each, strict=True), start=1)
    ]
    return [*course[:-1], replace(course[-1], **last)]


def said(course: Sequence[Observation]) -> list[str | None]:
    """What is said at each validation in turn."""
    return [diagnose(course[: number + 1]) for number in range(len(course))]


def spread(health: Health, **values: Sequence[float]) -> list[Health]:
    """Healths that differ in some numbers."""
    return [replace(health, **dict(zip(values, row, strict=True))) for row in zip(*values.values(), strict=True)]


# ---------------------------------------------------------------------------------------------- nothing to say


def test_nothing_is_said_of_a_healthy_run() -> None:
    assert said(observe(FALLING)) == [None] * 6
    assert said(observe(STALLED)) == [None] * 6


# Loss, gradient norm, forced, free and chance accuracy, length ratio, shares alike, looping and empty: a validation
# every 100 steps of English-German captions, and every 50 of the phrasebook. Both go through loops and lengths that
# would be an illness later.
CAPTIONS = """5.55 0.99 0.22 0.21 0.17 0.70 0.06 0.74 0; 4.67 0.80 0.30 0.26 0.14 1.53 0.02 0.48 0
3.96 0.75 0.37 0.33 0.14 0.99 0.01 0.20 0; 3.55 0.74 0.42 0.38 0.14 0.81 0.00 0.12 0
3.29 0.73 0.45 0.40 0.14 0.75 0.00 0.07 0; 3.09 0.77 0.47 0.43 0.14 0.89 0.00 0.11 0
2.94 0.80 0.49 0.46 0.15 0.95 0.00 0.14 0; 2.81 0.75 0.51 0.47 0.15 1.02 0.00 0.14 0
2.71 0.81 0.52 0.48 0.15 1.09 0.00 0.20 0; 2.61 0.80 0.53 0.49 0.15 0.91 0.00 0.10 0"""
PHRASES = """5.72 1.40 0.18 0.08 0.06 0.67 0.49 0.33 0.28; 3.76 1.10 0.38 0.29 0.11 1.24 0.03 0.85 0
2.29 1.20 0.57 0.49 0.12 1.67 0.03 0.46 0; 1.23 1.10 0.74 0.66 0.14 1.14 0.02 0.15 0
0.63 0.88 0.87 0.82 0.14 1.19 0.04 0.12 0; 0.33 0.66 0.92 0.91 0.14 1.01 0.01 0.01 0
0.22 0.54 0.95 0.93 0.14 1.01 0.01 0.00 0; 0.15 0.47 0.97 0.96 0.14 0.99 0.01 0.00 0
0.12 0.40 0.98 0.97 0.14 1.00 0.00 0.00 0; 0.10 0.38 0.98 0.98 0.14 1.00 0.00 0.00 0
0.08 0.30 0.99 0.98 0.14 1.00 0.00 0.00 0; 0.08 0.30 0.99 0.98 0.14 1.00 0.00 0.00 0
0.08 0.27 0.99 0.99 0.14 1.00 0.01 0.00 0; 0.07 0.27 0.99 0.99 0.14 1.00 0.00 0.00 0
0.06 0.22 1.00 0.99 0.14 1.00 0.00 0.00 0; 0.07 0.23 0.99 0.99 0.14 1.00 0.00 0.00 0"""


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize(("record", "unigram"), [(CAPTIONS, 5.83), (PHRASES, 5.04)], ids=["captions", "phrases"])
def test_no_word_is_said_of_recorded_healthy_runs(record: str, unigram: float, stride: int) -> None:
    rows = [[float(word) for word in row.split()] for row in record.replace(";", "\n").split("\n")]
    course = [
        Observation(
            number,
            loss + 1.2,
            loss,
            unigram,
            Health(300, forced, free, chance, ratio, empty, alike, looping, 0.0, 0.0, norm),
        )
        for number, (loss, norm, forced, free, chance, ratio, alike, looping, empty) in enumerate(rows, start=1)
    ]
    assert not any(said(course[stride - 1 :: stride]))


def test_a_few_sentences_are_no_evidence() -> None:
    few = replace(UNRELATED, sentences=20, identical=1.0, repeated=1.0, empty=0.5, copied=0.5, unknown=0.5)
    assert said(observe(STALLED, few)) == [None] * 6


@pytest.mark.parametrize("name", ["empty", "identical", "repeated", "copied", "unknown"])
def test_a_single_bad_validation_is_no_illness(name: str) -> None:
    assert diagnose(observe(FALLING, spread(GOOD, **{name: (0.0, 0.0, 0.0, 0.0, 0.0, 0.5)}))) is None


def test_what_gets_rarer_is_being_cured() -> None:
    assert not any(said(observe(FALLING, spread(GOOD, repeated=(0.9, 0.9, 0.8, 0.5, 0.45, 0.4)))))
    assert diagnose(observe(FALLING, replace(GOOD, repeated=0.4))) is not None


# ---- a run that breaks

LESS_ACCURATE = spread(GOOD, forced_accuracy=(0.4, 0.6, 0.44))


@pytest.mark.parametrize(
    ("course", "words"),
    [
        (observe([5.0, math.nan]), "has become NaN"),
        (observe([math.nan, 4.0, 3.0]), None),  # it was, and is over
        (observe(FALLING, skipped=5), "5 of the last 500 steps were skipped"),
        (observe(FALLING, skipped=4), None),
        (observe(FALLING, every=20, skipped=1), None),  # one bad batch
        (observe([5.0, 3.1, 4.0], train_loss=5.0), "training diverges"),
        (observe([5.0, 3.1, 4.0], train_loss=4.2), None),  # 4.1 before: that may be overfitting
        (observe([5.0, 3.1, 3.5], train_loss=9.0), None),  # not by a quarter
        (observe([5.0, 0.1, 0.5], train_loss=9.0), None),  # not by half a nat
        (observe([5.0, 3.1, 7.0], LESS_ACCURATE, train_loss=3.0), "training diverges"),
        (observe([math.nan, 3.1, 7.0]), "from 3.10"),
    ],
)
def test_a_run_that_breaks(course: list[Observation], words: str | None) -> None:
    assert (words or "None") in str(diagnose(course))


# ---- a model that learned too little


def test_a_model_that_guesses_by_frequency() -> None:
    nothing = replace(UNRELATED, forced_accuracy=0.08, identical=1.0, empty=1.0)
    course = observe([8.0, 6.1, 6.05, 6.04, 6.03, 6.04], nothing)
    assert said(course)[:3] == [None] * 3
    assert "guessing by them costs 6.00, its loss is 6.04" in str(diagnose(course))
    assert diagnose(course, warmup_steps=3000) is None
    assert said(observe([9.0, 8.5, 8.0, 7.5, 7.0, 6.6], nothing)) == [None] * 6  # it is on its way


@pytest.mark.parametrize(
    ("losses", "changes", "words"),
    [
        ([5.6, 5.2, 4.4, 4.1, 3.9, 3.6], {"identical": 1.0}, "100% of the translations are the same sentence; check"),
        (STALLED, {"free_accuracy": 0.22}, "22% of the subwords are right, 20% by chance"),
        (STALLED, {"free_accuracy": 0.25}, "None"),
        ([5.0] * 6, {}, "ignores the source"),  # far from fluent, but at its end
        (STALLED, {"free_accuracy": 0.0, "chance_accuracy": 0.0, "empty": 1.0}, "100% of the translations are empty"),
    ],
)
def test_a_decoder_that_ignores_the_source(losses: list[float], changes: dict[str, float], words: str) -> None:
    assert words in str(diagnose(observe(losses, replace(UNRELATED, **changes))))


# ---- bad translations


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"empty": 0.12}, "12% of the translations are empty"),
        ({"unknown": 0.11}, "11% of the translations contain broken characters"),
        ({"copied": 0.06}, "6% of the translations copy their source"),
        ({"repeated": 0.4}, "40% of the translations repeat themselves"),
        ({"length_ratio": 0.6}, "the translations have 60% of the length of their references"),
        ({"length_ratio": 1.6}, "the translations have 160% of the length of their references"),
    ],
)
def test_what_is_bad_about_related_translations(values: dict[str, float], words: str) -> None:
    for losses in (FALLING, STALLED):
        assert str(diagnose(observe(losses, replace(GOOD, **values)))).startswith(words)


@pytest.mark.parametrize(
    ("values", "stalled"),
    [
        ({"empty": 0.06}, True),
        ({"repeated": 0.15}, True),
        ({"empty": 0.04, "unknown": 0.04, "copied": 0.04, "repeated": 0.09, "identical": 0.09}, False),
        ({"length_ratio": 0.75}, False),
        ({"length_ratio": 1.4}, False),
    ],
)
def test_less_is_said_while_the_loss_falls(values: dict[str, float], stalled: bool) -> None:
    assert diagnose(observe(FALLING, replace(GOOD, **values))) is None
    assert (diagnose(observe(STALLED, replace(GOOD, **values))) is not None) == stalled


def test_learning_by_heart() -> None:
    free = spread(GOOD, free_accuracy=(0.4, 0.55, 0.56, 0.55, 0.54))
    course = observe((3.0, 2.0, 2.1, 2.3, 2.4), free)
    course = [replace(o, train_loss=loss) for o, loss in zip(course, (4.0, 3.0, 2.2, 1.9, 1.6), strict=True)]
    words = "since step 1,000 the validation loss rose from 2.00 to 2.40 while the training loss fell to 1.60"
    assert words in str(diagnose(course))
    assert diagnose(course[:4]) is None  # only once beyond 10%
    better = replace(course[-1], health=replace(GOOD, free_accuracy=0.6))
    assert diagnose([*course[:-1], better]) is None  # the translations gain all the same
    assert diagnose([*course[:-1], replace(course[-1], train_loss=2.9)]) is None  # above the validation loss


def test_the_most_serious_thing_comes_first() -> None:
    sick = replace(GOOD, empty=0.3, unknown=0.3, copied=0.3, repeated=0.4)
    assert "skipped" in str(diagnose(observe(FALLING, sick, skipped=100)))
    for word, name in (("empty", "empty"), ("broken", "unknown"), ("copy", "copied"), ("repeat", "repeated")):
        assert word in str(diagnose(observe(FALLING, sick)))
        sick = replace(sick, **{name: 0.0})
    assert diagnose(observe(FALLING, sick)) is None
