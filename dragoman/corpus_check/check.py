"""The check of parallel text before training.

The text is read twice: once to count the pairs and to learn what is usual in it (lengths, letters, languages, scripts),
and once to look at every pair.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dragoman.corpus_check.blocks import Block, in_blocks
from dragoman.corpus_check.duplicates import Keys, contains, find_repeats, hash_pairs, hash_text
from dragoman.corpus_check.issues import (
    ISSUES,
    SEVERITIES,
    Example,
    Finding,
    Flag,
    Sighting,
    Tally,
    excerpt,
    render_report,
)
from dragoman.corpus_check.language_id import (
    LetterModel,
    Profile,
    Sample,
    fits_scripts,
    known_languages,
    main_scripts,
    names_of,
    profile_side,
    scripts_of,
)
from dragoman.corpus_check.misalignment import find_slips
from dragoman.corpus_check.pair_checks import Usual, check_pairs, usual_ratio
from dragoman.text.corpus import Corpus, Problem, json_form, locate

Progress = Callable[[int, int], None]
"""Called with the number of training pairs checked and their number in all, which is 0 while they are counted."""

Flags = NDArray[np.uint16]

_JUDGED_BY_TRAINING = {
    *("length ratio", "sides swapped", "text the wrong way round", "language of the other side", "third language"),
    *("wrong script", "unrelated lengths"),
}
_MISLEADING = {"text the wrong way round", "unexpected language", "unexpected script"}
_MIN_CHARACTERS = 25  # on both sides, for a pair to count when most of a corpus may be the wrong way round
_MIN_PAIRS = 20  # to say something of a whole corpus
_LEAKS = {
    "also in held-out text": "pairs",
    "almost in held-out text": "letters",
    "source in held-out text": "sources",
    "target in held-out text": "targets",
}  # and the hashes that show them


@dataclass(frozen=True)
class Diagnosis:
    """What the check has found."""

    findings: list[Finding]
    """The gravest first, and among equals the most frequent."""
    pairs: int
    """Training pairs; of two files with different numbers of lines, those of the shorter."""
    held_out: dict[str, int]
    """Pairs of the validation and of the test text, if there are such texts."""
    flags: Flags
    """The bits of Flag for each training pair, in the order of corpus.read_pairs, (pairs,)."""

    @property
    def usable(self) -> bool:
        """Whether training can read the text."""
        return not any(finding.issue.unreadable for finding in self.findings)

    def describe(self, width: int = 80) -> str:
        """Return the report for people, in lines of at most this many columns."""
        return render_report(self.findings, {"training": self.pairs, **self.held_out}, width)

    def to_dict(self) -> dict[str, Any]:
        """Return the report for programs."""
        return {
            "pairs": {"training": self.pairs, **self.held_out},
            "usable": self.usable,
            "flagged": {str(flag.name).lower(): int(np.count_nonzero(self.flags & np.uint16(flag))) for flag in Flag},
            "findings": [finding.to_dict() for finding in self.findings],
        }


def examine_text(
    train: Sequence[str],
    source: str,
    target: str,
    valid: Sequence[str] = (),
    test: Sequence[str] = (),
    examples: int = 3,
    progress: Progress = lambda done, total: None,
) -> Diagnosis:
    """Check parallel text: the training text, and the validation and test texts that it must not contain.

    Each text is given as locate takes it. So many examples of each issue are kept.

    Raises:
        DragomanError: a file is missing, damaged, or in another form. Lines that can't be read are findings.
    """
    given = {"training": train, "validation": valid, "test": test}
    texts = {
        name: _Text(name, [locate(text, source, target) for text in named], examples, progress)
        for name, named in given.items()
        if named or name == "training"
    }
    training = texts["training"]
    usual = training.usual()
    held_out = {name: hash_text(text.blocks()) for name, text in texts.items() if name != "training"}
    flags = training.check(usual, held_out, progress)
    for name in held_out:
        others = {other: held for other, held in held_out.items() if (other, name) == ("validation", "test")}
        texts[name].check(usual, others, lambda done, total: None)
    findings = [finding for text in texts.values() for finding in text.tally.finish(text.name, text.pairs)]
    return Diagnosis(_in_order(findings), training.pairs, {name: texts[name].pairs for name in held_out}, flags)


def _in_order(findings: list[Finding]) -> list[Finding]:
    """The gravest first, without those of held-out text that can't be judged by the training text."""
    training = [finding for finding in findings if finding.text == "training"]
    if any(f.reason in _MISLEADING or (f.issue.unreadable and f.share > 0.5) for f in training):
        findings = [f for f in findings if f.text == "training" or f.reason not in _JUDGED_BY_TRAINING]
    return sorted(findings, key=lambda finding: (SEVERITIES.index(finding.severity), -finding.count))


class _Part:
    """One corpus of a text: what reading shows of it, and what is found in it."""

    def __init__(self, corpus: Corpus, examples: int) -> None:
        self.corpus, self.name = corpus, " and ".join(map(str, corpus.paths))
        self.tally = Tally(examples)
        self.pairs = 0
        self.sides: tuple[Profile, Profile]
        self.lengths = [np.zeros((2, 0), np.uint16)]  # of blocks
        self._unreadable: set[int] = set()  # numbers of pairs, from 0
        self._aligned: int | None = None  # pairs before the place where two files of different length go apart

    def read(self) -> Iterator[Block]:
        """Read all pairs for the first time, and note the problems of reading."""
        for block in in_blocks(self.corpus, self.corpus.read(self._note_problem)):
            self.pairs += len(block)
            yield block

    def _note_problem(self, problem: Problem) -> None:
        texts, remark, detail = (excerpt(problem.text),) if problem.text else (), problem.remark, ""
        if problem.kind == "line counts differ":
            self._aligned = problem.line - 1
            remark, detail = "", f"{remark}. Only the lines before it were compared."
        elif problem.message:
            self._unreadable.add(problem.line - 1)
        self.tally.add(problem.kind, problem.lines, detail, [Example(problem.file, problem.line, texts, remark)])

    def blocks(self) -> Iterator[Block]:
        """Read the pairs again, as far as the two sides belong together."""
        pairs = self.corpus.read(lambda problem: None)
        return in_blocks(self.corpus, islice(pairs, self._aligned), self._unreadable)

    def fetch(self, wanted: set[int]) -> dict[int, Example]:
        """Read some pairs again, by their numbers from 0."""
        found = dict[int, Example]()
        for block in self.blocks() if wanted else ():
            rows = [number - block.start for number in wanted if 0 <= number - block.start < len(block)]
            found |= {block.start + row: block.example(Sighting("", row)) for row in rows}
            if len(found) == len(wanted):
                break
        return found

    def check_languages(self) -> bool:
        """Note if the corpus is not in the expected languages; returns whether it is the wrong way round."""
        codes, sides = self.corpus.languages, self.sides
        known = [scripts_of(code) for code in codes]
        wrong = [bool(known[n]) and not fits_scripts(known[n], side.scripts) for n, side in enumerate(sides)]
        found = [side.unexpected_language for side in sides]
        reversed_by = ""
        if all(wrong) and all(fits_scripts(known[1 - n], side.scripts) for n, side in enumerate(sides)):
            reversed_by = "each side is in the script of the other language"
        elif all(found) and found == [sides[1].code, sides[0].code]:
            reversed_by = f"the source reads like {found[0]}, the target like {found[1]}"
        if reversed_by:
            self.tally.add("text the wrong way round", self.pairs, f"{self.name}: {reversed_by}.")
            return True
        for number, name in enumerate(("source", "target")):
            subject = f"{self.name}: the {name} ({codes[number]})"
            if wrong[number]:
                script = names_of(main_scripts(sides[number].scripts))
                self.tally.add("unexpected script", self.pairs, f"{subject} is mostly in {script} script.")
            elif found[number]:
                self.tally.add("unexpected language", self.pairs, f"{subject} reads like {found[number]}.")
        return False

    def finish(self, is_reversed: bool) -> Tally:
        """Return what was found, with what is wrong with the whole corpus instead of what is wrong with its pairs."""
        lengths = np.concatenate(self.lengths, axis=1)
        swapped, long = self.tally["sides swapped"].count, np.count_nonzero(lengths.min(axis=0) >= _MIN_CHARACTERS)
        if swapped >= max(_MIN_PAIRS, long / 2, lengths.shape[1] / 5) and not is_reversed:
            detail = f"{self.corpus.paths[0]}: {swapped:,} of {self.pairs:,} pairs surely are."
            self.tally.add("text the wrong way round", self.pairs, detail)
            is_reversed = True
        if is_reversed:
            del self.tally["sides swapped"]
            self.tally.pop("language of the other side", None)
        copied = self.tally["source = target"].count + self.tally["short source = target"].count
        if copied >= max(_MIN_PAIRS, lengths.shape[1] / 2):
            del self.tally["source = target"], self.tally["short source = target"]
            self.tally.add("both sides the same", copied, f"{self.name}: {copied:,} of {self.pairs:,} pairs are.")
        slips = find_slips(*lengths)
        shown = self.fetch({slip.start for slip in slips[: 2 * self.tally.limit]})
        for slip in slips:
            what = "the lengths of the two sides are unrelated"
            if slip.shift:
                lines = "a line" if abs(slip.shift) == 1 else f"{abs(slip.shift)} lines"
                what = f"the translation seems to stand {lines} {'further down' if slip.shift > 0 else 'further up'}"
            detail = f"{self.corpus.paths[0]}, lines {slip.start + 1:,} to {slip.end:,}: {what}."
            examples = [shown[slip.start]] if slip.start in shown else []
            kind = "out of step" if slip.shift else "unrelated lengths"
            self.tally.add(kind, slip.end - slip.start, detail, examples)
        return self.tally


class _Text:
    """The training, validation or test text."""

    def __init__(self, name: str, corpora: Sequence[Corpus], examples: int, progress: Progress) -> None:
        """Read it for the first time."""
        self.name, self.tally = name, Tally(examples)
        self.parts = [_Part(corpus, examples) for corpus in corpora]
        self.sample, self.pairs = Sample(), 0
        for number, part in enumerate(self.parts):
            for block in part.read():
                self.sample.add(number, block)
                self.pairs += len(block)
                progress(self.pairs, 0)
            source, target = zip(part.corpus.languages, self.sample.sides(number), strict=True)
            part.sides = profile_side(*source), profile_side(*target)

    def usual(self) -> Usual:
        """Learn what is usual in the text."""
        codes = self.parts[0].corpus.languages
        scripts, familiar = [], []
        for number, code in enumerate(codes):
            counts = np.sum([part.sides[number].scripts for part in self.parts], axis=0)
            own = scripts_of(code)
            scripts.append(own if own and fits_scripts(own, counts) else main_scripts(counts))
            familiar.append(frozenset[str]().union(*(part.sides[number].familiar for part in self.parts)))
        source, target = self.parts[0].sides
        known = known_languages() >= {source.code, target.code} and source.code != target.code
        distinct = known and not any(part.sides[0].is_confused(target.code) for part in self.parts)
        letters = LetterModel(self.sample.without_third_language(familiar[0] | familiar[1]), distinct)
        return Usual(codes, (familiar[0], familiar[1]), (scripts[0], scripts[1]), letters, *usual_ratio(self.sample))

    def blocks(self) -> Iterator[Block]:
        """Read the pairs again."""
        return chain.from_iterable(part.blocks() for part in self.parts)

    def check(self, usual: Usual, held_out: dict[str, dict[str, Keys]], progress: Progress) -> Flags:
        """Look at every pair, given the hashes of the texts that this one must not contain; returns the flags."""
        training = self.name == "training"
        kinds = _LEAKS if training else {"also in validation text": "pairs"}
        flags = np.zeros(self.pairs, np.uint16)
        hashes = np.zeros((2, self.pairs if training else 0), np.uint64)
        start = 0
        for part in self.parts:
            is_reversed = part.check_languages()
            for block in part.blocks():
                first, end = start + block.start, start + block.start + len(block)
                sightings = [*check_pairs(block, usual)]
                if training or held_out:
                    keys = hash_pairs(block)
                    sightings += _find_leaks(keys, held_out, kinds)
                    hashes[:, first:end] = (keys["pairs"], keys["letters"]) if training else 0
                for sighting in sightings:
                    flags[first + sighting.row] |= np.uint16(ISSUES[sighting.kind].flag or 0)
                    part.tally.add(sighting.kind, examples=map(block.example, [sighting]))
                lengths = np.stack([side.lengths for side in block.sides])
                part.lengths.append(np.minimum(lengths, 65_535).astype(np.uint16))
                progress(end, self.pairs)
            self.tally.merge(part.finish(is_reversed))
            start += part.pairs
        if training:
            self._find_duplicates(hashes[0], "duplicate pair", "same as", flags)
            self._find_duplicates(hashes[1], "near-duplicate pair", "like", flags)
        if self.tally["empty side"].count == self.pairs:
            self.tally.add("no pairs", max(len(self.parts), 1), "Every pair has an empty side." if self.pairs else "")
        if self.tally["unreadable JSON"].count:
            self.tally.add("unreadable JSON", 0, f"In JSONL, {json_form(usual.codes)}.")
        return flags

    def _find_duplicates(self, keys: Keys, kind: str, words: str, flags: Flags) -> None:
        """Note and flag the pairs that occurred before, but as near duplicates only those that are not equal."""
        later = find_repeats(keys)
        later = later[(flags[later] & np.uint16(Flag.DUPLICATE)) == 0]
        flags[later] |= np.uint16(ISSUES[kind].flag or 0)
        shown = {number: int(np.argmax(keys == keys[number])) for number in later[: self.tally.limit].tolist()}
        places, start = dict[int, Example](), 0
        for part in self.parts:
            here = {n - start for n in {*shown, *shown.values()} if start <= n < start + part.pairs}
            places |= {start + number: example for number, example in part.fetch(here).items()}
            start += part.pairs
        self.tally.add(kind, len(later))
        for number, before in shown.items():
            file = "" if places[before].file == places[number].file else f"{places[before].file}, "
            remark = f"{words} {file}line {places[before].line:,}"
            self.tally.add(kind, 0, examples=[replace(places[number], remark=remark)])


def _find_leaks(
    keys: dict[str, Keys], held_out: dict[str, dict[str, Keys]], kinds: dict[str, str]
) -> Iterator[Sighting]:
    """Find the pairs that are also in other texts; each counts once, by how much of it is."""
    found: set[int] = set()
    for kind, name in kinds.items():
        here = {text: contains(known[name], keys[name]) for text, known in held_out.items()}
        rows = {row for mask in here.values() for row in np.flatnonzero(mask).tolist()} - found
        found |= rows
        for row in sorted(rows):
            texts = " and ".join(text for text, mask in here.items() if mask[row])
            yield Sighting(kind, row, remark=f"in the {texts} text")
