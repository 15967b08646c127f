"""The doctor's findings as plain text for people, in columns of a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence

from rich.cells import cell_len, chop_cells

from dragoman.corpus_check.issues import Example, Finding

_INDENT = "    "


def render_report(findings: Sequence[Finding], sizes: Mapping[str, int], width: int = 80) -> str:
    """The report: a line about the whole, then every finding with its places and what to do.

    Args:
        findings: in the order in which they are to be told.
        sizes: the number of pairs of each text: training, validation, test.
        width: columns of the terminal; what can't be broken may be longer.
    """
    width = max(width, 40)
    pairs = ", ".join(f"{_number(count, 'pair', name)}" for name, count in sizes.items())
    counts = [
        _number(count, severity)
        for severity in ("error", "warning", "note")
        if (count := sum(finding.severity == severity for finding in findings))
    ]
    lines = textwrap.wrap(f"Examined {pairs}: {', '.join(counts) or 'nothing to complain of'}.", width)
    for finding in findings:
        lines += ["", *_render(finding, width, told=len(sizes) > 1)]
    return "\n".join(lines)


def _render(finding: Finding, width: int, told: bool) -> Iterator[str]:
    """One finding; told is whether to say in which text."""
    where = f"{finding.text} " if told else ""
    count = f"{where}{_number(finding.count, finding.unit.removesuffix('s'))}{_share(finding)}"
    yield from textwrap.wrap(f"{finding.severity.upper()}  {finding.reason}: {count}", width, subsequent_indent=_INDENT)
    for text in filter(None, (finding.detail, finding.advice)):
        yield from textwrap.wrap(
            text,
            width,
            initial_indent=_INDENT,
            subsequent_indent=_INDENT,
            break_long_words=False,
            break_on_hyphens=False,
        )
    for example in finding.examples:
        yield from _render_example(example, width)


def _render_example(example: Example, width: int) -> Iterator[str]:
    place = f"{_INDENT}{example.file}:{example.line}"
    if example.remark and cell_len(f"{place}  {example.remark}") <= width:
        yield f"{place}  {example.remark}"
    else:
        yield place
        if example.remark:
            yield from textwrap.wrap(example.remark, width, initial_indent=_INDENT * 2, subsequent_indent=_INDENT * 2)
    for text in example.texts:
        yield _cut(f"{_INDENT}  | {text}", width)


def _cut(line: str, width: int) -> str:
    """The line, with an ellipsis where it is wider than the terminal."""
    return line if cell_len(line) <= width else chop_cells(line, width - 1)[0] + "…"


def _number(count: int, unit: str, text: str = "") -> str:
    return f"{count:,} {text + ' ' if text else ''}{unit}{'' if count == 1 else 's'}"


def _share(finding: Finding) -> str:
    if finding.share >= 0.9995 or finding.unit == "texts":
        return ""
    return f" ({finding.share:.1%})" if finding.share >= 0.001 else " (less than 0.1%)"
