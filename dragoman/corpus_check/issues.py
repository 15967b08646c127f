"""What the doctor saw: sightings in a block of pairs, tallied into the findings of a report."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dragoman.corpus_check.reasons import Reason, Severity

Rows = NDArray[np.intp]
"""Numbers of pairs in a block, from 0, rising."""

_GRAVER: dict[Severity, Severity] = {"note": "warning", "warning": "error", "error": "error"}
_SHOWN = 160
"""Most characters of a line that an example keeps."""


@dataclass(frozen=True)
class Example:
    """A place where a fault was seen."""

    file: str
    """The path."""
    line: int
    """From 1."""
    texts: tuple[str, ...]
    """The line, or the source and the target; shortened, control characters made visible."""
    remark: str = ""
    """What exactly is wrong, such as "U+0000 at character 17"."""


@dataclass(frozen=True)
class Finding:
    """All the faults of one kind in one text."""

    reason: str
    severity: Severity
    text: str
    """training, validation or test."""
    count: int
    """How many lines, pairs or rows."""
    share: float
    """The count as a share of that text's pairs, 0 to 1; both sides of a pair may count."""
    unit: str
    """What is counted: lines, pairs or rows."""
    examples: tuple[Example, ...]
    advice: str
    detail: str = ""
    """A sentence about the whole, where the examples don't say it."""

    def to_dict(self) -> dict[str, Any]:
        """The finding as JSON takes it."""
        return asdict(self)


@dataclass(frozen=True)
class Sighting:
    """Faults of one kind in one block of pairs."""

    reason: Reason
    rows: Rows
    """Which pairs; never empty."""
    side: int | None = None
    """0 source, 1 target, None for what concerns the pair."""
    places: Sequence[int] = ()
    """For each row, the character that is at fault, from 0."""
    remarks: Sequence[str] = ()
    """For each row, what exactly is wrong."""


@dataclass
class Tally:
    """Counts faults and keeps the first examples of each reason."""

    text: str
    """training, validation or test."""
    limit: int
    """Examples kept of each reason."""
    counts: dict[Reason, int] = field(default_factory=dict)
    """How often each reason was seen."""
    examples: dict[Reason, list[Example]] = field(default_factory=dict)
    """Some of the places."""
    details: dict[Reason, list[str]] = field(default_factory=dict)
    """Sentences about the whole."""

    def count(self, reason: Reason, number: int, detail: str = "") -> None:
        """Add to a reason's count, and perhaps say something about the whole."""
        self.counts[reason] = self.counts.get(reason, 0) + number
        if detail:
            self.details.setdefault(reason, []).append(detail)

    def wanted(self, reason: Reason) -> int:
        """How many more examples there is room for."""
        return self.limit - len(self.examples.get(reason, ()))

    def show(self, reason: Reason, examples: Iterable[Example]) -> None:
        """Keep examples, as far as there is room."""
        kept = self.examples.setdefault(reason, [])
        kept.extend(list(examples)[: max(self.wanted(reason), 0)])

    def findings(self, pairs: int) -> list[Finding]:
        """What was counted.

        Args:
            pairs: of the text, with those that can't be read.
        """
        return [self._finding(reason, count, pairs) for reason, count in self.counts.items() if count]

    def _finding(self, reason: Reason, count: int, pairs: int) -> Finding:
        share = min(count / pairs, 1.0) if pairs else 1.0
        severity = reason.severity if share < reason.grave else _GRAVER[reason.severity]
        examples, details = self.examples.get(reason, []), self.details.get(reason, [])
        return Finding(
            reason=reason.name,
            severity=severity,
            text=self.text,
            count=count,
            share=share,
            unit=reason.unit,
            examples=tuple(examples),
            advice=reason.advice,
            detail=" ".join(details[: max(self.limit, 1)]) + (" …" if len(details) > max(self.limit, 1) else ""),
        )


def excerpt(line: str, place: int = 0) -> str:
    """A line as an example shows it: shortened around a place, with what is invisible spelt out.

    Args:
        line: the text.
        place: the character that must be seen, from 0.
    """
    start = 0 if place < _SHOWN * 3 // 4 else place - _SHOWN // 2
    piece = line[start : start + _SHOWN]
    return ("…" if start else "") + visible(piece) + ("…" if start + _SHOWN < len(line) else "")


def visible(text: str) -> str:
    """The text with control, format, private and lone surrogate characters, and odd line breaks, spelt as <U+0000>."""
    return text if text.isprintable() else _INVISIBLE.sub(_spell, text)


def code_point(character: str) -> str:
    """The character's number, as in U+00E9."""
    return f"U+{ord(character):04X}"


_INVISIBLE = re.compile(r"[^ -~]")


def _spell(match: re.Match[str]) -> str:
    hidden = unicodedata.category(match[0]) in ("Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp")
    return f"<{code_point(match[0])}>" if hidden else match[0]
