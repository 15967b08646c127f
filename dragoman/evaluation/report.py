"""Evaluations that can be quoted, with everything their scores depend on, and the comparison of several of them."""

import hashlib
import json
import re
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dragoman.checkpoint import fingerprint
from dragoman.config import VERSION, DragomanError
from dragoman.evaluation.scores import METRICS, paired_bootstrap
from dragoman.folder import (
    AVERAGE_FACT,
    CHANGES_FACT,
    MODEL_FILE,
    RUN_FACT,
    SETTINGS_FACT,
    TEXT_FACT,
    VALID_FACT,
    WEIGHTS_FILE,
    Direction,
    with_plain_keys,
)
from dragoman.runtime.console import table_cell
from dragoman.runtime.files import checksum
from dragoman.text.corpus import Pair

_SEARCH_SETTINGS = ("beam", "length_penalty", "max_length", "min_length")
_FACTS_IN_TABLE = ("training_pairs", TEXT_FACT, "seed", "precision", "kept", "steps", "minutes", RUN_FACT)
_ENGINE = re.compile(r", (\w+) [^ ,]+, (\w+)")  # library and precision, without versions and devices
_KEPT = {"scores", "languages", "text", "weights", "settings", "model", "lines"}  # of every evaluation
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

    The settings are the options of `evaluate` by name; computing is the library, precision and device that translated.
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
    """What `evaluate --json` wrote. Raises DragomanError if the file cannot be read, or holds something else."""
    try:
        found: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise DragomanError(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError):
        found = {}
    if not isinstance(found, dict) or not found.keys() >= _KEPT:
        raise DragomanError(f"{path}: not what evaluate --json writes; evaluate the model again")
    return found | {"model": with_plain_keys(found["model"])}


def compare_evaluations(systems: Sequence[str], baselines: Sequence[str]) -> dict[str, Any]:
    """Compare files that `evaluate --json` wrote, one for each run of a system, as JSON values.

    Raises DragomanError if they are not evaluations of one text, by one metric, of one system and one baseline.
    """
    paths, count = [*systems, *baselines], len(systems)
    runs = [read_evaluation(path) for path in paths]
    named = list(zip(paths, runs, strict=True))
    for path, run in named:
        if _text(run) != _text(runs[0]):
            raise DragomanError(f"{path}: evaluated on another text than {paths[0]}")
        if _signatures(run) != _signatures(runs[0]):
            raise DragomanError(f"{path}: scored in another way than {paths[0]}")
    _require_one_system(systems, runs[:count])
    _require_one_system(baselines, runs[count:])
    kept = [{"file": path, "scores": run["scores"], "weights": run["weights"]} for path, run in named]
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
            raise DragomanError(f"{path}: its model does not say how it was trained; compare it alone")
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
    """Compare the evaluations of a system's runs with those of as many runs of a baseline on the same text, or none.

    Returns:
        By metric: the spread of both; for each pair of runs, the p-value and half the width of the 95 % confidence
        interval of the system's score; and the signature of the resampling.
    """
    found: dict[str, Any] = {name: {"system": spread(systems, name)} for name in _metrics(systems[0])}
    if not baselines:
        return found
    pairs = []
    for run, other in zip(systems, baselines, strict=True):
        before, after = ([line["translation"] for line in one["lines"]] for one in (other, run))
        references, tokenized = [line["reference"] for line in run["lines"]], run["settings"]["tokenized"]
        pairs.append(paired_bootstrap(before, after, references, run["languages"][1], tokenized))
    for name, one in found.items():
        one["baseline"] = spread(baselines, name)
        one["p"] = [pair[name]["p"] for pair in pairs]
        one["interval"] = [pair[name]["interval"] for pair in pairs]
        one["resampling"] = pairs[0][name]["resampling"]
    return found


def spread(runs: Sequence[dict[str, Any]], metric: str) -> dict[str, float]:
    """Mean of a metric, the number of runs and, of several, their standard deviation."""
    values = [float(run["scores"][metric]) for run in runs]
    found = {"mean": statistics.fmean(values), "runs": len(values)}
    return found | ({"standard_deviation": statistics.stdev(values)} if len(values) > 1 else {})


def spread_in_words(found: dict[str, float]) -> str:
    """Mean and, of several runs, standard deviation, as spread found them."""
    mean = f"{found['mean']:.2f}"
    if found["runs"] == 1:
        return mean
    return f"{mean} ± {found['standard_deviation']:.2f} (standard deviation of {found['runs']} runs)"


def comparison_table(result: dict[str, Any]) -> str:
    """What compare_runs returned, in Markdown."""
    rows = [["metric", "system"], ["---", "---"]]
    for name, one in result.items():
        system = spread_in_words(one["system"])
        if "baseline" not in one:
            rows.append([METRICS[name], system])
            continue
        rows[0] = ["metric", "baseline", "system", "difference", "p", "95 % interval of the system"]
        rows[1] = ["---"] * len(rows[0])
        difference = f"{one['system']['mean'] - one['baseline']['mean']:+.2f}"
        p, interval = ", ".join(map("{:.3f}".format, one["p"])), ", ".join(map("± {:.2f}".format, one["interval"]))
        rows.append([METRICS[name], spread_in_words(one["baseline"]), system, difference, p, interval])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)
