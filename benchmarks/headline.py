"""The figures in the README, from the comparisons with other toolkits."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from quality_report import mean

from dragoman.evaluation.scores import METRICS

Row = tuple[str, str, str, str]
"""What was measured, the processor, Dragoman's figure, and the others'."""
RESULTS = Path(__file__).parent / "results"
FIGURES = ("<!-- figures -->\n", "<!-- end of figures -->\n")
SCORES = ("<!-- scores -->\n", "<!-- end of scores -->\n")
_OURS = "dragoman"
_TRAINED = ("small", "base")
_CALLED = {"marian": "MarianMTModel", "nn.Transformer": "nn.Transformer", "joeynmt": "JoeyNMT"}
_CALLED |= {"annotated": "The Annotated Transformer"}


def headline(results: Path = RESULTS) -> str:
    """Return a Markdown table: training, translating, and the minutes of equally long runs."""
    rows = [
        *_training(_read(results, "speed-training"), "AMX"),
        *_training(_read(results, "speed-training-avx512"), "AVX-512"),
        *_training(_read(results, "speed-training-avx2"), "AVX2"),
        *_translating(_read(results, "speed-decoding-avx512"), "AVX-512"),
        *_translating(_read(results, "speed-decoding"), "AVX2"),
        _minutes(_read(results, "time-to-quality"), "AVX-512"),
    ]
    head = "| | processor | Dragoman | comparison |\n|---|---|---:|---|\n"
    return head + "".join(f"| {' | '.join(row)} |\n" for row in rows)


def scores(results: Path = RESULTS) -> str:
    """Return a Markdown table of the recipes' scores."""
    rows = []
    for path in sorted(results.glob("recipe-*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        name, spread = next(iter(record["result"]["scores"].items()))
        runs = spread["runs"]
        deviation = f" ± {spread['standard_deviation']:.1f} (mean of {runs} runs)" if runs > 1 else " (1 run)"
        metric = METRICS[name] if name != "bleu" else "sacreBLEU"
        if chrf := record["result"]["scores"].get("chrf"):
            metric += f" (chrF2 {chrf['mean']:.1f})"
        cells = [record["recipe"]["recipe"], f"{spread['mean']:.1f}{deviation}", metric, record["recipe"]["published"]]
        rows.append(f"| {' | '.join(cells)} |\n")
    return "| recipe | score | | for comparison |\n|---|---:|---|---|\n" + "".join(rows)


def into_readme(readme: str, results: Path = RESULTS) -> str:
    """Return the README with the tables between their marks."""
    for marks, table in ((FIGURES, headline(results)), (SCORES, scores(results))):
        begin, end = map(re.escape, marks)
        readme = re.sub(f"(?<={begin}).*?(?={end})", lambda _, table=table: table, readme, flags=re.DOTALL)
    return readme


def _read(results: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((results / f"{name}.json").read_text(encoding="utf-8"))["result"]
    return found


def _training(result: dict[str, Any], processor: str) -> Iterator[Row]:
    for size, precisions in result.items():
        if size not in _TRAINED:
            continue
        measured = {
            (name, precision): row["median"]
            for precision, found in precisions.items()
            for name, row in found["target_tokens_per_second"].items()
        }
        ours = "bf16" if (_OURS, "bf16") in measured else "fp32"  # some processors only emulate bf16
        own = measured[_OURS, ours]
        others = {who: rate for who, rate in measured.items() if who[0] != _OURS}
        name, precision = max(others, key=others.__getitem__)
        yield (
            f"training `{size}` with 8,000 subwords in {ours}: target tokens per second",
            processor,
            f"{own:,.0f}",
            f"{own / others[name, precision]:.1f} times the speed of {_CALLED[name]} in {precision}, the fastest of "
            f"{len({peer for peer, _ in others})} others",
        )


def _translating(result: dict[str, Any], processor: str) -> Iterator[Row]:
    measured = result["beam 4, in batches"]
    own = measured[f"{_OURS} int8"]["median"]
    best = {
        name: max((row["median"], key.split()[1]) for key, row in measured.items() if key.startswith(name))
        for name in ("marian", "ctranslate2 int8")
    }
    yield (
        "translating with a beam of 4: sentences per second",
        processor,
        f"{own:,.0f}",
        f"{own / best['marian'][0]:.1f} times the speed of transformers' `generate` in {best['marian'][1]}, "
        f"{own / best['ctranslate2 int8'][0]:.2f} times that of CTranslate2 by itself",
    )

    measured = result["beam 4, one by one"]
    best = {
        name: min((row["median"], key.split()[1]) for key, row in measured.items() if key.startswith(name))
        for name in ("marian", "ctranslate2 int8")
    }
    yield (
        "translating one by one with a beam of 4: milliseconds per sentence",
        processor,
        f"{measured[f'{_OURS} int8']['median']:.1f}",
        "{:.1f} with transformers' `generate` in {}, ".format(*best["marian"])
        + "{:.1f} with CTranslate2 by itself".format(*best["ctranslate2 int8"]),
    )


def _minutes(result: dict[str, Any], processor: str) -> Row:
    own, other = (f"{mean(runs, 'minutes', 1)} ({mean(runs, 'bleu', 1)} BLEU)" for runs in result["toolkits"].values())
    return f"minutes from raw text to the end of {result['steps']:,} steps", processor, own, f"MarianMTModel {other}"
