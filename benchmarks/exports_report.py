"""The tables of exported models beside Dragoman, in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

Record = dict[str, Any]
_GRID, _TRAINED = "every kind of model", "trained model"


def is_exports(record: Record) -> bool:
    """Whether a results file holds them."""
    return _GRID in record["result"]


def exports_tables(record: Record) -> str:
    """All tables of a results file: a trained model, and the kinds of models."""
    result = record["result"]
    model = result["of the trained model"]
    engines, back = result["default search, PyTorch and CTranslate2"], result["to Hugging Face and back"]
    return "\n\n".join(
        [
            f"A trained model ({model['parameters']:,} parameters, {model['training_pairs']:,} pairs, "
            f"{model['steps']:,} steps, seed {model['seed']}; weights {model['weights'][:12]}), {result['test text']}; "
            f"without a length penalty, tokens are compared.",
            _table(_trained(result[_TRAINED])),
            f"With the default search and its length penalty, PyTorch and CTranslate2 translate "
            f"{engines['equal lines']} lines alike; BLEU {engines['BLEU'][0]:.2f} and {engines['BLEU'][1]:.2f}. To "
            f"Hugging Face and back: {back['equal lines']} lines alike, logits within "
            f"{back['largest difference of logits']:.1e}.",
            "Small models of every kind that a target takes: activation relu, gelu and swish; vocabularies joint or "
            "separate; embeddings and softmax tied or not. All passed: the translations that are not identical "
            "had no end on either side, or were decided by a tie."
            if all(cell["passed"] == cell["kinds"] for cells in result[_GRID].values() for cell in cells.values())
            else "Small models of every kind that a target takes; not all passed.",
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
