"""Evaluations as they can be quoted, with all that they depend on; and how two of them compare."""

from __future__ import annotations

import hashlib
import json
import re
import statistics
from collections.abc import Sequence
from dataclasses import asdict
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
)
from dragoman.cli.options import CompareConfig, EvaluateConfig
from dragoman.config import VERSION, DragomanError
from dragoman.evaluation.scores import METRICS, paired_bootstrap
from dragoman.inference.ctranslate2 import MODEL_FILE
from dragoman.runtime.console import table_cell
from dragoman.runtime.files import checksum, prepare_reports, write_atomically
from dragoman.text.corpus import Pair

_SEARCH = ("beam", "length_penalty", "max_length", "min_length", "long")
_FACTS = ("training pairs", TEXT_FACT, "seed", "precision", "kept", "steps", "minutes", RUN_FACT)
_ENGINE = re.compile(r", (\w+) [^ ,]+, (\w+)")
_VERSION = re.compile(r"\|version:[^|]*")  # of sacreBLEU, whose versions count alike


def describe_evaluation(
    config: EvaluateConfig,
    direction: Direction,
    pairs: Sequence[Pair],
    translations: Sequence[str],
    scores: dict[str, float | str],
    computing: str,
) -> dict[str, Any]:
    """What to keep of an evaluation; JSON values only.

    Args:
        config: what was asked for.
        direction: of the model, with what is known about it.
        pairs: the test text.
        translations: one for each pair.
        scores: as all_scores counts them.
        computing: what computed the translations (SearchEngine.computing).
    """
    lines = [
        {"source": source, "reference": target, "translation": translation}
        for (source, target), translation in zip(pairs, translations, strict=True)
    ]
    return {
        "scores": scores,
        "languages": [direction.source, direction.target],
        "text": {"name": ", ".join(config.test), "lines": len(pairs), "sha256": _fingerprint(pairs)},
        "weights": {"folder": config.folder, "sha256": _weights(Path(config.folder))},
        "settings": asdict(config),
        "software": f"dragoman {VERSION}, {computing}",
        "model": direction.facts,
        "lines": lines,
    }


def _fingerprint(pairs: Sequence[Pair]) -> str:
    return hashlib.sha256("".join(f"{source}\t{target}\n" for source, target in pairs).encode()).hexdigest()


def _weights(folder: Path) -> str:
    """SHA-256 of the weights; of a folder exported for CTranslate2, of the file that has them."""
    exported = folder / MODEL_FILE
    return checksum(exported) if exported.is_file() else fingerprint(folder / WEIGHTS_FILE)


def as_table(evaluation: dict[str, Any]) -> str:
    """An evaluation in Markdown."""
    scores, settings, text = (evaluation[name] for name in ("scores", "settings", "text"))
    rows = [
        (METRICS[name], f"{scores[name]:.2f}<br>{scores[f'{name}_signature']}") for name in METRICS if name in scores
    ]
    rows += [
        ("text", f"{text['name']}, {text['lines']:,} lines<br>SHA-256 {text['sha256'][:16]}"),
        ("model", f"{evaluation['weights']['folder']}<br>SHA-256 {evaluation['weights']['sha256'][:16]}"),
        ("search", ", ".join(f"{name.replace('_', ' ')} {settings[name]}" for name in _SEARCH)),
        ("software", evaluation["software"]),
    ]
    rows += [(name, evaluation["model"][name]) for name in _FACTS if name in evaluation["model"]]
    source, target = evaluation["languages"]
    lines = (f"| {name} | {table_cell(value)} |\n" for name, value in rows)
    return f"| {source} → {target} | |\n|---|---|\n" + "".join(lines)


def read_evaluation(path: str) -> dict[str, Any]:
    """What evaluate --json wrote.

    Raises:
        DragomanError: the file is not that.
    """
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
        texts = [line[name] for line in found["lines"] for name in ("source", "reference", "translation")]
        scores = {name: found["scores"][name] for name in METRICS if name in found["scores"]}
        numbers = list(scores.values())
        found["languages"][1] + "".join(found["scores"][f"{name}_signature"] for name in scores)
        "".join(
            [*texts, found["text"]["sha256"], found["weights"]["sha256"]]
        )  # what is of another kind raises, and so does what is missing
        float(sum(numbers)) / len(numbers) / len(texts)
        if not isinstance(found["model"].get(RUN_FACT, {}), dict):
            raise TypeError(RUN_FACT)
        return dict(found, tokenized=bool(found["settings"]["tokenized"]))
    except OSError as error:
        reason = "a folder; give the file that evaluate --json wrote" if Path(path).is_dir() else error.strerror
        raise DragomanError(f"{path}: {reason}") from None
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, ZeroDivisionError, RecursionError):
        raise DragomanError(f"{path}: not what evaluate --json writes; evaluate the model again") from None


def compare(config: CompareConfig) -> int:
    """Print a table of scores and differences; returns the exit code.

    Raises:
        DragomanError: a file is no evaluation, or they are of different texts.
    """
    prepare_reports({"--json": config.json}, map(Path, [*config.system, *config.baseline]))
    systems, baselines = ([read_evaluation(path) for path in paths] for paths in (config.system, config.baseline))
    paths, everything = [*config.system, *config.baseline], [*systems, *baselines]
    for path, evaluation in zip(paths[1:], everything[1:], strict=True):
        if _text(evaluation) != _text(everything[0]):
            raise DragomanError(f"{path}: of another text than {paths[0]}")
        if (own := _counting(evaluation)) != (others := _counting(everything[0])):
            raise DragomanError(f"{path}: scored in another way than {paths[0]} ({own}; {others})")
    for names, runs in ((config.system, systems), (config.baseline, baselines)):
        _require_one_system(names, runs)
    result = compare_runs(systems, baselines)
    if config.json:
        content = {
            "text": systems[0]["text"],
            "signatures": _counting(systems[0]),
            "system": [_of_a_run(*one) for one in zip(config.system, systems, strict=True)],
            "baseline": [_of_a_run(*one) for one in zip(config.baseline, baselines, strict=True)],
            "result": result,
        }
        write_atomically(Path(config.json), json.dumps(content, indent=1, ensure_ascii=False).encode())
    print(_comparison_table(result), end="")  # last: whoever reads it may be gone
    return 0


def _require_one_system(paths: Sequence[str], runs: Sequence[dict[str, Any]]) -> None:
    """Raise DragomanError unless these are different runs of the same system."""
    known: dict[str, str] = {}
    for path, run in zip(paths, runs, strict=True):
        if len(runs) > 1 and TEXT_FACT not in run["model"]:
            raise DragomanError(f"{path}: of a model of which nobody knows how it was trained: give it alone")
        if differing := differences_in_kind(runs[0], run):
            raise DragomanError(f"{path}: no other run of the system of {paths[0]}, as it differs in: {differing}")
        if (before := known.setdefault(run["weights"]["sha256"], path)) != path:
            raise DragomanError(f"{path}: of the same weights as {before}; each file is to be of a run of its own")


def differences_in_kind(first: dict[str, Any], second: dict[str, Any]) -> str:
    """What keeps two evaluations from being runs of one system, such as "search"; empty where nothing does."""
    kinds: list[dict[str, Any]] = []
    for one in (first, second):
        facts = one["model"]
        search = [one["settings"].get(name) for name in _SEARCH]
        kinds.append({"text": _text(one), "counting": _counting(one), "search": search, "engine": _engine(one)})
        kinds[-1]["training text"] = facts.get(TEXT_FACT)
        run = facts.get(RUN_FACT, {})
        kinds[-1] |= {"training settings": run.get(SETTINGS_FACT), "changes on the way": run.get(CHANGES_FACT)}
        kinds[-1]["validation text"] = run.get(VALID_FACT)
        kinds[-1]["number of checkpoints averaged"] = len(str(facts.get(AVERAGE_FACT, "")).split(", "))
    return ", ".join(name for name, kind in kinds[0].items() if kind != kinds[1][name])


def _engine(evaluation: dict[str, Any]) -> list[str]:
    """The library that computed the translations, and its precision; versions and devices count alike."""
    return _ENGINE.findall(str(evaluation.get("software")))


def _text(evaluation: dict[str, Any]) -> list[Any]:
    return [evaluation["languages"], [(line["source"], line["reference"]) for line in evaluation["lines"]]]


def _counting(evaluation: dict[str, Any]) -> str:
    """The metrics and how they are counted, but for sacreBLEU's version."""
    scores = evaluation["scores"]
    signatures = {METRICS[name]: _VERSION.sub("", scores[f"{name}_signature"]) for name in METRICS if name in scores}
    return ", ".join(f"{name} {signature}" for name, signature in signatures.items())


def _of_a_run(path: str, evaluation: dict[str, Any]) -> dict[str, Any]:
    return {"file": path} | {name: evaluation[name] for name in ("scores", "weights")}


def compare_runs(systems: Sequence[dict[str, Any]], baselines: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
    """Mean and spread of each metric over the runs of a system, and how it differs from a baseline.

    Args:
        systems: evaluations, as read_evaluation gives them.
        baselines: of another system, on the same text; as many, or none.

    Returns:
        By metric: mean and, of several runs, standard deviation of both; of each pair of runs, the p-value and half
        the width of the 95 % confidence interval of the system's score; and the signature of the resampling.
    """
    metrics = [name for name in METRICS if name in systems[0]["scores"]]
    found: dict[str, Any] = {name: {"system": spread(systems, name)} for name in metrics}
    references = [line["reference"] for line in systems[0]["lines"]]
    pairs = []
    for run, other in zip(systems, baselines, strict=bool(baselines)):
        before, after = ([line["translation"] for line in one["lines"]] for one in (other, run))
        pairs.append(paired_bootstrap(before, after, references, run["languages"][1], run["tokenized"]))
    for name in metrics if baselines else ():
        found[name] |= {"baseline": spread(baselines, name), "p": [pair[name].p for pair in pairs]}
        found[name] |= {"interval": [pair[name].interval for pair in pairs], "resampling": pairs[0][name].signature}
    return found


def spread(runs: Sequence[dict[str, Any]], metric: str) -> dict[str, float]:
    """Mean and, of several runs, standard deviation of a metric, with the number of runs."""
    values = [float(run["scores"][metric]) for run in runs]
    found = {"mean": statistics.fmean(values), "runs": len(values)}
    return found | ({"standard deviation": statistics.stdev(values)} if len(values) > 1 else {})


def _comparison_table(result: dict[str, Any]) -> str:
    """The result in Markdown."""
    compared = all("baseline" in one for one in result.values())
    more = ["difference", "p", "95 % interval of the system"] if compared else []
    head = ["metric", *(["baseline"] if compared else []), "system", *more]
    rows = [head, ["---"] * len(head)]
    for name, one in result.items():
        row = [METRICS[name]]
        if compared:
            row.append(spread_in_words(one["baseline"]))
        row.append(spread_in_words(one["system"]))
        if compared:
            row.append(f"{one['system']['mean'] - one['baseline']['mean']:+.2f}")
            row.append(", ".join(f"{p:.3f}" for p in one["p"]))
            row.append(", ".join(f"± {interval:.2f}" for interval in one["interval"]))
        rows.append(row)
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def spread_in_words(found: dict[str, float]) -> str:
    """Mean and, of several runs, standard deviation, as spread found them."""
    deviation = found.get("standard deviation")
    runs = "" if deviation is None else f" ± {deviation:.2f} (standard deviation of {found['runs']:.0f} runs)"
    return f"{found['mean']:.2f}{runs}"
