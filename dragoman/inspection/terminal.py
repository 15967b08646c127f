"""An inspection as text, for a terminal of any width.

Widths are in cells, of which most Chinese, Japanese and Korean characters take two and combining characters none.
Shapes: S source subwords, T target steps, H heads.
"""

import io
import unicodedata
from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.columns import Columns
from rich.console import Console, RenderableType
from rich.table import Column, Table
from rich.text import Text

from dragoman.inference.alignment import Alignment
from dragoman.inspection.page import visible
from dragoman.inspection.record import Inspection

# Of the 256 colours, those that stand out from white and from black.
_STRONG, _ALARM, _FAINT = "color(32)", "color(166)", "color(243)"
_SHADES = "░░▒▒▓▓███"  # for one tenth, two, …
_LONGEST_COLUMN, _LONGEST_RUNNER_UP, _LONGEST_WORD = 10, 12, 24
_LEFT_TO_RIGHT = "\u200e"


def render_text(inspection: Inspection, width: int = 80, color: bool = False) -> str:
    """What a terminal of this width in cells can show of a translation, without a line break at the end.

    With color, escape codes mark what stands out, in colours for light and dark terminals.
    """
    written = io.StringIO()
    console = Console(file=written, width=width, color_system="256" if color else None, force_terminal=color)
    for part in (_sentences, _candidates, _steps, _alignment, _attention):
        console.print(*part(inspection, width), "", sep="\n")
    return "\n".join(line.rstrip(" ") for line in written.getvalue().split("\n")).rstrip("\n")


def _sentences(inspection: Inspection, width: int) -> Iterator[RenderableType]:
    table = _table(2, Column(style=_FAINT), Column(overflow="fold"), header=False)
    for code, text in zip(inspection.languages, (inspection.source, inspection.target), strict=True):
        table.add_row(Text(code), Text(visible(text)))
    table.add_row("", f"log-probability {inspection.log_prob:.4f}, score {inspection.score:.4f}")
    yield table


def _candidates(inspection: Inspection, width: int) -> Iterator[RenderableType]:
    order = "best first" if inspection.facts["search"]["precision"] == "fp32" else "in the order of the search (bf16)"
    yield _heading("Candidates", f"{order}; score = log-probability / length penalty", width)
    score = Column("score", justify="right", no_wrap=True)
    table = _table(2, Column(no_wrap=True), score, Column(overflow="fold"))
    for place, candidate in enumerate(inspection.candidates):
        chosen = place == inspection.chosen
        number = Text.assemble(("▸ " if chosen else "  ", _STRONG), (str(place + 1), _FAINT))
        value = Text(f"{candidate.score:.4f}", style="" if chosen else _FAINT)
        table.add_row(number, value, Text(visible(candidate.text)))
    yield table
    if inspection.chosen < 0:
        yield Text("The translation above is none of the best that the search found.", style=_ALARM)


def _steps(inspection: Inspection, width: int) -> Iterator[RenderableType]:
    """A line for each step: the subword, its probability and rank, and as many of the runners-up as fit."""
    yield _heading("Step by step", "the subword that was written, and what was likely instead", width)
    steps = inspection.predictions
    labels = inspection.labels([step.piece for step in steps])
    others = [
        [(inspection.labels([piece])[0], chance) for piece, chance in step.likeliest if piece != step.piece]
        for step in steps
    ]
    gap, longest, bar = 1 if width < 60 else 2, _longest(labels, width), max(5, min(12, width // 10))
    longest_other = min(_LONGEST_RUNNER_UP, max((cell_len(name) for some in others for name, _ in some), default=0))
    # 24 cells are for the number, the probability, the rank and the gaps; 6 for the probability of a runner-up.
    room = max(0, width - max(longest, len("subword")) - bar - 24)
    shown = min(room // (gap + longest_other + 6), max(map(len, others)))
    table = _table(
        gap,
        Column(justify="right", style=_FAINT, no_wrap=True),
        Column("subword", style="bold", no_wrap=True),
        Column("probability", no_wrap=True),
        Column("rank", justify="right", no_wrap=True),
        *(Column("" if place else "runners-up", no_wrap=True) for place in range(shown)),
    )
    for place, (step, label, some) in enumerate(zip(steps, labels, others, strict=True), start=1):
        style = "" if step.rank == 1 else _ALARM
        chance = Text.assemble((_probability(step.probability), style), " ", (_bar(step.probability, bar), _STRONG))
        row = [Text(str(place)), _fitted(label, longest), chance, Text(str(step.rank), style=style)]
        for other, probability in some[:shown]:
            name = _fitted(other, longest_other)
            name.pad_right(longest_other - name.cell_len)
            row.append(Text.assemble(name, (f" {_probability(probability)}", _FAINT)))
        table.add_row(*row)
    yield table


def _alignment(inspection: Inspection, width: int) -> Iterator[RenderableType]:
    yield _heading("Alignment", "read off the cross-attention below; </s> does not count", width)
    sources, targets = inspection.words
    longest = min(_LONGEST_WORD, max(1, (width - len("   ↔ ")) // 2))
    pairs = []
    for source, target in inspection.alignment:
        words = (_fitted(visible(word.removeprefix("▁")), longest) for word in (sources[source], targets[target]))
        pairs.append(Text("  ", no_wrap=True) + Text(" ↔ ", _STRONG).join(words))
    yield Columns(pairs, padding=(0, 1))
    table = _table(2, Column(style=_FAINT, no_wrap=True), Column(), header=False)
    table.add_row("  Pharaoh", Alignment(inspection.alignment, sources, targets).pharaoh() or "no links")
    yield table


def _attention(inspection: Inspection, width: int) -> Iterator[RenderableType]:
    """The mean of the heads that the alignment was read from, as a grid: target steps × source subwords."""
    weights = inspection.maps[f"decoder.{inspection.alignment_layer}.cross_attention"]  # (H, T, S)
    mean = weights.mean(axis=0, dtype=float).tolist()  # (T, S)
    averaged = f"mean of {len(weights)} heads" if len(weights) > 1 else "the one head"
    note = f"{averaged} at each step, in tenths, 9 from 0.85 on; · is below 0.05"
    yield _heading(f"Cross-attention of decoder layer {inspection.alignment_layer + 1}", note, width)
    columns, rows = inspection.labels(inspection.source_pieces, 0), inspection.labels(inspection.outputs)
    longest = _longest(rows, width)
    room = width - len(str(len(rows))) - 1 - max(cell_len(_fitted(row, longest).plain) for row in rows)
    widths = [max(2, min(_LONGEST_COLUMN, cell_len(column))) for column in columns]
    for group in _groups(widths, room):
        if group.start:
            yield ""
        table = _table(1, Column(justify="right", style=_FAINT, no_wrap=True), Column(no_wrap=True))
        for column in group:
            table.add_column(_fitted(columns[column], widths[column]), justify="right", no_wrap=True, min_width=2)
        for step, (row, values) in enumerate(zip(rows, mean, strict=True), start=1):
            table.add_row(str(step), _fitted(row, longest), *(_cell(values[column]) for column in group))
        yield table


def _heading(title: str, note: str, width: int) -> Text:
    between = "   " if len(title) + 3 + len(note) <= width else "\n"
    return Text.assemble((title, "bold"), between, (note, _FAINT))


def _table(gap: int, *columns: Column, header: bool = True) -> Table:
    padding = (0, gap, 0, 0)
    return Table(*columns, box=None, padding=padding, pad_edge=False, header_style=_FAINT, show_header=header)


def _probability(value: float) -> str:
    """Five cells, whatever the size: "0.934" or "2e-07"."""
    return f"{value:.3f}" if value >= 0.0005 or value == 0 else f"{value:.0e}"


def _bar(value: float, width: int) -> str:
    """A bar whose length shows a value between 0 and 1 to half a cell, padded to the width."""
    full, half = divmod(round(value * width * 2), 2)
    return ("━" * full + "╸" * half).ljust(width)


def _cell(weight: float) -> Text:
    """An attention weight in tenths, with a shade to match."""
    tenths = min(9, int(10 * weight + 0.5))
    return Text(f"{_SHADES[tenths - 1]}{tenths}", style=_STRONG) if tenths else Text("·", style=_FAINT)


def _groups(widths: Sequence[int], room: int) -> list[range]:
    """Neighbouring columns, as many together as there is room for, each with a space before it."""
    groups, first, used = [], 0, 0
    for column, width in enumerate(widths):
        if column > first and used + 1 + width > room:
            groups.append(range(first, column))
            first, used = column, 0
        used += 1 + width
    return [*groups, range(first, len(widths))]


def _longest(labels: Sequence[str], width: int) -> int:
    """Cells for the labels of subwords: enough for the longest, at most a fifth of the width."""
    return min(max(7, width // 5), max(map(cell_len, labels), default=0))


def _fitted(label: str, cells: int) -> Text:
    """The label, or as much of its beginning as fits before an ellipsis."""
    text = Text(label, no_wrap=True)
    text.truncate(cells, overflow="ellipsis")
    if any(unicodedata.bidirectional(character) in ("R", "AL", "AN") for character in label):
        text.append(_LEFT_TO_RIGHT)  # a terminal that knows Arabic and Hebrew would turn the columns around as well
    return text
