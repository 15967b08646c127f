"""The check of parallel text before training.

The text is read twice: once to count the pairs and to learn what is usual in it (lengths, letters, languages, scripts),
and once to look at every pair.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, tee
from typing import Any

import numpy as np
from fontTools.unicodedata import script_name
from numpy.typing import NDArray

from dragoman.corpus_check.blocks import Block, Sample, in_blocks
from dragoman.corpus_check.duplicates import Keys, contains, find_repeats, hash_pairs, hash_text
from dragoman.corpus_check.issues import ISSUES, Example, Finding, Flag, Sighting, Tally, excerpt, render_report
from dragoman.corpus_check.language_id import Profile, scripts_of
from dragoman.corpus_check.misalignment import find_slips
from dragoman.corpus_check.pair_checks import Usual, check_pairs
from dragoman.runtime.console import Report
from dragoman.runtime.processes import map_on_cores
from dragoman.text.corpus import Corpus, Pair, Problem, json_form, locate_all

Flags = NDArray[np.uint16]
Hashes = dict[str, Keys]

_REVERSED = "text the wrong way round"
_MIN_CHARACTERS = 25  # on both sides, for a pair to count when most of a corpus may be the wrong way round
_MIN_PAIRS = 20  # to say something of a whole corpus
_SAMPLED_PAIRS = 2000  # of a corpus, to say something of the whole
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
    report: Report = lambda line: None,
) -> Diagnosis:
    """Check parallel text: the training text, and the validation and test texts that it must not contain.

    Each text is given as locate_all takes it. So many examples of each issue are kept. report is told of every
    block of pairs.

    Raises:
        DragomanError: a file is missing, damaged, or in another form. Lines that can't be read are findings.
    """
    given = {"training": train, "validation": valid, "test": test}
    texts = {
        name: _Text(name, locate_all(named, source, target), examples, report)
        for name, named in given.items()
        if named or name == "training"
    }
    training = texts.pop("training")
    usual = Usual((source, target), [part.profiles for part in training.parts], training.sample.pairs())
    held_out = {name: hash_text(block for _, _, block in text.blocks()) for name, text in texts.items()}
    flags = training.check(usual, held_out)
    findings = training.findings()
    is_misled = any(f.reason in (_REVERSED, "unexpected language", "unexpected script") for f in findings)
    for name, text in texts.items():
        text.check(usual, {"validation": held_out["validation"]} if name == "test" and valid else {})
        for finding in text.findings():
            by_training = finding.reason == _REVERSED or finding.issue.flag in (Flag.RATIO, Flag.LANGUAGE)
            findings += [] if is_misled and by_training else [finding]
    findings.sort(key=lambda finding: finding.rank)
    return Diagnosis(findings, training.pairs, {name: text.pairs for name, text in texts.items()}, flags)


class _Part:
    """One corpus of a text, and what the first reading shows of it."""

    profiles: list[Profile]
    """Of source and target."""

    def __init__(self, corpus: Corpus, tally: Tally) -> None:
        self.corpus, self.name = corpus, " and ".join(map(str, corpus.paths))
        self.pairs = 0
        self.aligned: int | None = None  # pairs before the place where two files of different length go apart
        self.unreadable: set[int] = set()  # numbers of pairs, from 0
        self.instead: dict[str, str] = {}  # issues of pairs that something said of the whole corpus replaces
        self._tally = tally

    def note_problem(self, problem: Problem) -> None:
        """Note a problem of the first reading."""
        texts, remark, detail = (excerpt(problem.text),) if problem.text else (), problem.remark, ""
        if problem.kind == "line counts differ":
            self.aligned = problem.line - 1
            remark, detail = "", f"{remark}. Only the lines before it were compared."
        elif problem.message:
            self.unreadable.add(problem.line - 1)
        self._tally.add(problem.kind, problem.lines, detail, [Example(problem.file, problem.line, texts, remark)])

    def blocks(self) -> Iterator[Block]:
        """Read the pairs again, as far as the two sides belong together."""
        return in_blocks(islice(self.corpus.read(lambda problem: None), self.aligned))

    def example(self, block: Block, sighting: Sighting) -> Example:
        """Return the place of a sighting, with the line or the pair."""
        paths, sides = self.corpus.paths, block.sides if sighting.side is None else [block.sides[sighting.side]]
        texts = tuple(excerpt(side.lines[sighting.row], sighting.place) for side in sides)
        path = paths[min(sighting.side or 0, len(paths) - 1)]
        return Example(str(path), block.start + sighting.row + 1, texts, sighting.remark)

    def compare_languages(self) -> list[tuple[str, str]]:
        """Return what is unexpected in the languages and scripts of the sides: the issue and a sentence about it."""
        found = [profile.unexpected_language for profile in self.profiles]
        if all(found) and found == [profile.code for profile in reversed(self.profiles)]:
            return [(_REVERSED, f"{self.name}: the source reads like {found[0]}, the target like {found[1]}.")]
        findings = []
        for name, code, profile in zip(("source", "target"), self.corpus.languages, self.profiles, strict=True):
            subject, known = f"{self.name}: the {name} ({code})", scripts_of(code)
            if known and profile.scripts and not known & profile.scripts:
                script = ", ".join(sorted(map(script_name, profile.scripts)))
                findings.append(("unexpected script", f"{subject} is mostly in {script} script."))
            elif profile.unexpected_language:
                findings.append(("unexpected language", f"{subject} reads like {profile.unexpected_language}."))
        return findings


class _Text:
    """The training, validation or test text."""

    def __init__(self, name: str, corpora: Sequence[Corpus], examples: int, report: Report) -> None:
        """Read it for the first time."""
        self._name, self._examples, self._tally, self._report = name, examples, Tally(name, examples), report
        self.parts = [_Part(corpus, self._tally) for corpus in corpora]
        self.sample, self.pairs = Sample(), 0
        for number, part in enumerate(self.parts):
            for block in in_blocks(part.corpus.read(part.note_problem)):
                self.sample.add(number, block)
                part.pairs += len(block)
                self.pairs += len(block)
                report(f"counted {self.pairs:,} pairs of the {name} text")
            sides = Block(0, self.sample.pairs(number)).sides
            part.profiles = [Profile(*side) for side in zip(part.corpus.languages, sides, strict=True)]

    def blocks(self) -> Iterator[tuple[_Part, int, Block]]:
        """Read the pairs again, with the corpus of each block and the number in the text of its first pair."""
        start = 0
        for part in self.parts:
            for block in part.blocks():
                yield part, start + block.start, block
            start += part.pairs

    def findings(self) -> list[Finding]:
        """Return what has been found."""
        return [replace(finding, pairs=self.pairs) for finding in self._tally.values() if finding.count]

    def check(self, usual: Usual, held_out: dict[str, Hashes]) -> Flags:
        """Look at every pair, given the hashes of the texts that this one must not contain; returns the flags."""
        training = self._name == "training"
        kinds = _LEAKS if training else {"also in validation text": "pairs"}
        flags, lengths = np.zeros(self.pairs, np.uint16), np.zeros((2, self.pairs), np.uint16)
        hashes = np.zeros((2, self.pairs if training else 0), np.uint64)
        for number, part in enumerate(self.parts):
            self._judge_whole(part, self.sample.pairs(number), usual)
        blocks, again = tee(self.blocks())
        found = map_on_cores(lambda block: (list(check_pairs(block, usual)), hash_pairs(block)), (b for *_, b in again))
        for (part, start, block), (seen, keys) in zip(blocks, found, strict=True):
            end = start + len(block)
            sightings = [sighting for sighting in seen if block.start + sighting.row not in part.unreadable]
            if training or held_out:
                sightings += _find_leaks(keys, held_out, kinds)
                hashes[:, start:end] = (keys["pairs"], keys["letters"]) if training else 0
            for sighting in sightings:
                flags[start + sighting.row] |= np.uint16(ISSUES[sighting.kind].flag or 0)
                if kind := part.instead.get(sighting.kind, sighting.kind):
                    self._tally.add(kind, examples=map(part.example, [block], [sighting]))
            lengths[:, start:end] = [np.minimum(side.lengths, 65_535) for side in block.sides]
            self._report(f"examined {end:,} of {self.pairs:,} pairs of the {self._name} text")
        self._note_slips(lengths)
        self._note_repeats(hashes, flags)
        if np.count_nonzero(flags & np.uint16(Flag.EMPTY)) == self.pairs:
            self._tally.add("no pairs", max(len(self.parts), 1), "Every pair has an empty side." if self.pairs else "")
        if "unreadable JSON" in self._tally:
            self._tally.add("unreadable JSON", 0, f"In JSONL, {json_form(usual.codes)}.")
        return flags

    def _judge_whole(self, part: _Part, pairs: list[Pair], usual: Usual) -> None:
        """Note what is wrong with a whole corpus, judging by some pairs, instead of what is wrong with its pairs."""
        pairs = pairs[:: len(pairs) // _SAMPLED_PAIRS + 1]
        counts = Counter(sighting.kind for sighting in check_pairs(Block(0, pairs), usual))
        long = sum(min(map(len, pair)) >= _MIN_CHARACTERS for pair in pairs)
        whole = part.compare_languages()
        if not whole and counts["sides swapped"] >= max(_MIN_PAIRS, long / 2, len(pairs) / 5):
            whole = [(_REVERSED, f"{part.name}: most pairs surely are.")]
        for kind, detail in whole:
            self._tally.add(kind, part.pairs, detail)
            part.instead |= {"sides swapped": "", "language of the other side": ""} if kind == _REVERSED else {}
        copies = ("source = target", "short source = target")
        if sum(counts[kind] for kind in copies) >= max(_MIN_PAIRS, len(pairs) / 2):
            part.instead |= dict.fromkeys(copies, "both sides the same")
            self._tally.add("both sides the same", 0, f"{part.name}.")

    def _note_slips(self, lengths: NDArray[np.uint16]) -> None:
        """Note where the sides are out of step, by the characters of all lines, (2, pairs)."""
        slips, start = [], 0
        for part in self.parts:
            found = find_slips(*lengths[:, start : start + part.pairs][:, : part.aligned])
            slips += [(part, start + slip.start, slip) for slip in found]
            start += part.pairs
        shown = self._fetch({number for _, number, _ in slips[: 2 * self._examples]})
        for part, number, slip in slips:
            what = "the lengths of the two sides are unrelated"
            if slip.shift:
                lines = "a line" if abs(slip.shift) == 1 else f"{abs(slip.shift)} lines"
                what = f"the translation seems to stand {lines} {'further down' if slip.shift > 0 else 'further up'}"
            detail = f"{part.corpus.paths[0]}, lines {slip.start + 1:,} to {slip.end:,}: {what}."
            examples = [shown[number]] if number in shown else []
            kind = "out of step" if slip.shift else "unrelated lengths"
            self._tally.add(kind, slip.end - slip.start, detail, examples)

    def _note_repeats(self, hashes: NDArray[np.uint64], flags: Flags) -> None:
        """Note and flag the pairs that occurred before, but as near duplicates only those that are not equal."""
        shown: list[tuple[str, int, int, str]] = []
        kinds = {"duplicate pair": "same as", "near-duplicate pair": "like"}
        for (kind, words), keys in zip(kinds.items(), hashes, strict=True):
            later = find_repeats(keys)
            later = later[(flags[later] & np.uint16(Flag.DUPLICATE)) == 0]
            flags[later] |= np.uint16(ISSUES[kind].flag or 0)
            self._tally.add(kind, len(later))
            shown += [(kind, n, int(np.argmax(keys == keys[n])), words) for n in later[: self._examples].tolist()]
        places = self._fetch({number for _, *numbers, _ in shown for number in numbers})
        for kind, number, before, words in shown:
            file = "" if places[before].file == places[number].file else f"{places[before].file}, "
            remark = f"{words} {file}line {places[before].line:,}"
            self._tally.add(kind, 0, examples=[replace(places[number], remark=remark)])

    def _fetch(self, wanted: set[int]) -> dict[int, Example]:
        """Read some pairs again, by their numbers in the text."""
        found = dict[int, Example]()
        for part, start, block in self.blocks() if wanted else ():
            rows = [number - start for number in wanted if 0 <= number - start < len(block)]
            found |= {start + row: part.example(block, Sighting("", row)) for row in rows}
            if len(found) == len(wanted):
                break
        return found


def _find_leaks(keys: Hashes, held_out: dict[str, Hashes], kinds: dict[str, str]) -> Iterator[Sighting]:
    """Find the pairs that are also in other texts; each counts once, by how much of it is."""
    found: set[int] = set()
    for kind, name in kinds.items():
        here = {text: contains(known[name], keys[name]) for text, known in held_out.items()}
        rows = {row for mask in here.values() for row in np.flatnonzero(mask).tolist()} - found
        found |= rows
        for row in sorted(rows):
            texts = " and ".join(text for text, mask in here.items() if mask[row])
            yield Sighting(kind, row, remark=f"in the {texts} text")
