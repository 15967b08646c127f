"""The tables that compare exported models with Dragoman, in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

Record = dict[str, Any]
_GRID, _TRAINED = "every kind of model", "trained model"


def is_exports(record: Record) -> bool:
    """Whether a results file compares exported models."""
    return _GRID in record["result"]


def exports_tables(record: Record) -> str:
    """Return all tables of a results file: of a trained model, and of all kinds of models."""
    result = record["result"]
    model = result["of the trained model"]
    engines, back = result["default search, PyTorch and CTranslate2"], result["to Hugging Face and back"]
    return "\n\n".join(
        [
            f"A trained model ({model['parameters']:,} parameters, {model['training_pairs']:,} pairs, "
            f"{model['steps']:,} steps, seed {model['seed']}; weights {model['weights'][:12]}), {result['test text']}. "
            f"Translations are compared by tokens, without a length penalty.",
            _table(_trained(result[_TRAINED])),
            f"With the default length penalty, PyTorch and CTranslate2 give the same translation for "
            f"{engines['equal lines']} lines; BLEU is {engines['BLEU'][0]:.2f} and {engines['BLEU'][1]:.2f}. After an "
            f"export to Hugging Face and an import, {back['equal lines']} lines are the same, and logits differ by at "
            f"most {back['largest difference of logits']:.1e}.",
            "Small models of every kind that a target supports: activation relu, gelu or swish; vocabularies joint or "
            "separate; embeddings and softmax tied or not. All passed: where translations differ, they had no end on "
            "both sides, or a tie decided."
            if all(cell["passed"] == cell["kinds"] for cells in result[_GRID].values() for cell in cells.values())
            else "Small models of every kind that a target supports; not all passed.",
            _table(_kinds(result[_GRID])),
        ]
    )


def _trained(found: Record) -> Iterable[Sequence[str]]:
    yield "", "library", "identical at beam 1", "identical at beam 4", "BLEU here, there", "largest difference"
    for name, row in found.items():
        difference = next(f"{value:.1e} of {key.rsplit(' ', 1)[-1]}" for key, value in row.items() if "largest" in key)
        here, there = row["BLEU at beam 4"]
        identical = (row[f"identical at beam {beam}"] for beam in (1, 4))
        yield name, row["library"], *identical, f"{here:.2f}, {there:.2f}", difference


def _kinds(grid: Record) -> Iterable[Sequence[str]]:
    yield "", "norm, positions", "kinds", "passed", "identical at beam 1", "at beam 4", "largest difference"
    for target, cells in grid.items():
        for kind, cell in cells.items():
            identical = (f"{cell[f'identical_at_beam_{beam}']} of {cell['sentences']}" for beam in (1, 4))
            difference = f"{cell['largest_difference']:.1e}"
            yield target, kind, str(cell["kinds"]), str(cell["passed"]), *identical, difference


def _table(rows: Iterable[Sequence[str]]) -> str:
    head, *others = rows
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *others])
