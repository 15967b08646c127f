"""Write docs/results.md, and the tables of the README, from benchmarks/results; `make docs` calls it.

python benchmarks/report.py
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ablation import ablation_table, is_ablation
from exports_report import exports_tables, is_exports
from growth_report import growth_tables, is_growth, is_processors, processors_table
from headline import into_readme
from quality_report import (
    directions_table,
    is_by_direction,
    is_shapes,
    is_time_to_quality,
    quality_tables,
    shapes_table,
)
from recipe_report import USUAL_SIGNATURES, is_recipe, recipe_table
from serving_report import comparison, is_serving, serving_tables
from speed_report import is_comparison, is_operations, operations_table, tables

from dragoman.evaluation.scores import METRICS

ROOT = Path(__file__).resolve().parents[1]
HEAD = """# What was measured

Each section has the command that repeats it. `python benchmarks/report.py` writes this page from `benchmarks/results/`.
Unless stated otherwise, there was one run, with seed 1, and these hold:

- {machine}
{signatures}

Replace words in capitals by your own paths:

- DATA and MULTI30K: the raw text of Multi30k (github.com/multi30k/dataset, task 1: train, val and test_2016_flickr, .en
  and .de; .fr for English–French). For a recipe, DATA has the files that `dragoman download` fetches.
- FRA.TXT: Tatoeba's English–French text from ManyThings (`dragoman download tatoeba-en-fr` prints its address).
- TRAIN: any parallel text. MODEL: a model folder. OUT, WORK: a new folder.

`make bench DATA=FOLDER` installs the other toolkits and compares their speed with Dragoman's.
"""
CHAPTERS = {
    "Quality": {
        "recipe-multi30k-tiny-tok": "Recipe: Multi30k English–German, tokenised, Transformer-Tiny",
        "recipe-multi30k-tiny-tok-r-drop": "Recipe: Multi30k English–German, tokenised, Transformer-Tiny with R-Drop",
        "recipe-multi30k-en-de": "Recipe: Multi30k English–German, raw text",
        "recipe-multi30k-en-de-distilled": "Recipe: Multi30k English–German, raw text, taught by an ensemble",
        "recipe-multi30k-de-en": "Recipe: Multi30k German–English, raw text",
        "recipe-multi30k-en-fr": "Recipe: Multi30k English–French, raw text",
        "recipe-tatoeba-en-fr": "Recipe: Tatoeba English–French, raw text",
        "rehearsals": "Estimated time and memory of recipes",
        "multi30k-en-de-small": "Multi30k English–German, preset small, 15 minutes",
        "time-to-quality": "Time and quality of equally long runs, from raw text",
        "text-sizes": "How much text: Tatoeba English–French, 5,000 to 164,000 pairs",
        "ablation": "Settings for small texts: Multi30k English–German, validation text",
        "shapes-multi30k": "Small models: Multi30k English–German",
        "shapes-tatoeba": "Small models: Tatoeba English–French",
    },
    "More from less text": {
        "augmentation-5000": "Back-translation: 5,000 pairs of Tatoeba, and 120,000 sentences in French",
        "augmentation-20000": "Back-translation: 20,000 pairs of Tatoeba, and 120,000 sentences in the target language",
        "augmentation-60000": "Back-translation: 60,000 pairs of Tatoeba, and 75,000 sentences in French",
        "directions": "One model of several directions and a model for each: Multi30k",
        "ensembles-small": "An ensemble of three models: Multi30k English–German, preset small, 15 minutes each",
        "ensembles-fast": "An ensemble of two models: Multi30k English–German, preset fast, 3,000 steps",
        "distillation-small": "Distillation: three models of preset small teach preset fast, Multi30k English–German",
        "fine-tuning-en-fr": "Fine-tuning on 2,000 captions, English–French",
    },
    "Speed and memory": {
        "speed-training": "Training speed of Dragoman and other toolkits",
        "speed-training-avx512": "Training speed with AVX-512 bf16",
        "speed-training-avx2": "Training speed with AVX2",
        "gpu-training": "Training speed on one GPU",
        "operations": "Where the time of a training step goes",
        "speed-decoding": "Translation speed of Dragoman and other toolkits",
        "speed-decoding-avx512": "Translation speed with AVX-512 VNNI",
        "memory": "Memory for training",
        "preparation": "Preparing millions of sentence pairs",
        "growth": "Growth of cost with length and text size, and time to start",
        "processors": "Processors without AMX or AVX-512, emulated",
    },
    "What a model does and where it runs": {
        "placeholders": "Placeholders",
        "glossary": "A glossary",
        "alignments-en-de": "Word alignments from cross-attention, English–German",
        "alignments-en-fr": "Word alignments from cross-attention, English–French",
        "exports": "Exported models compared with Dragoman",
        "serve": "The HTTP server beside LibreTranslate",
    },
    "What can go wrong": {
        "doctor": "Checking parallel text",
        "fuzz": "Malformed texts, settings and model folders",
        "kills": "A run killed repeatedly, compared with an uninterrupted run",
    },
}
TABLES = (
    (is_time_to_quality, quality_tables),
    (is_by_direction, directions_table),
    (is_shapes, shapes_table),
    (is_ablation, ablation_table),
    (is_recipe, recipe_table),
    (is_exports, exports_tables),
    (is_growth, growth_tables),
    (is_processors, processors_table),
    (is_serving, serving_tables),
    (is_operations, operations_table),
    (is_comparison, tables),
)
USUAL_MACHINE, USUAL_SOFTWARE = "2 cores of Intel Xeon with AMX", "24 GiB, Python 3.11.7, torch 2.13.0+cpu"
_AS_THEY_ARE = ("test_2016_flickr", "d_model")


def rows(value: Any, name: str = "") -> Iterator[str]:
    """Yield nested results as table rows, each named by its path."""
    if isinstance(value, dict):
        for key, inner in value.items():
            own = key if any(name in key for name in _AS_THEY_ARE) else key.replace("_", " ")
            yield from rows(inner, f"{name}: {own}" if name else own)
    elif isinstance(value, list):
        yield f"| {name} | {'<br>'.join(map(_cell, value))} |"
    else:
        yield f"| {name} | {_cell(value)} |"


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.4g}" if isinstance(value, float) else str(value).replace("|", "\\|")


def in_words(machine: dict[str, Any]) -> str:
    """Return the result of describe_hardware as text, without the usual memory and software."""
    processor = machine["processor"].replace("(R)", "").replace(" Processor", "")
    instructions = machine.get("instructions", "AMX" if machine.get("amx") else "")
    gpu = f"one {machine['gpu']} with " if "gpu" in machine else ""
    words = f"{gpu}{machine['cores']} cores of {processor}{f' with {instructions}' if instructions else ''}"
    others = f"{machine['memory_gib']} GiB, Python {machine['python']}, torch {machine['torch']}"
    return words if others == USUAL_SOFTWARE else f"{words}, {others}"


def render() -> str:
    """Return the page."""
    signatures = "\n".join(f"- {METRICS[name]}: `{signature}`" for name, signature in USUAL_SIGNATURES.items())
    parts = [HEAD.format(machine=f"{USUAL_MACHINE}, {USUAL_SOFTWARE}", signatures=signatures)]
    for chapter, titles in CHAPTERS.items():
        parts.append(f"## {chapter}\n")
        for name, title in titles.items():
            path = ROOT / "benchmarks" / "results" / f"{name}.json"
            if path.is_file():
                parts.append(f"### {title}\n\n{section(json.loads(path.read_text(encoding='utf-8')))}\n")
    return "\n".join(parts)


def section(record: dict[str, Any]) -> str:
    """Return how a result was made, where, and its tables."""
    first, *others = record.get("commands") or [record["command"]]
    is_script = first.endswith("# runs:")  # which runs the others
    shown = [first.removesuffix("# runs:").rstrip()] if is_script else [first, *others]
    parts = ["```sh", *shown, "```", ""]
    if is_script:
        summary = f"<details markdown><summary>The {len(others)} commands that it runs</summary>"
        parts += [summary, "", "```sh", *others, "```", "", "</details>", ""]
    machines = record["hardware"] if isinstance(record["hardware"], list) else [record["hardware"]]
    where = "; and ".join(map(in_words, machines))
    parts += [f"On {where}.", ""] * (where != USUAL_MACHINE)
    plain = ["| | |", "|---|---|", *rows(record["result"])]
    return "\n".join([*parts, next((table(record) for fits, table in TABLES if fits(record)), "\n".join(plain))])


if __name__ == "__main__":
    (ROOT / "docs" / "results.md").write_text(render(), encoding="utf-8")
    readme = ROOT / "README.md"
    readme.write_text(into_readme(readme.read_text(encoding="utf-8")), encoding="utf-8")
    serving = ROOT / "benchmarks" / "results" / "serve.json"
    if serving.is_file():
        page, table = ROOT / "docs" / "serve.md", comparison(json.loads(serving.read_text(encoding="utf-8")))
        between = re.compile(r"(?<=<!-- serving -->\n).*?(?=<!-- end of serving -->)", re.DOTALL)
        page.write_text(between.sub(lambda _: f"\n{table}\n\n", page.read_text(encoding="utf-8")), encoding="utf-8")
