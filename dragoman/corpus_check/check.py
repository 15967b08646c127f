"""The corpus doctor: examines parallel text before training, in flat memory, and says what is wrong with it.

The text is read twice: once to learn what is usual in it (lengths, letters, words, scripts), once to look at every
pair. What has to be compared with all that came before goes through temporary files.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dragoman.config import DragomanError
from dragoman.corpus_check.blocks import Block
from dragoman.corpus_check.characters import composed_lines
from dragoman.corpus_check.duplicates import HeldOut, Keys, Repeats, contains, near_keys, pair_keys, side_keys
from dragoman.corpus_check.issues import Example, Finding, Sighting, Tally
from dragoman.corpus_check.misalignment import Slip, SlipFinder
from dragoman.corpus_check.pair_checks import Usual, checks_of
from dragoman.corpus_check.reasons import (
    ALL_COPIED,
    ALL_SWAPPED,
    BAD_JSON,
    COPY,
    DUPLICATE,
    EMPTY,
    MIXED_FORMS,
    NEAR_DUPLICATE,
    NEAR_OVERLAP,
    NO_PAIRS,
    NOT_NFC,
    OTHER_SIDE,
    OUT_OF_STEP,
    OVERLAP,
    RATIO,
    SHARED,
    SHORT_COPY,
    SOURCE_OVERLAP,
    SWAPPED,
    TARGET_OVERLAP,
    THIRD_LANGUAGE,
    UNEXPECTED_LANGUAGE,
    UNEXPECTED_SCRIPT,
    UNREADABLE,
    UNRELATED,
    UTF16,
    WRONG_FORM,
    WRONG_SCRIPT,
    Flag,
    Reason,
)
from dragoman.corpus_check.report import render_report
from dragoman.corpus_check.survey import Progress, Survey, survey_text
from dragoman.text.corpus import EncodingError, FormError, json_form, locate

_SEVERITIES = ("error", "warning", "note")
_MISLEADING = {reason.name for reason in (ALL_SWAPPED, UNEXPECTED_LANGUAGE, UNEXPECTED_SCRIPT)}
_JUDGED_BY_TRAINING = {
    reason.name for reason in (RATIO, SWAPPED, ALL_SWAPPED, OTHER_SIDE, THIRD_LANGUAGE, WRONG_SCRIPT, UNRELATED)
}
_JUDGED_CHARACTERS = 25  # on both sides, for a pair to count when a whole corpus may be the wrong way round


@dataclass(frozen=True)
class Diagnosis:
    """What the doctor found."""

    findings: list[Finding]
    """The gravest first, and among equals the most frequent."""
    pairs: int
    """Training pairs; where two files have different numbers of lines, as many as the shorter has."""
    held_out: dict[str, int]
    """Pairs of the validation and of the test text, where there are such texts."""
    flags: NDArray[np.uint16]
    """For each training pair, in the order of corpus.read_pairs, the bits of Flag; (pairs,), in a temporary file."""

    @property
    def usable(self) -> bool:
        """Whether training can read the text at all."""
        return not any(finding.reason in UNREADABLE for finding in self.findings)

    def describe(self, width: int = 80) -> str:
        """The report for people, in plain lines of at most this many columns."""
        return render_report(self.findings, {"training": self.pairs, **self.held_out}, width)

    def to_dict(self) -> dict[str, Any]:
        """The report for programs."""
        flagged = {(flag.name or "").lower(): int(np.count_nonzero(self.flags & np.uint16(flag))) for flag in Flag}
        return {
            "pairs": {"training": self.pairs, **self.held_out},
            "usable": self.usable,
            "flagged": flagged,
            "findings": [finding.to_dict() for finding in self.findings],
        }


@contextmanager
def _temporary_files() -> Iterator[None]:
    """Say of a temporary file that can't be written where it is."""
    try:
        yield
    except OSError as error:
        if error.filename is not None:
            raise
        raise DragomanError(
            f"{tempfile.tempdir}: temporary files could not be written ({error.strerror}); make room there, or name "
            f"another folder in the environment variable TMPDIR"
        ) from None


@_temporary_files()
def examine_text(
    train: Sequence[str],
    source: str,
    target: str,
    valid: Sequence[str] = (),
    test: Sequence[str] = (),
    examples: int = 3,
    progress: Progress | None = None,
) -> Diagnosis:
    """Examine parallel text: training text, and if there is, the validation and test text that it must not contain.

    Args:
        train: the training texts, each as locate takes it.
        source: the source language code.
        target: the target language code.
        valid: the validation texts.
        test: the test texts.
        examples: how many places of each fault to keep.
        progress: told now and then how far it is.

    Raises:
        DragomanError: a file is missing or damaged, or there is no room for temporary ones. Text that can be read in
            part is examined in part; of a file that is no text at all, or in another form, that is the one finding.
    """
    given = {"training": train, "validation": valid, "test": test}
    tell = progress or (lambda done, total: None)
    surveys: dict[str, Survey] = {}
    for name, texts in given.items():
        if texts or name == "training":
            try:
                surveys[name] = survey_text([locate(text, source, target) for text in texts], (source, target), tell)
            except FormError as error:
                return _refusal(name, error)
    training = surveys["training"]
    held = {
        name: HeldOut(block for _, _, block in survey.blocks())
        for name, survey in surveys.items()
        if name != "training"
    }
    flags, findings = _empty_flags(training.pairs), []
    for name, survey in surveys.items():
        examination = _Examination(Tally(name, examples), survey, training.usual)
        if name == "training":
            examination.run(flags, held, tell)
        else:
            before = {other: text for other, text in held.items() if (other, name) == ("validation", "test")}
            examination.run(np.zeros(survey.pairs, np.uint16), before, lambda done, total: None)
        findings += examination.tally.findings(survey.pairs)
    sizes = {name: survey.pairs for name, survey in surveys.items() if name != "training"}
    return Diagnosis(_in_order(findings), training.pairs, sizes, flags)


def _refusal(text: str, error: FormError) -> Diagnosis:
    """All that there is to say where a whole file is not what it should be."""
    tally = Tally(text, 0)
    tally.count(UTF16 if isinstance(error, EncodingError) else WRONG_FORM, 1, f"{error}.")
    return Diagnosis(tally.findings(1), 0, {}, _empty_flags(0))


def _in_order(findings: list[Finding]) -> list[Finding]:
    """The gravest first; without those of held-out text that can't be judged."""
    if any(map(_misleads, findings)):
        findings = [f for f in findings if f.text == "training" or f.reason not in _JUDGED_BY_TRAINING]
    return sorted(findings, key=lambda finding: (_SEVERITIES.index(finding.severity), -finding.count))


def _misleads(finding: Finding) -> bool:
    """Whether the training text is such that held-out text can't be judged by what is usual in it."""
    unreadable = finding.reason in UNREADABLE and finding.share > 0.5
    return finding.text == "training" and (unreadable or finding.reason in _MISLEADING)


def _empty_flags(pairs: int) -> NDArray[np.uint16]:
    """No flags yet; in a file that has no name and goes with the array."""
    if not pairs:
        return np.zeros(0, np.uint16)
    with tempfile.TemporaryFile() as file:
        if hasattr(os, "posix_fallocate"):  # a mapped file that finds no room later on ends the process
            os.posix_fallocate(file.fileno(), 0, pairs * np.dtype(np.uint16).itemsize)
        return np.memmap(file, np.uint16, "w+", shape=(pairs,))


class _Examination:
    """The second look at one text."""

    def __init__(self, tally: Tally, survey: Survey, usual: Usual) -> None:
        self.tally, self.survey = tally, survey
        self._checks = checks_of(usual)
        self._slips = [SlipFinder() for _ in survey.extents]
        self._forms: Counter[tuple[int, int, str]] = Counter()  # lines by corpus, side and normal form
        self._seen: Counter[tuple[int, Reason]] = Counter()  # by corpus
        self._long: Counter[int] = Counter()  # pairs of a corpus with enough letters to judge

    def run(self, flags: NDArray[np.uint16], held: dict[str, HeldOut], progress: Progress) -> None:
        """Look at all pairs, and set their flags; repeats are looked for in training text alone.

        Training text is compared with all that is held out, test text with the validation text.
        """
        upside_down = self.survey.report(self.tally)
        training = self.tally.text == "training"
        with ExitStack() as stack:
            repeats = [stack.enter_context(Repeats(self.survey.pairs)) for _ in range(2)] if training else []
            for corpus, first, block in self.survey.blocks():
                self._look(corpus, first, block, flags)
                if training:
                    self._compare(first, block, flags, repeats, held)
                elif held:
                    self._find_shared(first, block, flags, held["validation"])
                progress(first + len(block), self.survey.pairs)
            for found, reason in zip(repeats, (DUPLICATE, NEAR_DUPLICATE), strict=False):
                self._find_repeats(found, reason, flags)
        for number in range(len(self.survey.extents)):
            self._report_slips(number)
            self._report_swapped(number, upside_down[number])
            self._report_copied(number)
        self._report_forms()
        if 0 < self.tally.counts.get(EMPTY, 0) == self.survey.pairs:
            self.tally.count(NO_PAIRS, len(self.survey.extents), "Every pair has an empty side.")
        if BAD_JSON in self.tally.counts:
            self.tally.count(BAD_JSON, 0, f"In JSONL, {json_form(self.survey.codes)}.")

    def _look(self, corpus: int, first: int, block: Block, flags: NDArray[np.uint16]) -> None:
        """Look at a block by itself."""
        for sighting in block.sightings:
            self._note(block, sighting, first, flags)
        for check in self._checks:
            for sighting in check(block):
                self._note(block, sighting, first, flags)
                if sighting.reason == NOT_NFC:
                    self._forms[corpus, sighting.side or 0, "apart"] += len(sighting.rows)
                self._seen[corpus, sighting.reason] += len(sighting.rows)
        source, target = block.sides
        self._slips[corpus].add(source.lengths, target.lengths)
        long = (source.lengths >= _JUDGED_CHARACTERS) & (target.lengths >= _JUDGED_CHARACTERS)
        self._long[corpus] += int(np.count_nonzero(long))
        for number, side in enumerate(block.sides):
            self._forms[corpus, number, "composed"] += composed_lines(side)

    def _note(self, block: Block, sighting: Sighting, first: int, flags: NDArray[np.uint16]) -> None:
        self.tally.count(sighting.reason, len(sighting.rows))
        if (wanted := self.tally.wanted(sighting.reason)) > 0:
            self.tally.show(sighting.reason, block.examples(sighting, wanted))
        if sighting.reason.flag:
            flags[first + sighting.rows] |= np.uint16(sighting.reason.flag)

    def _compare(
        self, first: int, block: Block, flags: NDArray[np.uint16], repeats: list[Repeats], held: dict[str, HeldOut]
    ) -> None:
        """Compare a block with the held-out text, and lay its keys by to be compared with one another."""
        keys, whole = pair_keys(block), block.whole
        near, comparable = near_keys(block)
        comparable &= whole
        numbers = first + np.arange(len(block), dtype=np.int64)
        for found, these, chosen in zip(repeats, (keys, near), (whole, comparable), strict=True):
            found.add(these[chosen], numbers[chosen])
        if held:
            self._find_overlap(first, block, flags, held, (keys, near, comparable))

    def _find_overlap(
        self,
        first: int,
        block: Block,
        flags: NDArray[np.uint16],
        held: dict[str, HeldOut],
        keys: tuple[Keys, Keys, NDArray[np.bool_]],
    ) -> None:
        """Find the pairs of a block that are also held out; each counts once, by how much of it is."""
        exact, near, comparable = keys
        sources, targets = (side_keys(block, number) for number in range(2))
        open_ = block.whole.copy()
        for reason, found in (
            (OVERLAP, {name: contains(text.pairs, exact) for name, text in held.items()}),
            (NEAR_OVERLAP, {name: contains(text.near, near) & comparable for name, text in held.items()}),
            (SOURCE_OVERLAP, {name: contains(text.sources, sources) for name, text in held.items()}),
            (TARGET_OVERLAP, {name: contains(text.targets, targets) for name, text in held.items()}),
        ):
            rows = np.flatnonzero(np.logical_or.reduce(list(found.values())) & open_)
            open_[rows] = False
            if rows.size:
                where = [" and ".join(name for name, mask in found.items() if mask[row]) for row in rows.tolist()]
                remarks = [f"in the {names} text" for names in where]
                self._note(block, Sighting(reason, rows, remarks=remarks), first, flags)

    def _find_shared(self, first: int, block: Block, flags: NDArray[np.uint16], validation: HeldOut) -> None:
        """Find the pairs of a block of test text that are validation text, too."""
        rows = np.flatnonzero(contains(validation.pairs, pair_keys(block)) & block.whole)
        if rows.size:
            self._note(block, Sighting(SHARED, rows), first, flags)

    def _find_repeats(self, repeats: Repeats, reason: Reason, flags: NDArray[np.uint16]) -> None:
        """Count and flag the pairs that came before; those that came exactly so are no near duplicates."""
        shown: list[tuple[int, int]] = []
        for later, earlier in repeats.found():
            chosen = np.ones(len(later), np.bool_)
            if reason == NEAR_DUPLICATE:
                chosen = (flags[later] & Flag.DUPLICATE) == 0
            later, earlier = later[chosen], earlier[chosen]
            flags[later] |= np.uint16(reason.flag)
            self.tally.count(reason, len(later))
            order = np.argsort(later)[: self.tally.limit]
            shown = sorted([*shown, *zip(later[order].tolist(), earlier[order].tolist(), strict=True)])
            del shown[self.tally.limit :]
        examples = self.survey.fetch(number for pair in shown for number in pair)
        self.tally.show(reason, (_refer(examples[later], examples[earlier], reason) for later, earlier in shown))

    def _report_slips(self, number: int) -> None:
        extent = self.survey.extents[number]
        starts: dict[Reason, list[int]] = {OUT_OF_STEP: [], UNRELATED: []}
        for slip in self._slips[number].finish():
            reason = OUT_OF_STEP if slip.shift else UNRELATED
            detail = f"{extent.corpus.paths[0]}, lines {slip.start + 1:,} to {slip.end:,}{_in_words(slip)}."
            self.tally.count(reason, slip.end - slip.start, detail)
            if len(starts[reason]) < self.tally.wanted(reason):
                starts[reason].append(extent.start + slip.start)
        examples = self.survey.fetch(start for some in starts.values() for start in some)
        for reason, some in starts.items():
            self.tally.show(reason, (examples[start] for start in some))

    def _report_swapped(self, number: int, told: bool) -> None:
        """Where most pairs of a corpus are swapped, say so once instead of pair by pair.

        Args:
            number: of the corpus.
            told: whether that was said already.
        """
        extent, swapped = self.survey.extents[number], self._seen[number, SWAPPED]
        if not told and (2 * swapped < self._long[number] or 5 * swapped < extent.sound or swapped < 20):
            return
        name = str(extent.corpus.paths[0])
        if not told:
            self.tally.count(ALL_SWAPPED, extent.pairs, f"{name}: {swapped:,} of {extent.pairs:,} pairs surely are.")
        self._take_back(number, (SWAPPED, OTHER_SIDE))

    def _report_copied(self, number: int) -> None:
        """Where most pairs of a corpus are the same on both sides, say so once instead of pair by pair."""
        extent = self.survey.extents[number]
        copied = self._seen[number, COPY] + self._seen[number, SHORT_COPY]
        if 2 * copied > extent.sound and copied >= 20:
            name = " and ".join(map(str, extent.corpus.paths))
            self.tally.count(ALL_COPIED, copied, f"{name}: {copied:,} of {extent.pairs:,} pairs are.")
            self._take_back(number, (COPY, SHORT_COPY))

    def _take_back(self, number: int, reasons: Sequence[Reason]) -> None:
        """Forget what was counted of a corpus for these reasons, and its examples."""
        paths = {str(path) for path in self.survey.extents[number].corpus.paths}
        for reason in reasons:
            self.tally.count(reason, -self._seen[number, reason])
            kept = self.tally.examples.pop(reason, [])
            self.tally.examples[reason] = [example for example in kept if example.file not in paths]

    def _report_forms(self) -> None:
        """Where one side writes letters both as NFC does and otherwise, say that instead."""
        mixed = [
            (number, side, self._forms[number, side, "apart"], self._forms[number, side, "composed"])
            for number in range(len(self.survey.extents))
            for side in range(2)
            if self._forms[number, side, "apart"] and self._forms[number, side, "composed"]
        ]
        for number, side, apart, composed in mixed:
            paths = self.survey.extents[number].corpus.paths
            path = paths[min(side, len(paths) - 1)]
            detail = f"{path}: {apart:,} lines have letters that NFC replaces, {composed:,} such as it writes."
            self.tally.count(MIXED_FORMS, min(apart, composed), detail)
            self.tally.count(NOT_NFC, -apart)
            shown = self.tally.examples.pop(NOT_NFC, [])
            self.tally.show(MIXED_FORMS, [example for example in shown if example.file == str(path)])
            self.tally.show(NOT_NFC, [example for example in shown if example.file != str(path)])


def _refer(example: Example, earlier: Example, reason: Reason) -> Example:
    """A repeated pair, with the place where it came first."""
    place = f"line {earlier.line:,}" if earlier.file == example.file else f"{earlier.file}, line {earlier.line:,}"
    return replace(example, remark=f"{'like' if reason == NEAR_DUPLICATE else 'same as'} {place}")


def _in_words(slip: Slip) -> str:
    if not slip.shift:
        return ": the lengths of the two sides have nothing to do with each other"
    lines = "a line" if abs(slip.shift) == 1 else f"{abs(slip.shift)} lines"
    return f": the translation seems to stand {lines} {'further down' if slip.shift > 0 else 'further up'}"
