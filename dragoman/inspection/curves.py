"""Curves of runs over steps or minutes, as coordinates for the templates that draw them."""

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from dragoman.inspection.run import Run

CHARTS: list[tuple[str, str, dict[str, str]]] = [
    ("Loss", "nats per target subword", {"train/loss": "training", "valid/loss": "validation"}),
    ("BLEU", "0 to 100", {"valid/bleu": ""}),
    ("chrF", "0 to 100", {"valid/chrf": ""}),
    ("Learning rate", "", {"train/lr": ""}),
    ("Accuracy", "share of the subwords", {"health/forced_accuracy": "forced", "health/free_accuracy": "free"}),
    ("Gradient", "median norm", {"health/gradient_norm": ""}),
]
"""Title, unit, and the curves by their names in metrics.jsonl; the last of them is the one to look at."""

_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 350, 48, 186  # of the place for curves in a drawing of 360 × 220
_MOST_POINTS, _MOST_TICKS = 200, 5  # more would not be seen


def draw(runs: Sequence[Run], axis: str) -> list[dict[str, Any]]:
    """The charts of some runs over "steps" or "minutes", without those that the runs have recorded nothing for."""
    charts = []
    for title, unit, curves in CHARTS:
        lines = [
            {"run": number, "tag": tag, "main": tag == [*curves][-1], "points": points}
            for tag in curves
            for number, run in enumerate(runs)
            if (points := _points(run, tag, axis))
        ]
        if lines:
            charts.append({"title": title, "unit": unit, "curves": curves, "axis": axis} | _place(lines))
    return charts


def _points(run: Run, tag: str, axis: str) -> list[tuple[float, float, int]]:
    """Place on the axis, value and step; means of neighbours where there are many."""
    found = []
    for record in run.records:
        place = record.get("seconds", math.nan) / 60.0 if axis == "minutes" else record["step"]
        if math.isfinite(place) and record.get(tag) is not None:
            found.append((place, record[tag], record["step"]))
    size = math.ceil(len(found) / _MOST_POINTS) or 1
    groups = [found[i : i + size] for i in range(0, len(found), size)]
    return [(fmean(x for x, _, _ in group), fmean(y for _, y, _ in group), group[-1][2]) for group in groups]


def _place(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """Ticks and coordinates of the lines of a chart."""
    end = max(line["points"][-1][0] for line in lines) or 1.0
    # The loss falls so far before the second validation that nothing else could be seen: its line comes from above.
    start = min(line["points"][:2][-1][0] for line in lines if line["main"])
    values = [y for line in lines for x, y, _ in line["points"] if line["main"] or x >= start or start > end / 2]
    low, high = min(values), max(values)
    y_ticks = ticks(0.0 if 0.0 < low < high / 4 else low, high)
    bottom, top = y_ticks[0], y_ticks[-1]

    def across(x: float) -> float:
        return round(_LEFT + (_RIGHT - _LEFT) * x / end, 1)

    def up(y: float) -> float:
        return round(_BOTTOM - (_BOTTOM - _TOP) * (y - bottom) / (top - bottom), 1)

    for line in lines:
        shown = [(across(x), up(y), step, y) for x, y, step in line["points"] if y <= top]
        line["path"] = " ".join(f"{x},{y}" for x, y, _, _ in shown)
        line["dots"] = [] if line["tag"].startswith("train/") or len(shown) == _MOST_POINTS else shown
    return {
        "lines": lines,
        "x_ticks": [(across(x), _label(x)) for x in ticks(0.0, end) if x <= end],
        "y_ticks": [(up(y), _label(y)) for y in y_ticks],
    }


def ticks(low: float, high: float) -> list[float]:
    """Round numbers, about five, the first at or below low and the last at or above high."""
    span = (high - low) or abs(high) or 1.0
    power = 10.0 ** math.floor(math.log10(span / _MOST_TICKS))
    step = next(power * factor for factor in (1, 2, 5, 10) if span / (power * factor) <= _MOST_TICKS)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [i * step for i in range(first, max(last, first + 1) + 1)]


def _label(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.6g}".replace("e-0", "e-")
