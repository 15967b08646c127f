"""The check of a corpus before training.

The text is read twice: once to count the pairs and to learn what is usual in it (lengths, letters, languages, scripts),
and once to look at every pair. What is compared with the whole text takes about 40 bytes a pair: hashes and lengths.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dragoman.corpus_check.blocks import Block, in_blocks
from dragoman.corpus_check.characters import count_composed
from dragoman.corpus_check.duplicates import HeldOut, Keys, PairKeys, contains, find_repeats
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
from dragoman.corpus_check.misalignment import Slip, find_slips
from dragoman.corpus_check.pair_checks import Usual, check_pairs, usual_ratio
from dragoman.text.corpus import Corpus, EncodingError, FormError, Problem, json_form, locate

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
        return not any(ISSUES[finding.reason].unreadable for finding in self.findings)

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

    Args:
        train: the training texts, each as locate takes it.
        source: the source language code.
        target: the target language code.
        valid: the validation texts.
        test: the test texts.
        examples: how many places of each issue to keep.
        progress: called now and then.

    Raises:
        DragomanError: a file is missing or damaged. Text of which some lines can't be read is checked in part. If a
            whole file is in another form or encoding, that is the only finding.
    """
    given = {"training": train, "validation": valid, "test": test}
    texts: dict[str, _Text] = {}
    for name, arguments in given.items():
        if not arguments and name != "training":
            continue
        try:
            texts[name] = _Text(name, [locate(text, source, target) for text in arguments], examples, progress)
        except FormError as error:
            kind = "not UTF-8 but UTF-16" if isinstance(error, EncodingError) else "unknown form"
            tally = Tally(0)
            tally.add(kind, detail=f"{error}.")
            return Diagnosis(list(tally.findings(name, 1)), 0, {}, np.zeros(0, np.uint16))
    training = texts["training"]
    held = {name: HeldOut(block for part in text.parts for block in part.blocks())
            for name, text in texts.items() if name != "training"}  # fmt: skip
    usual = training.usual()
    flags = training.check(usual, held, progress)
    if "validation" in texts:
        texts["validation"].check(usual, {}, lambda done, total: None)
    if "test" in texts:
        before = {name: text for name, text in held.items() if name == "validation"}
        texts["test"].check(usual, before, lambda done, total: None)
    findings = [finding for text in texts.values() for finding in text.tally.findings(text.name, text.pairs)]
    sizes = {name: text.pairs for name, text in texts.items() if name != "training"}
    return Diagnosis(_in_order(findings), training.pairs, sizes, flags)


def find_reversed(corpora: Sequence[Corpus]) -> list[bool]:
    """Return which corpora have source and target the wrong way round.

    Raises:
        DragomanError: a file is missing or can't be read.
    """
    return [part.check_languages() for part in _Text("test", corpora, 0, lambda done, total: None).parts]


def _in_order(findings: list[Finding]) -> list[Finding]:
    """The gravest first, without those of held-out text that can't be judged by the training text."""
    if any(
        finding.text == "training"
        and (finding.reason in _MISLEADING or (ISSUES[finding.reason].unreadable and finding.share > 0.5))
        for finding in findings
    ):
        findings = [f for f in findings if f.text == "training" or f.reason not in _JUDGED_BY_TRAINING]
    return sorted(findings, key=lambda finding: (SEVERITIES.index(finding.severity), -finding.count))


class _Part:
    """One corpus of a text: what reading shows of it, and what is found in it."""

    def __init__(self, corpus: Corpus, examples: int) -> None:
        self.corpus = corpus
        self.tally = Tally(examples)
        self.unreadable: set[int] = set()  # pairs, from 0
        self.pairs = 0
        self.aligned: int | None = None  # pairs before the place where two files of different length go apart
        self.sides: tuple[Profile, Profile]
        self._decomposed = Tally(examples), Tally(examples)
        self._composed = [0, 0]
        self._long_pairs = 0
        self._lengths: list[NDArray[np.uint16]] = []

    @property
    def name(self) -> str:
        return " and ".join(map(str, self.corpus.paths))

    def read(self) -> Iterator[Block]:
        """Read all pairs for the first time, and note the problems of reading."""
        for block in in_blocks(self.corpus, self.corpus.read(self._note_problem)):
            self.pairs += len(block)
            yield block

    def _note_problem(self, problem: Problem) -> None:
        texts = (excerpt(problem.text),) if problem.text else ()
        if problem.kind == "line counts differ":
            self.aligned = problem.line - 1
            detail = f"{problem.remark}. Only the lines before it were compared."
            self.tally.add(problem.kind, problem.lines, detail, [Example(problem.file, problem.line, texts)])
            return
        if problem.message:
            self.unreadable.add(problem.line - 1)
        self.tally.add(problem.kind, examples=[Example(problem.file, problem.line, texts, problem.remark)])

    def blocks(self) -> Iterator[Block]:
        """Read the pairs again, as far as the two sides belong together."""
        pairs = self.corpus.read(lambda problem: None)
        return in_blocks(self.corpus, islice(pairs, self.aligned), self.unreadable)

    def check_languages(self) -> bool:
        """Note if the corpus is not in the expected languages; returns whether it is the wrong way round."""
        codes, sides = self.corpus.languages, self.sides
        known = [scripts_of(code) for code in codes]
        wrong = [bool(known[n]) and not fits_scripts(known[n], side.scripts) for n, side in enumerate(sides)]
        if all(wrong) and all(fits_scripts(known[1 - n], side.scripts) for n, side in enumerate(sides)):
            detail = f"{self.name}: each side is in the script of the other language."
            self.tally.add("text the wrong way round", self.pairs, detail)
            return True
        found = [side.unexpected_language for side in sides]
        if all(found) and found == [sides[1].code, sides[0].code]:
            detail = f"{self.name}: the source reads like {found[0]}, the target like {found[1]}."
            self.tally.add("text the wrong way round", self.pairs, detail)
            return True
        for name, code, side, is_wrong, language in zip(("source", "target"), codes, sides, wrong, found, strict=True):
            if is_wrong:
                script = names_of(main_scripts(side.scripts))
                detail = f"{self.name}: the {name} ({code}) is mostly in {script} script."
                self.tally.add("unexpected script", self.pairs, detail)
            elif language:
                detail = f"{self.name}: the {name} ({code}) reads like {language}."
                self.tally.add("unexpected language", self.pairs, detail)
        return False

    def note(self, block: Block, sighting: Sighting) -> None:
        """Count a sighting, with an example."""
        tally = self.tally if sighting.kind != "not in NFC" else self._decomposed[sighting.side or 0]
        examples = [block.example(*sighting[1:])] if tally.wants_example(sighting.kind) else []
        tally.add(sighting.kind, examples=examples)

    def measure(self, block: Block) -> None:
        """Take in what whole corpora are judged by: lengths, and accented letters in one character."""
        source, target = (side.lengths for side in block.sides)
        self._lengths.append(np.minimum(np.stack((source, target)), 65_535).astype(np.uint16))
        self._long_pairs += int(np.count_nonzero(np.minimum(source, target) >= _MIN_CHARACTERS))
        for number, side in enumerate(block.sides):
            self._composed[number] += count_composed(side)

    def finish(self, is_reversed: bool) -> None:
        """Note what is wrong with the whole corpus, instead of what is wrong with its pairs."""
        records, checked = self.tally.records, self.pairs if self.aligned is None else min(self.aligned, self.pairs)
        swapped = records["sides swapped"].count
        if swapped >= max(_MIN_PAIRS, self._long_pairs / 2, checked / 5) and not is_reversed:
            detail = f"{self.corpus.paths[0]}: {swapped:,} of {self.pairs:,} pairs surely are."
            self.tally.add("text the wrong way round", self.pairs, detail)
            is_reversed = True
        if is_reversed:
            del records["sides swapped"]
            records.pop("language of the other side", None)
        copied = records["source = target"].count + records["short source = target"].count
        if copied >= _MIN_PAIRS and 2 * copied > checked:
            del records["source = target"], records["short source = target"]
            self.tally.add("both sides the same", copied, f"{self.name}: {copied:,} of {self.pairs:,} pairs are.")
        for number, (tally, composed) in enumerate(zip(self._decomposed, self._composed, strict=True)):
            decomposed = tally.records["not in NFC"]
            if decomposed.count and composed:
                path = self.corpus.paths[min(number, len(self.corpus.paths) - 1)]
                detail = (
                    f"{path}: {decomposed.count:,} lines have letters that NFC replaces, {composed:,} have letters "
                    f"that it writes."
                )
                count = min(decomposed.count, composed)
                self.tally.add("NFC and NFD mixed", count, detail, decomposed.examples)
            else:
                self.tally.merge(tally)
        self._find_slips()

    def _find_slips(self) -> None:
        if not self._lengths:
            return
        slips = find_slips(*np.concatenate(self._lengths, axis=1))
        shown = self.fetch(slip.start for slip in slips[: 2 * self.tally.limit])
        for slip in slips:
            kind = "out of step" if slip.shift else "unrelated lengths"
            detail = f"{self.corpus.paths[0]}, lines {slip.start + 1:,} to {slip.end:,}: {_describe_slip(slip)}."
            examples = [shown[slip.start]] if slip.start in shown else []
            self.tally.add(kind, slip.end - slip.start, detail, examples)

    def fetch(self, wanted: Iterable[int]) -> dict[int, Example]:
        """Read some pairs again, by their numbers from 0."""
        missing, found = sorted(set(wanted), reverse=True), dict[int, Example]()
        for block in self.blocks() if missing else ():
            while missing and missing[-1] < block.start + len(block):
                number = missing.pop()
                found[number] = block.example(number - block.start)
            if not missing:
                break
        return found


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
            counts = sum((part.sides[number].scripts for part in self.parts), start=np.zeros(1, np.int64))
            own = scripts_of(code)
            scripts.append(own if own and fits_scripts(own, counts) else main_scripts(counts))
            familiar.append(frozenset[str]().union(*(part.sides[number].familiar for part in self.parts)))
        source, target = self.parts[0].sides
        known = known_languages() >= {source.code, target.code} and source.code != target.code
        distinct = known and not any(part.sides[0].is_confused(target.code) for part in self.parts)
        letters = LetterModel(self.sample.without_third_language(familiar[0] | familiar[1]), distinct)
        ratios = usual_ratio(self.sample)
        return Usual(codes, (familiar[0], familiar[1]), (scripts[0], scripts[1]), letters, *ratios)

    def check(self, usual: Usual, held: dict[str, HeldOut], progress: Progress) -> Flags:
        """Look at every pair; returns its flags.

        Args:
            usual: what is usual in the training text.
            held: the texts that this one must not contain. Training text must not contain a pair twice either.
            progress: called now and then.
        """
        training = self.name == "training"
        flags = np.zeros(self.pairs, np.uint16)
        keys = np.zeros((2, self.pairs if training else 0), np.uint64)
        start = 0
        for part in self.parts:
            is_reversed = part.check_languages()
            for block in part.blocks():
                sightings = [*check_pairs(block, usual)]
                found = PairKeys(block) if training or held else None
                if found:
                    sightings += _find_held_out(found, held) if training else _find_shared(found, held)
                for sighting in sightings:
                    part.note(block, sighting)
                    flags[start + block.start + sighting.row] |= np.uint16(ISSUES[sighting.kind].flag)
                if found and training:
                    here = slice(start + block.start, start + block.start + len(block))
                    keys[:, here] = found.pairs, found.letters
                part.measure(block)
                progress(start + block.start + len(block), self.pairs)
            part.finish(is_reversed)
            self.tally.merge(part.tally)
            start += part.pairs
        if training:
            self._find_duplicates(keys[0], "duplicate pair", "same as", flags)
            self._find_duplicates(keys[1], "near-duplicate pair", "like", flags)
        if 0 < self.tally.records["empty side"].count == self.pairs or not self.pairs:
            self.tally.add("no pairs", max(len(self.parts), 1), "Every pair has an empty side." if self.pairs else "")
        if "unreadable JSON" in self.tally.records:
            self.tally.add("unreadable JSON", 0, f"In JSONL, {json_form(usual.codes)}.")
        return flags

    def _find_duplicates(self, keys: Keys, kind: str, words: str, flags: Flags) -> None:
        """Note and flag the pairs that occurred before, but as near duplicates only those that are not equal."""
        later, first = find_repeats(keys)
        new = (flags[later] & np.uint16(Flag.DUPLICATE)) == 0
        later, first = later[new], first[new]
        flags[later] |= np.uint16(ISSUES[kind].flag)
        shown = list(zip(later.tolist(), first.tolist(), strict=True))[: self.tally.limit]
        examples = self._fetch({number for pair in shown for number in pair})
        self.tally.add(kind, len(later))
        for number, before in shown:
            example, earlier = examples[number], examples[before]
            file = "" if earlier.file == example.file else f"{earlier.file}, "
            remark = f"{words} {file}line {earlier.line:,}"
            self.tally.add(kind, 0, examples=[replace(example, remark=remark)])

    def _fetch(self, wanted: set[int]) -> dict[int, Example]:
        """Read some pairs again, by their numbers in the whole text."""
        found: dict[int, Example] = {}
        start = 0
        for part in self.parts:
            here = part.fetch(number - start for number in wanted if start <= number < start + part.pairs)
            found |= {number + start: example for number, example in here.items()}
            start += part.pairs
        return found


def _find_held_out(keys: PairKeys, held: dict[str, HeldOut]) -> Iterator[Sighting]:
    """Find the training pairs that are also held out; each counts once, by how much of it is."""
    found: set[int] = set()
    for kind, name in (
        ("also in held-out text", "pairs"),
        ("almost in held-out text", "letters"),
        ("source in held-out text", "sources"),
        ("target in held-out text", "targets"),
    ):
        here = {text: contains(getattr(known, name), getattr(keys, name)) for text, known in held.items()}
        rows = {row for mask in here.values() for row in np.flatnonzero(mask).tolist()} - found
        found |= rows
        for row in sorted(rows):
            texts = " and ".join(text for text, mask in here.items() if mask[row])
            yield Sighting(kind, row, remark=f"in the {texts} text")


def _find_shared(keys: PairKeys, held: dict[str, HeldOut]) -> Iterator[Sighting]:
    """Find the test pairs that are also validation pairs."""
    for known in held.values():
        for row in np.flatnonzero(contains(known.pairs, keys.pairs)).tolist():
            yield Sighting("also in validation text", row)


def _describe_slip(slip: Slip) -> str:
    if not slip.shift:
        return "the lengths of the two sides are unrelated"
    lines = "a line" if abs(slip.shift) == 1 else f"{abs(slip.shift)} lines"
    return f"the translation seems to stand {lines} {'further down' if slip.shift > 0 else 'further up'}"
