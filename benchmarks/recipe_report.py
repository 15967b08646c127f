"""The table of a recipe's runs, in Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dragoman.evaluation.scores import METRICS

Record = dict[str, Any]
USUAL_SIGNATURES = {
    "bleu": "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0",
    "chrf": "nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:2.6.0",
    "chrfpp": "nrefs:1|case:mixed|eff:yes|nc:6|nw:2|space:no|version:2.6.0",
}


def is_recipe(record: Record) -> bool:
    """Whether a results file is of a recipe."""
    return "recipe" in record


def recipe_table(record: Record) -> str:
    """Return a row for each run, after what all runs have in common."""
    result, recipe = record["result"], record["recipe"]
    first, names = result["runs"][0], list(result["scores"])
    search = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in first["search"].items())
    signatures = {name: first["scores"][f"{name}_signature"] for name in names}
    unusual = [f"{METRICS[name]} {own}" for name, own in signatures.items() if own != USUAL_SIGNATURES.get(name)]
    parts = [
        f"{first['training_pairs']:,} training pairs (SHA-256 {first['training_text_sha256'][:12]}…), trained in "
        f"{first['precision']}; {first['text']['name']}, {first['text']['lines']:,} lines; {search}."
        + (f" Signature: {'; '.join(unusual)}." if unusual else ""),
        "\n".join(_rows(result, names)),
    ]
    if recipe["published"]:
        parts.append(f"For comparison: {recipe['published']}.")
    return "\n\n".join(parts)


def _rows(result: Record, names: list[str]) -> Iterator[str]:
    head = ["seed", *(METRICS[name] for name in names), "kept", "steps", "minutes", "processor", "weights (SHA-256)"]
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for run in result["runs"]:
        scores, whole = [f"{run['scores'][name]:.2f}" for name in names], run["whole_run"]
        took = [run["kept"], f"{whole['steps']:,}", f"{whole['minutes']:.0f}", whole["on"], run["weights"][:12]]
        yield f"| {' | '.join([str(run['seed']), *scores, *took])} |"
    if len(result["runs"]) > 1:
        spread = [f"{one['mean']:.2f} ± {one['standard_deviation']:.2f}" for one in result["scores"].values()]
        yield f"| {' | '.join(['mean ± standard deviation', *spread, '', '', '', '', ''])} |"
