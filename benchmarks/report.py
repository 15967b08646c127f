"""Write docs/results.md, and the README's figures, from what benchmarks/results holds; `make docs` calls it.

python benchmarks/report.py
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ablation import ablation_table, is_ablation
from exports_report import exports_tables, is_exports
from growth_report import growth_tables, is_growth, is_processors, processors_table
from headline import into_readme
from quality_report import is_time_to_quality, quality_tables
from recipe_report import is_recipe, recipe_table
from speed_report import is_comparison, tables

ROOT = Path(__file__).resolve().parents[1]
HEAD = """# What was measured

Written by `python benchmarks/report.py` from `benchmarks/results/`. Each section names the command that measures it
again. `make bench DATA=FOLDER` sets up the other toolkits, compares their speed with Dragoman's and writes this page;
FOLDER has Multi30k's raw text (github.com/multi30k/dataset, task 1: train, val and test_2016_flickr, .en and .de).
Where no seed is named, it is 1, as it is for every translator that does not choose one; where no number of runs is, it
was one.

Words in capitals stand for places of yours: DATA and MULTI30K have that text, too (for another pair of languages with
.fr, and for a recipe what `dragoman download` brings for it); FRA.TXT is Tatoeba's English–French text as ManyThings
ships it (`dragoman download tatoeba-en-fr` names its address), TRAIN any parallel text, MODEL a model folder, OUT a
new one.
"""
TITLES = {
    "speed-training": "Training, side by side with other toolkits",
    "speed-decoding": "Translating, side by side with other toolkits",
    "time-to-quality": "Minutes from raw text to the end of equally long runs, and their quality, side by side",
    "ablation": "What helps with little text: Multi30k English–German, judged on the validation text",
    "recipe-multi30k-tiny-tok": "Recipe: Multi30k English–German, tokenised, Transformer-Tiny",
    "recipe-multi30k-tiny-tok-r-drop": "Recipe: Multi30k English–German, tokenised, Transformer-Tiny with R-Drop",
    "recipe-multi30k-en-de": "Recipe: Multi30k English–German, raw text",
    "recipe-multi30k-de-en": "Recipe: Multi30k German–English, raw text",
    "recipe-multi30k-en-fr": "Recipe: Multi30k English–French, raw text",
    "recipe-tatoeba-en-fr": "Recipe: Tatoeba English–French, raw text",
    "rehearsals": "The paper's recipes, rehearsed: what they would take on this machine",
    "multi30k-en-de-small": "Multi30k English–German, preset small, a quarter of an hour",
    "tatoeba-en-fr-small": "Tatoeba English–French, preset small",
    "alignments-en-de": "Word alignments from cross-attention, English–German",
    "alignments-en-fr": "Word alignments from cross-attention, English–French",
    "long-lines": "Long lines: a paragraph of forty sentences, translated in four ways",
    "fine-tuning-en-fr": "Fine-tuning an everyday translator on 2,000 captions, English–French",
    "kills": "A run that is killed again and again, against one that nobody touched",
    "fuzz": "Malformed texts, settings and model folders",
    "doctor": "Examining parallel text",
    "memory": "Memory of training the base model",
    "preparation": "Preparing two million sentence pairs",
    "growth": "How cost grows: with the length, with the size of the text, and at the start",
    "exports": "Exported models, beside Dragoman",
    "processors": "Processors without AMX or AVX-512, imitated by limiting what this one may use",
}
TABLES = (
    (is_time_to_quality, quality_tables),
    (is_ablation, ablation_table),
    (is_recipe, recipe_table),
    (is_exports, exports_tables),
    (is_growth, growth_tables),
    (is_processors, processors_table),
    (is_comparison, tables),
)
_AS_THEY_ARE = ("test_2016_flickr", "d_model")


def rows(value: Any, name: str = "") -> Iterator[str]:
    """Nested results as table rows, named by the path to each."""
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
    """What describe_hardware found."""
    return (
        f"{machine['cores']} cores of {machine['processor']}{' with AMX' if machine['amx'] else ''}, "
        f"{machine['memory_gib']} GiB, Python {machine['python']}, torch {machine['torch']}"
    )


def render() -> str:
    """The page."""
    parts = [HEAD]
    for name, title in TITLES.items():
        path = ROOT / "benchmarks" / "results" / f"{name}.json"
        if not path.is_file():
            continue
        record = json.loads(path.read_text(encoding="utf-8"))
        commands = "\n".join(record.get("commands") or [record["command"]])
        machines = record["hardware"] if isinstance(record["hardware"], list) else [record["hardware"]]
        where = "; and ".join(map(in_words, machines))
        plain = ["| | |", "|---|---|", *rows(record["result"])]
        table = next((table(record) for fits, table in TABLES if fits(record)), "\n".join(plain))
        parts.append(f"## {title}\n\n```sh\n{commands}\n```\n\nOn {where}.\n\n{table}\n")
    return "\n".join(parts)


if __name__ == "__main__":
    (ROOT / "docs" / "results.md").write_text(render(), encoding="utf-8")
    readme = ROOT / "README.md"
    readme.write_text(into_readme(readme.read_text(encoding="utf-8")), encoding="utf-8")
