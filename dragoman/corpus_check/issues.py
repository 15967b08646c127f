"""The issues that a parallel text can have, and the report that says which ones it has."""

import enum
import textwrap
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

import yaml
from rich.cells import cell_len, chop_cells

Severity = Literal["error", "warning", "note"]
"""error: training would fail or learn something wrong; warning: translations will suffer; note: good to know."""

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
_MOST_DETAILS = 3


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


CLEANING = {
    Flag.OVERLAP: ("overlap", "also in the validation or test text"),
    Flag.DUPLICATE: ("duplicates", "duplicates"),
    Flag.NEAR_DUPLICATE: ("near_duplicates", "near duplicates"),
    Flag.COPY: ("copies", "copies of the source"),
    Flag.RATIO: ("ratio", "of unlike lengths"),
    Flag.CHARACTERS: ("characters", "with broken characters"),
    Flag.LANGUAGE: ("language", "in a wrong language"),
}
"""For each flag the setting of CleaningConfig that acts on it, and what the pairs are called."""


@dataclass(frozen=True)
class Issue:
    """One kind of issue."""

    severity: Severity
    cure: str
    """What it means or what to do, as the beginning of a sentence that may name a training option."""
    flag: Flag | None = None
    """What a training pair with this issue is flagged with."""
    grave: float = 2.0
    """The share of the text's pairs from which a note becomes a warning, and a warning an error."""
    unit: Literal["lines", "pairs", "rows", "texts"] = "lines"
    """What is counted."""
    unreadable: bool = False
    """Whether training stops at this issue."""


_TABLE = yaml.safe_load(Path(__file__).with_name("issues.yaml").read_text(encoding="utf-8"))
ISSUES = {
    name: Issue(**known | {"flag": Flag[known["flag"]] if "flag" in known else None}) for name, known in _TABLE.items()
}
"""The issues of issues.yaml by name."""


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
class Finding:
    """An issue of a text: how often it was found, and where."""

    reason: str
    """The name of the issue."""
    text: str
    """training, validation or test."""
    pairs: int = 0
    """Pairs of that text."""
    count: int = 0
    examples: list[Example] = field(default_factory=list)
    details: list[str] = field(default_factory=list)
    """Sentences about the whole text."""

    @property
    def issue(self) -> Issue:
        """What is known of this kind of issue."""
        return ISSUES[self.reason]

    @property
    def advice(self) -> str:
        """One or two sentences about what to do; only training text is cleaned."""
        issue, is_cleaned = self.issue, self.text == "training" and self.issue.flag != Flag.OVERLAP
        setting = CLEANING[issue.flag][0] if issue.flag in CLEANING and is_cleaned else ""
        option = f", or train with --clean.{setting}" if setting else ""
        return f"{'Training stops here. ' if issue.unreadable else ''}{issue.cure}{option.replace('_', '-')}."

    @property
    def amount(self) -> str:
        """How many lines, pairs or the like have the issue, in words."""
        return _count(self.count, self.issue.unit.removesuffix("s"))

    @property
    def share(self) -> float:
        """The count as a share of the pairs, 0 to 1."""
        return min(self.count / self.pairs, 1.0) if self.pairs else 1.0

    @property
    def severity(self) -> Severity:
        """The severity of the issue, or the next one if it is frequent."""
        return SEVERITIES[max(SEVERITIES.index(self.issue.severity) - (self.share >= self.issue.grave), 0)]

    @property
    def rank(self) -> tuple[int, int]:
        """What sorts findings: the gravest first, and among equals the most frequent."""
        return SEVERITIES.index(self.severity), -self.count

    @property
    def detail(self) -> str:
        """The first sentences about the whole text."""
        return " ".join(self.details[:_MOST_DETAILS]) + (" …" if len(self.details) > _MOST_DETAILS else "")

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as JSON takes it."""
        own = {name: getattr(self, name) for name in ("reason", "severity", "text", "count", "share")}
        issue = {"unit": self.issue.unit, "advice": self.advice, "detail": self.detail}
        return own | issue | {"examples": [asdict(place) for place in self.examples]}


class Tally(dict[str, Finding]):
    """The findings of a text by issue, with the first examples of each."""

    def __init__(self, text: str, limit: int) -> None:
        super().__init__()
        self._text, self._limit = text, limit

    def add(self, kind: str, count: int = 1, detail: str = "", examples: Iterable[Example] = ()) -> None:
        """Count an issue, and take as many of the examples as there is room for."""
        finding = self.setdefault(kind, Finding(kind, self._text))
        finding.count += count
        finding.details += [detail] if detail else []
        finding.examples += islice(examples, max(self._limit - len(finding.examples), 0))


# ---- showing text

_EXCERPT = 160  # characters


def excerpt(line: str, place: int = 0) -> str:
    """Return a line as an example shows it: shortened around a character, with invisible characters spelt out."""
    start = 0 if place < _EXCERPT * 3 // 4 else place - _EXCERPT // 2
    piece = line[start : start + _EXCERPT]
    hidden = {c for c in piece if unicodedata.category(c) in ("Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp")}
    shown = piece.translate({ord(c): f"<{code_point(c)}>" for c in hidden})
    return ("…" if start else "") + shown + ("…" if start + _EXCERPT < len(line) else "")


def code_point(character: str) -> str:
    """Return the number of a character, as in U+00E9."""
    return f"U+{ord(character):04X}"


def render_report(findings: Sequence[Finding], sizes: Mapping[str, int], width: int = 80) -> str:
    """Return the report for people: a summary, then every finding with its places and what to do.

    The sizes are the pairs of each text. Lines have at most this many columns, except those with a path.
    """
    pairs = ", ".join(_count(number, f"{text} pair") for text, number in sizes.items())
    severities = Counter(finding.severity for finding in findings)
    counts = ", ".join(_count(severities[severity], severity) for severity in SEVERITIES if severities[severity])
    wrap = partial(textwrap.wrap, width=max(width, 40), break_long_words=False, break_on_hyphens=False)
    lines = wrap(f"Examined {pairs}: {counts or 'no issues found'}.")
    for finding in findings:
        text = f"{finding.text} " if len(sizes) > 1 else ""
        share = f" ({finding.share:.1%})" if finding.share >= 0.001 else " (less than 0.1%)"
        share = share if finding.share < 0.9995 and finding.issue.unit != "texts" else ""
        lines += ["", *wrap(f"{finding.severity.upper()}  {finding.reason}: {text}{finding.amount}{share}")]
        for words in (finding.detail, finding.advice):
            lines += wrap(words, initial_indent=" " * 4, subsequent_indent=" " * 4)
        for example in finding.examples:
            lines.append(f"    {example.file}:{example.line}  {example.remark}".rstrip())
            shown = [f"      | {text}" for text in example.texts]
            lines += [text if cell_len(text) <= width else chop_cells(text, width - 1)[0] + "…" for text in shown]
    return "\n".join(lines)


def _count(number: int, unit: str) -> str:
    return f"{number:,} {unit}{'' if number == 1 else 's'}"
