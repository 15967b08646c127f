"""An inspection as text, for a terminal of any width.

Widths are in cells, of which most Chinese, Japanese and Korean characters take two and combining characters none.
Shapes: S source subwords, T target steps, H heads.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import groupby

from rich.cells import cell_len

from dragoman.inference.alignment import NO_WORD, Alignment
from dragoman.inspection.record import Inspection, Prediction, readable, visible

Style = str
"""What an escape code asks for; of the 256 colours, those that stand out from white and from black."""
_PLAIN, _BOLD, _STRONG, _ALARM, _FAINT = "", "1", "38;5;32", "38;5;166", "38;5;243"

Line = list[tuple[str, Style]]

_SHADES = "░░▒▒▓▓███"  # for one tenth, two, …
_LONGEST_CODE, _LONGEST_RUNNER_UP, _LONGEST_WORD = 8, 12, 24
_LONGEST_COLUMN = (14, 8)  # whichever makes the grid shorter
_NO_BREAK, _LEFT_TO_RIGHT, _EMOJI_STYLE = "\u00a0", "\u200e", "\ufe0f"


def render_text(inspection: Inspection, width: int = 80, color: bool = False) -> str:
    """What a terminal can show of a translation: candidates, every step, the alignment, the cross-attention.

    Args:
        inspection: what Translator.inspect returned.
        width: cells of a line; no line is wider.
        color: mark with escape codes what stands out, in colours for light and dark terminals.

    Returns:
        Lines, without a line break after the last one.
    """
    width = max(1, width)
    lines: list[Line] = []
    for part in (_sentences, _candidates, _steps, _alignment, _attention):
        lines += [*part(inspection, width), []]
    return "\n".join(_written(line, width, color) for line in lines[:-1])


# ---- the parts


def _sentences(inspection: Inspection, width: int) -> Iterator[Line]:
    """Source and translation, each after its language, and how probable the translation is."""
    codes = [_fit(visible(code), _LONGEST_CODE) for code in inspection.languages]
    indent = max(_cells(code) for code in codes) + 2
    for code, text in zip(codes, (inspection.source, inspection.target), strict=True):
        yield from _hanging([(_padded(code, indent), _FAINT)], indent, _pour(visible(text), width - indent))
    numbers = f"log-probability{_NO_BREAK}{inspection.log_prob:.4f}, score{_NO_BREAK}{inspection.score:.4f}"
    lines = [line.replace(_NO_BREAK, " ") for line in _pour(numbers, width - indent)]
    yield from _hanging([(" " * indent, _PLAIN)], indent, lines)


def _candidates(inspection: Inspection, width: int) -> Iterator[Line]:
    """What the search finished, best first; "▸" marks the translation that is looked at."""
    order = "best first" if inspection.facts["search"]["precision"] == "fp32" else "in the order of the search (bf16)"
    yield from _heading("Candidates", f"{order}; score = log-probability / length penalty", width)
    scores = [f"{candidate.score:.4f}" for candidate in inspection.candidates]
    number, score = len(str(len(scores))), max(map(len, ["score", *scores]))
    yield [(f"{'score':>{4 + number + score}}", _FAINT)]
    indent = 2 + number + 2 + score + 2
    for place, candidate in enumerate(inspection.candidates):
        chosen = place == inspection.chosen
        head = [("▸ " if chosen else "  ", _STRONG), (f"{place + 1:>{number}}", _FAINT)]
        head += [(f"  {scores[place]:>{score}}  ", _PLAIN if chosen else _FAINT)]
        yield from _hanging(head, indent, _pour(visible(candidate.text), width - indent))
    if inspection.chosen < 0:
        lines = _pour("The translation above is none of the best that the search found.", width - 2)
        yield from ([(f"  {line}", _ALARM)] for line in lines)


def _steps(inspection: Inspection, width: int) -> Iterator[Line]:
    """A line for each step: the subword, its probability and rank, and what else was likely."""
    yield from _heading("Step by step", "the subword that was written, and what was likely instead", width)
    steps = inspection.predictions
    labels = inspection.labels([step.piece for step in steps])
    others = [_runners_up(inspection, step) for step in steps]
    gap = " " if width < 60 else "  "
    number, bar = len(str(len(steps))), max(5, min(12, width // 10))
    label = max(len("subword"), _label_width(labels, width))
    rank = max(len(text) for text in ("rank", *(str(step.rank) for step in steps)))
    room = width - (number + label + len("0.000 ") + bar + rank + 3 * len(gap))
    longest = _label_width([name for some in others for name, _ in some], 5 * _LONGEST_RUNNER_UP)
    shown = max(0, room // (len(gap) + longest + len(" 0.000")))
    if not shown and room >= len(gap) + len("abc… 0.000"):
        shown, longest = 1, room - len(gap) - len(" 0.000")
    head = (" " * number, "subword".ljust(label), "probability".ljust(6 + bar), "rank".rjust(rank))
    yield [(gap.join((*head, "runners-up" if shown and any(others) else "")), _FAINT)]
    for place, (step, name, some) in enumerate(zip(steps, labels, others, strict=True), start=1):
        style = _PLAIN if step.rank == 1 else _ALARM
        line = [(f"{place:>{number}}{gap}", _FAINT), (_label(name, label) + gap, _BOLD)]
        line += [(f"{_probability(step.probability)} ", style), (_bar(step.probability, bar), _STRONG)]
        line += [(f"{gap}{step.rank:>{rank}}", style)]
        for runner_up, probability in some[:shown]:
            line += [(gap + _label(runner_up, longest), _PLAIN), (f" {_probability(probability)}", _FAINT)]
        yield line


def _alignment(inspection: Inspection, width: int) -> Iterator[Line]:
    """The linked words side by side, and the links in Pharaoh's format."""
    yield from _heading("Alignment", "read off the cross-attention below; </s> does not count", width)
    sources = _words(inspection.source_pieces, inspection.source_words)
    targets = _words(inspection.outputs, inspection.target_words)
    most = min(_LONGEST_WORD, max(1, (width - len("   ↔ ")) // 2))
    pairs = [(_fit(sources[s], most), _fit(targets[t], most)) for s, t in inspection.alignment]
    left, right = (max((_cells(pair[side]) for pair in pairs), default=0) for side in (0, 1))
    a_line = max(1, (width + 1) // (left + right + 6))
    for first in range(0, len(pairs), a_line):
        line: Line = []
        for source, target in pairs[first : first + a_line]:
            line += [(_padded(source, -left - 2), _PLAIN), (" ↔ ", _STRONG), (_padded(target, right + 1), _PLAIN)]
        yield line
    links = Alignment(inspection.alignment, sources, targets).pharaoh() or "no links"
    head = "  Pharaoh  "
    yield from _hanging([(head, _FAINT)], len(head), _pour(links, width - len(head)))


def _attention(inspection: Inspection, width: int) -> Iterator[Line]:
    """The mean of the heads that the alignment was read from, as a grid: target steps × source subwords."""
    weights = inspection.maps[f"decoder.{inspection.alignment_layer}.cross_attention"]  # (H, T, S)
    mean = weights.mean(axis=0, dtype=float).tolist()  # (T, S)
    averaged = f"mean of {len(weights)} heads" if len(weights) > 1 else "the one head"
    note = f"{averaged} at each step, in tenths, 9 from 0.85 on; · is below 0.05"
    yield from _heading(f"Cross-attention of decoder layer {inspection.alignment_layer + 1}", note, width)
    outputs = inspection.labels(inspection.outputs)
    number, label = len(str(len(mean))), _label_width(outputs, width)
    room = width - (number + 1 + label)
    columns = inspection.labels(inspection.source_pieces, 0)
    choices = [[max(2, min(most, _cells(column))) for column in columns] for most in _LONGEST_COLUMN]
    widths = min(choices, key=lambda choice: len(_groups(choice, room)))
    rows = [_label(name, label) for name in outputs]
    for i, group in enumerate(_groups(widths, room)):
        if i:
            yield []
        heads = (_padded(_fit(columns[column], widths[column]), -widths[column]) for column in group)
        yield [(" ".join((" " * (number + 1 + label), *heads)), _FAINT)]
        for step, (row, values) in enumerate(zip(rows, mean, strict=True), start=1):
            line = [(f"{step:>{number}} ", _FAINT), (row, _PLAIN)]
            yield line + [_cell(values[column], widths[column] + 1) for column in group]


# ---- what they are made of


def _runners_up(inspection: Inspection, step: Prediction) -> list[tuple[str, float]]:
    labels = inspection.labels([piece for piece, _ in step.likeliest])
    likeliest = zip(labels, step.likeliest, strict=True)
    return [(label, probability) for label, (piece, probability) in likeliest if piece != step.piece]


def _words(pieces: Sequence[str], places: Sequence[int]) -> list[str]:
    """The words that subwords belong to."""
    words: list[list[str]] = [[] for _ in range(max(places, default=NO_WORD) + 1)]
    for piece, place in zip(pieces, places, strict=True):
        if place != NO_WORD:
            words[place].append(piece)
    return [_spelt(word) for word in words]


def _spelt(pieces: Sequence[str]) -> str:
    """What subwords spell, some of them byte by byte; where that is no text, their labels."""
    text = b""
    for piece in pieces:
        byte = re.fullmatch("<0x([0-9A-F]{2})>", piece)
        text += bytes.fromhex(byte[1]) if byte else piece.removeprefix("▁").encode()
    try:
        return visible(text.decode()) or "".join(readable(pieces))
    except UnicodeDecodeError:
        return "".join(readable(pieces))


def _probability(value: float) -> str:
    """Five cells, whatever the size: "0.934" or "2e-07"."""
    return f"{value:.3f}" if value >= 0.0005 or value == 0 else f"{value:.0e}"


def _bar(value: float, width: int) -> str:
    """A bar whose length shows a value between 0 and 1 to half a cell, padded to the width."""
    full, half = divmod(round(value * width * 2), 2)
    return ("━" * full + "╸" * half).ljust(width)


def _cell(weight: float, width: int) -> tuple[str, Style]:
    """An attention weight in tenths, with a shade to match."""
    tenths = min(9, int(10 * weight + 0.5))
    return (f"{_SHADES[tenths - 1]}{tenths}".rjust(width), _STRONG) if tenths else ("·".rjust(width), _FAINT)


def _groups(widths: Sequence[int], room: int) -> list[range]:
    """Neighbouring columns, as many together as there is room for, each with a space before it."""
    groups, first, used = [], 0, 0
    for column, width in enumerate(widths):
        if column > first and used + 1 + width > room:
            groups.append(range(first, column))
            first, used = column, 0
        used += 1 + width
    return [*groups, range(first, len(widths))]


# ---- lines


def _heading(title: str, note: str, width: int) -> Iterator[Line]:
    """A title and, beside or below it, what explains it."""
    if len(title) + 3 + len(note) <= width:
        yield [(title, _BOLD), (f"   {note}", _FAINT)]
    else:
        yield from ([(line, _BOLD)] for line in _pour(title, width))
        yield from ([(line, _FAINT)] for line in _pour(note, width))


def _hanging(head: Line, indent: int, lines: Sequence[str]) -> Iterator[Line]:
    """Lines beside a head; those after the first are indented as far as it reaches."""
    for i, line in enumerate(lines):
        yield [*([(" " * indent, _PLAIN)] if i else head), (line, _PLAIN)]


def _written(line: Line, width: int, color: bool) -> str:
    """A line with its escape codes, cut where it is too wide."""
    while line and not line[-1][0].rstrip(" "):
        line = line[:-1]
    if line:
        line = [*line[:-1], (line[-1][0].rstrip(" "), line[-1][1])]
    room = width if _cells("".join(text for text, _ in line)) <= width else width - 1
    result = ""
    for style, parts in groupby(line, key=lambda part: part[1]):
        text = "".join(text for text, _ in parts)
        head = _beginning(text, room)
        room -= _cells(head)
        cut = "…" if head != text else ""
        result += f"\x1b[{style}m{head}{cut}\x1b[0m" if color and style else head + cut
        if cut:
            break
    return result


def _pour(text: str, width: int) -> list[str]:
    """The text on lines of this width, broken at spaces and within words that are wider than a line."""
    width = max(2, width)
    lines, room = [""], width
    for i, word in enumerate(text.split(" ")):
        rest = word if i == 0 else " " + word
        if _cells(rest) > room and _cells(word) <= width:
            lines.append("")
            rest, room = word, width
        while (head := _beginning(rest, room)) != rest:  # a very long word, or a language without spaces
            lines[-1] += head
            lines.append("")
            rest, room = rest[len(head) :].removeprefix(" "), width
        lines[-1] += rest
        room -= _cells(rest)
    return lines


def _label_width(labels: Sequence[str], width: int) -> int:
    """Cells for the labels of subwords: enough for the longest, at most a fifth of the width."""
    return min(max(7, width // 5), max(map(_cells, labels), default=0))


def _label(label: str, width: int) -> str:
    return _padded(_fit(label, width), width)


def _padded(text: str, width: int) -> str:
    """The text and what is missing to the width; a negative width pads on the left."""
    padding = " " * max(0, abs(width) - _cells(text))
    if any(unicodedata.bidirectional(character) in ("R", "AL", "AN") for character in text):
        text += _LEFT_TO_RIGHT  # a terminal that knows Arabic and Hebrew would turn the columns around as well
    return padding + text if width < 0 else text + padding


def _fit(text: str, width: int) -> str:
    """The text, or as much of its beginning as fits before an ellipsis."""
    return text if _cells(text) <= width else _beginning(text, width - 1) + "…"


def _beginning(text: str, width: int) -> str:
    """As much of the text as fits."""
    used = 0
    for place, character in enumerate(text):
        used += _cells_of(character)
        if used > width:
            return text[:place]
    return text


def _cells(text: str) -> int:
    """Cells of a text, character by character: what joins or widens its neighbours may take less than this, not more.

    Terminals disagree there, and on the vowel signs of Indian scripts, which take no cell in some and one in most.
    """
    return len(text) if text.isascii() else sum(map(_cells_of, text))


@lru_cache(maxsize=4096)
def _cells_of(character: str) -> int:
    return 1 if character == _EMOJI_STYLE or unicodedata.category(character) == "Mc" else cell_len(character)
