"""The table of issues that a parallel text can have, and the report that says which ones it has."""

from __future__ import annotations

import enum
import re
import textwrap
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Any, Literal, NamedTuple

from rich.cells import cell_len, chop_cells

Severity = Literal["error", "warning", "note"]
"""error: training would fail or learn something wrong; warning: translations will suffer; note: good to know."""

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")


class Flag(enum.IntFlag):
    """What is wrong with a training pair, as bits of a uint16: one for each kind of cleaning."""

    EMPTY = 1
    OVERLAP = 2
    DUPLICATE = 4
    NEAR_DUPLICATE = 8
    COPY = 16
    RATIO = 32
    CHARACTERS = 64
    LANGUAGE = 128


CLEANING_OPTIONS = {
    Flag.OVERLAP: "--clean.overlap",
    Flag.DUPLICATE: "--clean.duplicates",
    Flag.NEAR_DUPLICATE: "--clean.near-duplicates",
    Flag.COPY: "--clean.copies",
    Flag.RATIO: "--clean.ratio",
    Flag.CHARACTERS: "--clean.characters",
    Flag.LANGUAGE: "--clean.language",
}
"""The training option that leaves out the pairs with a flag. Empty pairs are always left out."""

_NO_FLAG = Flag(0)


@dataclass(frozen=True)
class Issue:
    """One kind of issue."""

    severity: Severity
    advice: str
    """What it means or what to do, in a sentence or two."""
    flag: Flag = _NO_FLAG
    """The flag that a training pair with this issue gets."""
    grave: float = 2.0
    """The share of the text's pairs from which a note becomes a warning, and a warning an error."""
    unit: Literal["lines", "pairs", "rows", "texts"] = "lines"
    """What is counted."""
    unreadable: bool = False
    """Whether training stops at this issue."""


ISSUES: dict[str, Issue] = {
    # Files
    "line counts differ": Issue("error",
        "Training stops here. Align the files: line N of one must translate line N of the other.", unreadable=True),
    "no pairs": Issue("error", "There is no text in these files.", unit="texts", unreadable=True),
    "unknown form": Issue("error", "Training stops here. Nothing else was checked.", unit="texts", unreadable=True),
    "not UTF-8 but UTF-16": Issue("error",
        "Training stops here. Convert the file. Nothing else was checked.", unit="texts", unreadable=True),
    "not UTF-8": Issue("error",
        "Training stops here. Find out the encoding of the file and convert it, for example with "
        "iconv -f cp1252 -t utf-8.", unreadable=True),
    "row without a tab": Issue("error",
        "Training stops here. Each row of a TSV is the source, a tab and the target: fix or remove these rows.",
        unit="rows", unreadable=True),
    "unreadable JSON": Issue("error", "Training stops here. Fix or remove these rows.", unit="rows", unreadable=True),
    "spreadsheet quoting": Issue("warning",
        "A spreadsheet put cells in quotes and doubled the quotes inside, and the model would learn that. Read the "
        'table with csv.reader(file, "excel-tab") in Python and write it without quotes.', unit="rows"),
    "odd number of columns": Issue("warning",
        "Only the first two columns are read. A tab inside a sentence shifts the others: check these rows.",
        unit="rows"),
    "out of step": Issue("error",
        "The two sides have slipped. Find the line that one side lacks near the place given.", unit="pairs"),
    "unrelated lengths": Issue("error",
        "Long sentences stand beside short ones as if by chance. Check whether these lines translate each other.",
        unit="pairs"),
    "byte-order mark": Issue("note", "Nothing to do: it is dropped at the start of a file."),
    "Windows line ends": Issue("note", "Nothing to do: the carriage return at the end of a line is dropped."),
    # Characters
    "byte-order mark inside": Issue("warning",
        "Files were joined with their byte-order marks. Remove U+FEFF", Flag.CHARACTERS),
    "carriage return inside": Issue("warning", "A line may be two. Split or remove these lines", Flag.CHARACTERS),
    "NUL": Issue("warning",
        "Zero bytes come from damaged or binary files, or from UTF-16. Remove these lines", Flag.CHARACTERS, grave=0.1),
    "exotic line break": Issue("warning",
        "Other programs may end a line here and lose the alignment. Replace these characters with spaces",
        Flag.CHARACTERS),
    "control character": Issue("warning", "Control characters are not text. Remove them", Flag.CHARACTERS),
    "replacement character": Issue("warning",
        "U+FFFD marks a letter lost in a conversion. Convert the original again", Flag.CHARACTERS),
    "wrong encoding": Issue("warning",
        "UTF-8 was read as Latin-1 or Windows-1252. Repair it with ftfy", Flag.CHARACTERS),
    "Windows-1252 read as Latin-1": Issue("warning",
        "Quotation marks, dashes and the like were lost in a conversion from Latin-1. Convert the original again with "
        "iconv -f cp1252 -t utf-8", Flag.CHARACTERS),
    "HTML entities or tags": Issue("note",
        "The model learns them as words. If the text to translate has none, decode entities (html.unescape in Python) "
        "and delete tags.", grave=0.001),
    "private-use character": Issue("warning",
        "These characters mean something in one font only. Replace them", Flag.CHARACTERS),
    "invisible character": Issue("note",
        "Zero-width and direction marks and soft hyphens are harmless if they are meant. Otherwise remove them."),
    "tab": Issue("note", "Tabs are kept. Several in a line may be columns of a table."),
    "not in NFC": Issue("note",
        "The same letter can be written in two ways, and these lines use the one that NFC replaces. Convert them with "
        "uconv -x nfc, or train with --text.normalization nfkc.", grave=0.2),
    "NFC and NFD mixed": Issue("note",
        "The same word has two spellings in this text. Convert it with uconv -x nfc, or train with "
        "--text.normalization nfkc.", grave=0.001),
    # Pairs
    "empty side": Issue("note",
        "Nothing to do: training leaves these pairs out.", Flag.EMPTY, grave=0.02, unit="pairs"),
    "source = target": Issue("note",
        "Copies teach the model to leave text untranslated. Remove them", Flag.COPY, grave=0.005, unit="pairs"),
    "both sides the same": Issue("error",
        "The model would learn to copy. Check whether both sides were made from the same file.", unit="pairs"),
    "short source = target": Issue("note",
        "Nothing to do: names, numbers and single words are often the same in both languages.",
        grave=0.25, unit="pairs"),
    "length ratio": Issue("note",
        "One side says far more than the other. Check these pairs", Flag.RATIO, grave=0.005, unit="pairs"),
    "long line": Issue("note",
        "Training leaves out lines of more than --text.max-length subwords: split long lines.", grave=0.02),
    "very long line": Issue("warning",
        "SentencePiece skips lines over 16,384 bytes, and training leaves them out: split them."),
    "duplicate pair": Issue("note",
        "A few do no harm; many give these sentences too much weight. Remove them",
        Flag.DUPLICATE, grave=0.1, unit="pairs"),
    "near-duplicate pair": Issue("note",
        "They differ only in case, digits, spaces and punctuation. If there are many, remove them",
        Flag.NEAR_DUPLICATE, grave=0.25, unit="pairs"),
    "also in held-out text": Issue("warning",
        "Scores would be too high. Remove these pairs from the training text", Flag.OVERLAP, grave=0.5, unit="pairs"),
    "almost in held-out text": Issue("note",
        "They differ from a held-out pair only in case, digits, spaces and punctuation: scores are slightly too high.",
        grave=0.01, unit="pairs"),
    "also in validation text": Issue("warning",
        "The test text is not independent of the choices made by validation. Remove these pairs from one of the two.",
        grave=0.5, unit="pairs"),
    "source in held-out text": Issue("note",
        "The same source with another translation. `dragoman split` keeps a sentence and its translations together.",
        grave=0.01, unit="pairs"),
    "target in held-out text": Issue("note",
        "Another source with the same translation, which the model learns to write. `dragoman split` leaves these out.",
        grave=0.01, unit="pairs"),
    # Languages
    "wrong script": Issue("warning", "Most letters are not of the language's script. Check these lines", Flag.LANGUAGE),
    "language of the other side": Issue("warning",
        "This text was left untranslated, judging by its letters. Check these lines", Flag.LANGUAGE),
    "third language": Issue("warning", "This text is in neither language. Check these lines", Flag.LANGUAGE),
    "sides swapped": Issue("warning", "Source and target are swapped. Swap them back", Flag.LANGUAGE, unit="pairs"),
    "text the wrong way round": Issue("error",
        "The source file is in the target language and the other way round. Swap --source and --target, or the files.",
        unit="pairs"),
    "unexpected language": Issue("warning",
        "A side is mostly in another language than its code says. Check that file and code belong together."),
    "unexpected script": Issue("warning",
        "A side is mostly in a script other than its code says. Name the script (sr-Latn), or check the file."),
}  # fmt: skip
"""All issues by name. The names are stable: programs may rely on them."""


def advice_of(kind: str) -> str:
    """Return what to do about an issue, with the training option that leaves such pairs out."""
    issue = ISSUES[kind]
    option = CLEANING_OPTIONS.get(issue.flag)
    return f"{issue.advice}, or train with {option}." if option else issue.advice


@dataclass(frozen=True)
class Example:
    """A place in a file that has an issue."""

    file: str
    line: int
    """From 1."""
    texts: tuple[str, ...]
    """The line, or the source and the target, shortened and with invisible characters spelt out."""
    remark: str = ""
    """What exactly is wrong, such as "U+0000 at character 17"."""


@dataclass(frozen=True)
class Finding:
    """One issue of one text: how often it was found, and where."""

    reason: str
    """The name of the issue."""
    severity: Severity
    text: str
    """training, validation or test."""
    count: int
    share: float
    """The count as a share of the text's pairs, 0 to 1."""
    unit: str
    """What is counted: lines, pairs, rows or texts."""
    examples: tuple[Example, ...]
    advice: str
    detail: str = ""
    """A sentence about the whole text."""

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as JSON takes it."""
        return asdict(self)


class Sighting(NamedTuple):
    """One issue of one pair of a block."""

    kind: str
    row: int
    side: int | None = None
    """0 source, 1 target, None for the pair."""
    place: int = 0
    """The character at fault, from 0."""
    remark: str = ""


@dataclass
class Record:
    """What is known of one issue in one text."""

    count: int = 0
    examples: list[Example] = field(default_factory=list)
    details: list[str] = field(default_factory=list)
    """Sentences about the whole text."""


class Tally:
    """Counts issues and keeps the first examples of each."""

    def __init__(self, limit: int) -> None:
        """Keep at most so many examples of each issue."""
        self.limit = limit
        self.records: defaultdict[str, Record] = defaultdict(Record)

    def add(self, kind: str, count: int = 1, detail: str = "", examples: Iterable[Example] = ()) -> None:
        """Count an issue, and keep the examples for which there is room."""
        record = self.records[kind]
        record.count += count
        record.details += [detail] if detail else []
        record.examples += islice(examples, max(self.limit - len(record.examples), 0))

    def wants_example(self, kind: str) -> bool:
        """Whether there is room for another example of an issue."""
        return len(self.records[kind].examples) < self.limit

    def merge(self, other: Tally) -> None:
        """Add what another tally has counted."""
        for kind, record in other.records.items():
            self.add(kind, record.count, examples=record.examples)
            self.records[kind].details += record.details

    def findings(self, text: str, pairs: int) -> Iterator[Finding]:
        """Yield a finding for every issue of a text that has so many pairs, unreadable ones included."""
        for kind, record in self.records.items():
            if not record.count:
                continue
            issue, share = ISSUES[kind], min(record.count / pairs, 1.0) if pairs else 1.0
            severity = SEVERITIES[max(SEVERITIES.index(issue.severity) - (share >= issue.grave), 0)]
            shown = max(self.limit, 1)
            detail = " ".join(record.details[:shown]) + (" …" if len(record.details) > shown else "")
            yield Finding(
                kind, severity, text, record.count, share, issue.unit, tuple(record.examples), advice_of(kind), detail
            )


# ---- showing text

_EXCERPT = 160  # characters


def excerpt(line: str, place: int = 0) -> str:
    """Return a line as an example shows it: shortened around a character, with invisible characters spelt out."""
    start = 0 if place < _EXCERPT * 3 // 4 else place - _EXCERPT // 2
    piece = line[start : start + _EXCERPT]
    return ("…" if start else "") + visible(piece) + ("…" if start + _EXCERPT < len(line) else "")


def visible(text: str) -> str:
    """Return the text with control, format, private and surrogate characters and line breaks spelt as <U+0000>."""
    return text if text.isprintable() else re.sub(r"[^ -~]", _spell, text)


def _spell(match: re.Match[str]) -> str:
    hidden = unicodedata.category(match[0]) in ("Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp")
    return f"<{code_point(match[0])}>" if hidden else match[0]


def code_point(character: str) -> str:
    """Return the number of a character, as in U+00E9."""
    return f"U+{ord(character):04X}"


# ---- the report

_INDENT = "    "


def render_report(findings: Sequence[Finding], sizes: Mapping[str, int], width: int = 80) -> str:
    """Return the report for people: a summary, then every finding with its places and what to do.

    Args:
        findings: in the order of the report.
        sizes: the number of pairs of each text: training, validation, test.
        width: columns of the terminal. Paths may be longer.
    """
    width = max(width, 40)
    pairs = ", ".join(_count(number, f"{text} pair") for text, number in sizes.items())
    severities = Counter(finding.severity for finding in findings)
    counts = ", ".join(_count(severities[severity], severity) for severity in SEVERITIES if severities[severity])
    lines = textwrap.wrap(f"Examined {pairs}: {counts or 'no issues found'}.", width)
    for finding in findings:
        text = f"{finding.text} " if len(sizes) > 1 else ""
        count = f"{text}{_count(finding.count, finding.unit.removesuffix('s'))}{_share(finding)}"
        title = f"{finding.severity.upper()}  {finding.reason}: {count}"
        lines += ["", *textwrap.wrap(title, width, subsequent_indent=_INDENT)]
        for sentence in filter(None, (finding.detail, finding.advice)):
            lines += _indented(sentence, width, _INDENT)
        for example in finding.examples:
            lines += _render_example(example, width)
    return "\n".join(lines)


def _render_example(example: Example, width: int) -> Iterator[str]:
    place = f"{_INDENT}{example.file}:{example.line}"
    if example.remark and cell_len(f"{place}  {example.remark}") <= width:
        yield f"{place}  {example.remark}"
    else:
        yield place
        yield from _indented(example.remark, width, _INDENT * 2)
    for text in example.texts:
        line = f"{_INDENT}  | {text}"
        yield line if cell_len(line) <= width else chop_cells(line, width - 1)[0] + "…"


def _indented(text: str, width: int, indent: str) -> list[str]:
    return textwrap.wrap(
        text, width, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def _count(number: int, unit: str) -> str:
    return f"{number:,} {unit}{'' if number == 1 else 's'}"


def _share(finding: Finding) -> str:
    if finding.share >= 0.9995 or finding.unit == "texts":
        return ""
    return f" ({finding.share:.1%})" if finding.share >= 0.001 else " (less than 0.1%)"
