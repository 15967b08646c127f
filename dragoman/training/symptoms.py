"""What can be measured on the translations of a validation text, beside their scores.

A validation loss is measured with the model shown the reference, so it can't see a decoder that ignores the
source, repeats itself, copies, stops too early or writes nothing. These numbers are about the translations themselves.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean

import numpy as np
from numpy.typing import ArrayLike

from dragoman.config import EOS, UNK

_LONGEST_STUTTER = 3  # subwords
_LOOP = 4  # subwords
_TIMES = 3
_UNKNOWN = ("<unk>", "⁇", "\ufffd")  # the symbol, how SentencePiece writes it, and bytes that spell no character
_SHOWN_SHARES = 2
_ENOUGH_FOR_MEANS = 16  # sentences


@dataclass(frozen=True)
class Health:
    """How healthy the translations of a validation text are."""

    sentences: int
    """Number of translations looked at."""
    forced_accuracy: float
    """Share of the reference's subwords, `</s>` included, that the model finds the most probable when it is shown
    the reference before them (teacher forcing), 0 to 1."""
    free_accuracy: float
    """Share of the references' subwords that the translations also have, wherever they stand, 0 to 1: each sentence's
    Σ min(count in translation, count in reference), summed, over the number of subwords in the references. It is the
    recall of ROUGE-1 (Lin, 2004), on subwords: order does not count, so that a translation which is one word late is
    not wrong from there on."""
    chance_accuracy: float
    """free_accuracy of the same translations against the references of other sentences, 0 to 1: what any sentence
    of this language has in common with any other. Where free_accuracy is no higher, the source has no influence."""
    length_ratio: float
    """Subwords of all translations / subwords of all references."""
    empty: float
    """Share of translations without any text, 0 to 1."""
    identical: float
    """Share of the most frequent wrong translation among those, not empty, of different sources, 0 to 1; 0 where no
    translation occurs twice."""
    repeated: float
    """Share of translations caught in a loop, 0 to 1: one, two or three subwords three times in a row, or the same
    four subwords at three places, where the reference has no such thing."""
    copied: float
    """Share of translations that equal their source, although the reference does not, 0 to 1."""
    unknown: float
    """Share of translations with `<unk>` or bytes that spell no character, although the reference has none, 0 to 1."""
    gradient_norm: float
    """Median norm of the gradients since the last validation, before clipping."""

    @property
    def gap(self) -> float:
        """forced_accuracy - free_accuracy: large where the model goes astray on its own words.

        It says nothing of their order, which counts in the first and not in the second.
        """
        return self.forced_accuracy - self.free_accuracy

    def line(self) -> str:
        """All of it on one line of less than 100 characters; of the shares, the largest that are not 0%."""
        shares = {"empty": self.empty, "alike": self.identical, "looping": self.repeated}
        shares |= {"copied": self.copied, "unknown": self.unknown}
        worst = sorted(shares, key=lambda name: -shares[name])[:_SHOWN_SHARES]
        parts = [
            f"accuracy {self.forced_accuracy:.0%} forced, {self.free_accuracy:.0%} free",
            f"length {self.length_ratio:.2f}",
            "" if math.isnan(self.gradient_norm) else f"gradient {self.gradient_norm:.2g}",
            ", ".join(f"{shares[name]:.0%} {name}" for name in worst if f"{shares[name]:.0%}" != "0%"),
        ]
        return "health: " + "; ".join(filter(None, parts))

    def values(self) -> dict[str, float]:
        """The numbers by name, for metrics.jsonl and TensorBoard."""
        numbers = {name: float(value) for name, value in asdict(self).items() if name != "sentences"}
        return numbers | {"accuracy_gap": self.gap}


def examine_translations(
    sources: Sequence[str],
    references: Sequence[str],
    translations: Sequence[str],
    reference_ids: Sequence[Sequence[int]],
    translation_ids: Sequence[Sequence[int]],
    forced_accuracy: float,
    gradient_norm: float,
) -> Health:
    """Look at the translations of a validation text.

    Args:
        sources: raw text, a line for each translation.
        references: raw text.
        translations: raw text.
        reference_ids: target subwords of each reference; special symbols such as EOS don't count.
        translation_ids: target subwords of each translation, likewise.
        forced_accuracy: as in Health.
        gradient_norm: as in Health.

    Raises:
        ValueError: there is nothing to look at, or the arguments differ in length.
    """
    if len({len(x) for x in (sources, references, translations, reference_ids, translation_ids)}) != 1 or not sources:
        raise ValueError("there must be one source, reference and translation for each other, and at least one")
    written, wanted = _plain(translation_ids), _plain(reference_ids)
    stuck = [_loops(ids) and not _loops(other) for ids, other in zip(written, wanted, strict=True)]
    texts = list(zip(sources, references, translations, strict=True))
    return Health(
        sentences=len(sources),
        forced_accuracy=forced_accuracy,
        free_accuracy=_overlap(written, wanted),
        chance_accuracy=_by_chance(written, wanted),
        length_ratio=sum(map(len, written)) / max(1, sum(map(len, wanted))),
        empty=_share(not translation.strip() for translation in translations),
        identical=_share_of_commonest(texts),
        repeated=_share(stuck),
        copied=_share(_same(source, text) and not _same(source, reference) for source, reference, text in texts),
        unknown=_share(
            (UNK in ids or _broken(text)) and not _broken(reference)
            for ids, (_, reference, text) in zip(translation_ids, texts, strict=True)
        ),
        gradient_norm=gradient_norm,
    )


def unigram_loss(counts: ArrayLike) -> float:
    """What guessing each subword by its frequency costs, in nats per subword: the entropy of the frequencies.

    Args:
        counts: how often each id occurs in the validation targets, EOS included, (V,).

    Raises:
        ValueError: there is nothing to count.
    """
    numbers = np.asarray(counts, dtype=np.float64)
    total = numbers.sum()
    if not total > 0:
        raise ValueError("the validation text has no subwords")
    shares = numbers[numbers > 0] / total
    return float(-(shares * np.log(shares)).sum())


def _plain(sentences: Sequence[Sequence[int]]) -> list[list[int]]:
    """Sentences without special symbols."""
    return [[int(i) for i in ids if i > EOS] for ids in sentences]


def _share(answers: Iterable[bool]) -> float:
    counted = list(answers)
    return sum(counted) / len(counted)


def _overlap(written: Sequence[Sequence[int]], wanted: Sequence[Sequence[int]]) -> float:
    """Share of the wanted subwords that were written, sentence by sentence."""
    common = sum((Counter(ids) & Counter(other)).total() for ids, other in zip(written, wanted, strict=True))
    return common / max(1, sum(map(len, wanted)))


def _by_chance(written: Sequence[Sequence[int]], wanted: Sequence[Sequence[int]]) -> float:
    """The overlap with what was wanted of other sentences, the mean of several where there are enough.

    They are far away, because neighbours are often alike.
    """
    eighths = range(2, 7) if len(wanted) >= _ENOUGH_FOR_MEANS else [4]
    places = [len(wanted) * eighth // 8 for eighth in eighths]
    return fmean(_overlap(written, [*wanted[place:], *wanted[:place]]) for place in places)


def _share_of_commonest(texts: Sequence[tuple[str, str, str]]) -> float:
    """Share of the most frequent wrong translation among those of different sources."""
    by_source = {source.strip(): (reference, text) for source, reference, text in texts if text.strip()}
    wrong = Counter(_tidy(text) for reference, text in by_source.values() if not _same(text, reference))
    most = max(wrong.values(), default=0)
    return most / len(by_source) if most > 1 else 0.0


def _loops(ids: Sequence[int]) -> bool:
    """Whether subwords come again and again: up to three of them three times in a row, or four at three places."""
    for length in range(1, _LONGEST_STUTTER + 1):
        run = 0  # positions that equal the one `length` before
        for before, after in zip(ids, ids[length:], strict=False):
            run = run + 1 if before == after else 0
            if run == length * (_TIMES - 1):
                return True
    places = Counter(tuple(ids[i : i + _LOOP]) for i in range(len(ids) - _LOOP + 1))
    return max(places.values(), default=0) >= _TIMES


def _tidy(text: str) -> str:
    return " ".join(text.split())


def _same(first: str, second: str) -> bool:
    return bool(first.strip()) and _tidy(first) == _tidy(second)


def _broken(text: str) -> bool:
    return any(sign in text for sign in _UNKNOWN)
