"""Evaluations that can be quoted, with everything their scores depend on, and the comparison of several of them."""

from __future__ import annotations

import hashlib
import json
import math
import re
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dragoman.checkpoint import (
    AVERAGE_FACT,
    CHANGES_FACT,
    RUN_FACT,
    SETTINGS_FACT,
    TEXT_FACT,
    VALID_FACT,
    WEIGHTS_FILE,
    Direction,
    fingerprint,
    with_plain_keys,
)
from dragoman.config import VERSION, DragomanError
from dragoman.evaluation.scores import METRICS, paired_bootstrap
from dragoman.inference.ctranslate2 import MODEL_FILE
from dragoman.runtime.console import table_cell
from dragoman.runtime.files import checksum
from dragoman.text.corpus import Pair

_SEARCH_SETTINGS = ("beam", "length_penalty", "max_length", "min_length", "long")
_FACTS_IN_TABLE = ("training_pairs", TEXT_FACT, "seed", "precision", "kept", "steps", "minutes", RUN_FACT)
_ENGINE = re.compile(r", (\w+) [^ ,]+, (\w+)")  # library and precision, without versions and devices
_SACREBLEU_VERSION = re.compile(r"\|version:[^|]*")


def describe_evaluation(
    settings: dict[str, Any],
    direction: Direction,
    pairs: Sequence[Pair],
    translations: Sequence[str],
    scores: dict[str, float | str],
    computing: str,
) -> dict[str, Any]:
    """Everything to keep of an evaluation, as JSON values.

    Args:
        settings: the options of `evaluate` by name, among them the model's folder and the texts ("test").
        direction: the languages of the model and the facts about it.
        pairs: the test text.
        translations: one for each pair.
        scores: as all_scores returns them.
        computing: the library, precision and device that translated (SearchEngine.computing).
    """
    folder = Path(settings["folder"])
    exported = folder / MODEL_FILE
    weights = checksum(exported) if exported.is_file() else fingerprint(folder / WEIGHTS_FILE)
    text = hashlib.sha256("".join(f"{source}\t{target}\n" for source, target in pairs).encode()).hexdigest()
    return {
        "scores": scores,
        "languages": [direction.source, direction.target],
        "text": {"name": ", ".join(settings["test"]), "lines": len(pairs), "sha256": text},
        "weights": {"folder": settings["folder"], "sha256": weights},
        "settings": settings,
        "software": f"dragoman {VERSION}, {computing}",
        "model": direction.facts,
        "lines": [
            {"source": source, "reference": reference, "translation": translation}
            for (source, reference), translation in zip(pairs, translations, strict=True)
        ],
    }


def as_table(evaluation: dict[str, Any]) -> str:
    """An evaluation in Markdown: the scores and everything they depend on."""
    scores, settings, text, weights = (evaluation[name] for name in ("scores", "settings", "text", "weights"))
    rows = [(METRICS[name], f"{scores[name]:.2f}<br>{scores[f'{name}_signature']}") for name in _metrics(evaluation)]
    rows += [
        ("text", f"{text['name']}, {text['lines']:,} lines<br>SHA-256 {text['sha256'][:16]}"),
        ("model", f"{weights['folder']}<br>SHA-256 {weights['sha256'][:16]}"),
        ("search", ", ".join(f"{name.replace('_', ' ')} {settings[name]}" for name in _SEARCH_SETTINGS)),
        ("software", evaluation["software"]),
    ]
    rows += [(name, evaluation["model"][name]) for name in _FACTS_IN_TABLE if name in evaluation["model"]]
    source, target = evaluation["languages"]
    lines = (f"| {name.replace('_', ' ')} | {table_cell(value)} |\n" for name, value in rows)
    return f"| {source} → {target} | |\n|---|---|\n" + "".join(lines)


def read_evaluation(path: str) -> dict[str, Any]:
    """What `evaluate --json` wrote, with "tokenized" added.

    Raises:
        DragomanError: the file cannot be read, or holds something else.
    """
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
        found |= {"model": with_plain_keys(found["model"]), "tokenized": bool(found["settings"]["tokenized"])}
        _require_evaluation(found)
        return dict(found)
    except OSError as error:
        reason = "a folder; give the file that evaluate --json wrote" if Path(path).is_dir() else error.strerror
        raise DragomanError(f"{path}: {reason}") from None
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, ArithmeticError, RecursionError):
        raise DragomanError(f"{path}: not what evaluate --json writes; evaluate the model again") from None


def _require_evaluation(found: Any) -> None:
    """Raise one of the errors that Python has for it unless this has all that a comparison reads."""
    scores, metrics = found["scores"], _metrics(found)
    strings = [found["languages"][1], found["text"]["sha256"], found["weights"]["sha256"]]
    strings += [scores[f"{name}_signature"] for name in metrics]
    strings += [line[name] for line in found["lines"] for name in ("source", "reference", "translation")]
    whole = all(math.isfinite(scores[name]) for name in metrics) and all(isinstance(text, str) for text in strings)
    if not (whole and metrics and found["lines"] and isinstance(found["model"].get(RUN_FACT, {}), dict)):
        raise ValueError


def compare_evaluations(systems: Sequence[str], baselines: Sequence[str]) -> dict[str, Any]:
    """Compare files that `evaluate --json` wrote, as JSON values; "result" is what compare_runs returns.

    Args:
        systems: a file for each run of the system.
        baselines: a file for each run of another system, as many; or none.

    Raises:
        DragomanError: a file is not an evaluation, they are of different texts or metrics, or of different systems.
    """
    paths = [*systems, *baselines]
    runs = [read_evaluation(path) for path in paths]
    for path, run in zip(paths, runs, strict=True):
        if _text(run) != _text(runs[0]):
            raise DragomanError(f"{path}: evaluated on another text than {paths[0]}")
        if _signatures(run) != _signatures(runs[0]):
            signatures = f"{_signatures(run)}; {_signatures(runs[0])}"
            raise DragomanError(f"{path}: scored in another way than {paths[0]} ({signatures})")
    count = len(systems)
    _require_one_system(systems, runs[:count])
    _require_one_system(baselines, runs[count:])
    kept = [
        {"file": path, "scores": run["scores"], "weights": run["weights"]}
        for path, run in zip(paths, runs, strict=True)
    ]
    return {
        "text": runs[0]["text"],
        "signatures": _signatures(runs[0]),
        "system": kept[:count],
        "baseline": kept[count:],
        "result": compare_runs(runs[:count], runs[count:]),
    }


def _require_one_system(paths: Sequence[str], runs: Sequence[dict[str, Any]]) -> None:
    """Raise DragomanError unless these are different runs of the same system."""
    known: dict[str, str] = {}
    for path, run in zip(paths, runs, strict=True):
        if len(runs) > 1 and TEXT_FACT not in run["model"]:
            raise DragomanError(
                f"{path}: its model does not say how it was trained; compare it alone, not as one of several"
            )
        if differing := differences_in_kind(runs[0], run):
            raise DragomanError(f"{path}: not another run of the system of {paths[0]}; they differ in: {differing}")
        if (before := known.setdefault(run["weights"]["sha256"], path)) != path:
            raise DragomanError(f"{path}: has the same weights as {before}; each file must come from a run of its own")


def differences_in_kind(first: dict[str, Any], second: dict[str, Any]) -> str:
    """What keeps two evaluations from being runs of one system, such as "search"; empty if nothing does."""
    one, other = _kind(first), _kind(second)
    return ", ".join(name for name in one if one[name] != other[name])


def _kind(evaluation: dict[str, Any]) -> dict[str, Any]:
    """Everything that is the same in all runs of one system."""
    facts = evaluation["model"]
    run = facts.get(RUN_FACT, {})
    return {
        "text": _text(evaluation),
        "counting": _signatures(evaluation),
        "search": [evaluation["settings"].get(name) for name in _SEARCH_SETTINGS],
        "engine": _ENGINE.findall(str(evaluation.get("software"))),
        "training text": facts.get(TEXT_FACT),
        "training settings": run.get(SETTINGS_FACT),
        "changes on the way": run.get(CHANGES_FACT),
        "validation text": run.get(VALID_FACT),
        "number of checkpoints averaged": len(str(facts.get(AVERAGE_FACT, "")).split(", ")),
    }


def _text(evaluation: dict[str, Any]) -> list[Any]:
    return [evaluation["languages"], [(line["source"], line["reference"]) for line in evaluation["lines"]]]


def _metrics(evaluation: dict[str, Any]) -> list[str]:
    return [name for name in METRICS if name in evaluation["scores"]]


def _signatures(evaluation: dict[str, Any]) -> str:
    """The metrics and how they are counted, without sacreBLEU's version."""
    scores = evaluation["scores"]
    return ", ".join(
        f"{METRICS[name]} {_SACREBLEU_VERSION.sub('', scores[f'{name}_signature'])}" for name in _metrics(evaluation)
    )


def compare_runs(systems: Sequence[dict[str, Any]], baselines: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
    """Mean and spread of each metric over the runs of a system, and its difference from a baseline.

    Args:
        systems: evaluations, as read_evaluation returns them.
        baselines: evaluations of another system on the same text; as many, or none.

    Returns:
        By metric: the spread of both; for each pair of runs, the p-value and half the width of the 95 % confidence
        interval of the system's score; and the signature of the resampling.
    """
    found: dict[str, Any] = {name: {"system": spread(systems, name)} for name in _metrics(systems[0])}
    references = [line["reference"] for line in systems[0]["lines"]]
    pairs = []
    for run, other in zip(systems, baselines, strict=bool(baselines)):
        before, after = ([line["translation"] for line in one["lines"]] for one in (other, run))
        pairs.append(paired_bootstrap(before, after, references, run["languages"][1], run["tokenized"]))
    for name, one in found.items() if baselines else ():
        one["baseline"] = spread(baselines, name)
        one["p"] = [pair[name].p for pair in pairs]
        one["interval"] = [pair[name].interval for pair in pairs]
        one["resampling"] = pairs[0][name].signature
    return found


def spread(runs: Sequence[dict[str, Any]], metric: str) -> dict[str, float]:
    """Mean of a metric, the number of runs and, of several, their standard deviation."""
    values = [float(run["scores"][metric]) for run in runs]
    found = {"mean": statistics.fmean(values), "runs": len(values)}
    return found | ({"standard_deviation": statistics.stdev(values)} if len(values) > 1 else {})


def spread_in_words(found: dict[str, float]) -> str:
    """Mean and, of several runs, standard deviation, as spread found them."""
    deviation = found.get("standard_deviation")
    runs = "" if deviation is None else f" ± {deviation:.2f} (standard deviation of {found['runs']:.0f} runs)"
    return f"{found['mean']:.2f}{runs}"


def comparison_table(result: dict[str, Any]) -> str:
    """What compare_runs returned, in Markdown."""
    compared = all("baseline" in one for one in result.values())
    rows = [
        ["metric", "baseline", "system", "difference", "p", "95 % interval of the system"]
        if compared
        else ["metric", "system"]
    ]
    rows.append(["---"] * len(rows[0]))
    for name, one in result.items():
        row = [METRICS[name], spread_in_words(one["system"])]
        if compared:
            row.insert(1, spread_in_words(one["baseline"]))
            row.append(f"{one['system']['mean'] - one['baseline']['mean']:+.2f}")
            row.append(", ".join(f"{p:.3f}" for p in one["p"]))
            row.append(", ".join(f"± {interval:.2f}" for interval in one["interval"]))
        rows.append(row)
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)
