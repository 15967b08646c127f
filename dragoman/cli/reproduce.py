"""The verb `reproduce`: a recipe, from the text to a table of scores."""

from __future__ import annotations

import json
import shlex
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dragoman.checkpoint import RUN_FACT, WEIGHTS_FILE, fingerprint
from dragoman.cli.evaluate import evaluate
from dragoman.cli.main import VERBS
from dragoman.cli.options import EvaluateConfig, ReproduceConfig
from dragoman.cli.parsing import parse
from dragoman.cli.recipe import Recipe, within
from dragoman.config import ConfigError, DragomanError, TrainConfig
from dragoman.datasets.download import download
from dragoman.evaluation.report import as_table, compare_runs, differences_in_kind, read_evaluation, spread_in_words
from dragoman.evaluation.scores import METRICS
from dragoman.runtime.console import say, table_cell
from dragoman.runtime.device import choose_device
from dragoman.runtime.files import make_folder, write_atomically
from dragoman.train import dry_run_training, train
from dragoman.training.dry_run import DryRun, SyntheticText, dry_run


@dataclass(frozen=True)
class _Run:
    """What is done with one seed: the words of two commands, and what they mean."""

    training: list[str]
    scoring: list[str]
    to_train: TrainConfig
    to_score: EvaluateConfig


def _plan(recipe: Recipe, config: ReproduceConfig, settings: Path, folder: Path, seed: int) -> _Run:
    """The run of a seed; raises ConfigError where the recipe has an impossible setting."""
    training = ["--config", str(settings), "--out", str(folder), "--seed", str(seed), "--device", config.device]
    for name in ("restart", "accept_changes"):
        training += [f"--{name.replace('_', '-')}", "true"] if getattr(config, name) else []
    scoring = [str(folder), "--json", str(folder / "scores.json"), "--markdown", str(folder / "scores.md")]
    scoring += ["--device", config.device]
    for name, value in recipe.evaluate.items():
        option = f"--{name.replace('_', '-')}"
        texts = [option, *(within(config.data, text) for text in value)] if name == "test" else []
        scoring += texts or [f"{option}={str(value).lower() if isinstance(value, bool) else value}"]
    try:
        to_train, to_score = parse("train", VERBS["train"], training), parse("evaluate", VERBS["evaluate"], scoring)
    except ConfigError as error:
        raise ConfigError(f"{config.recipe}: {error}") from None
    return _Run(training, scoring, to_train, to_score)


def reproduce(config: ReproduceConfig) -> int:
    """Download, train with each seed, evaluate, and print the table; returns the exit code."""
    path = Path(config.recipe)
    recipe = Recipe.read(path)
    data = config.data or f"data/{recipe.download.replace(':', '-').replace('/', '-')}"
    config = replace(config, data=data, out=config.out or f"runs/{path.stem}")
    out, seeds = Path(config.out), [int(seed) for seed in config.seeds] or recipe.seeds
    say(recipe.about)
    if config.dry_run:
        print("\n".join(_dry_run(recipe, config, seeds[0]).lines()))
        if len(seeds) > 1:
            print(f"seeds: {', '.join(map(str, seeds))}: {len(seeds)} such runs, one after the other")
        return 0
    make_folder(out)
    settings = out / "train.yaml"
    write_atomically(settings, recipe.settings(data).encode())
    # All are planned before anything is fetched: a wrong setting is found now, not after days.
    runs = [_plan(recipe, config, settings, out / f"seed-{seed}", seed) for seed in seeds]
    if missing := recipe.missing(data):
        say(missing)
        say(f"$ dragoman download {recipe.download} --out {shlex.quote(data)}")
        download(recipe.download, Path(data))
    if strange := recipe.strange_files(data):
        say(f"warning: not the files that `dragoman download {recipe.download}` brings: {', '.join(strange)}")
    for run in runs:
        say(f"$ dragoman train {shlex.join(run.training)}")
        if code := train(run.to_train):
            return code
        say(f"$ dragoman evaluate {shlex.join(run.scoring)}")
        evaluate(run.to_score)
    _conclude(recipe, _of_one_system(read_evaluation(runs[-1].to_score.json), out), out)
    return 0


def _of_one_system(last: dict[str, Any], out: Path) -> list[dict[str, Any]]:
    """The runs in a folder that are of the same system as the last one, in the order of their seeds."""
    known: dict[int, dict[str, Any]] = {}
    for path in sorted(out.glob("seed-*/scores.json")):
        number = path.parent.name.removeprefix("seed-")
        if not number.isdecimal():
            continue
        try:
            found = read_evaluation(str(path))
            if differing := differences_in_kind(last, found):
                raise DragomanError(f"differs in: {differing}")
            if found["weights"]["sha256"] != fingerprint(path.parent / WEIGHTS_FILE):
                raise DragomanError("the model there is another by now")
            if (seed := found["model"].get("seed")) != int(number):
                raise DragomanError(f"the model there is of seed {seed}")
            known[int(number)] = found
        except DragomanError as error:
            say(f"{path.parent}: not in the table ({error})")
    return [known[seed] for seed in sorted(known)]


def _conclude(recipe: Recipe, evaluations: list[dict[str, Any]], out: Path) -> None:
    """Print and keep the table of all seeds."""
    scores = compare_runs(evaluations)
    rows = "".join(f"| {METRICS[name]} | {spread_in_words(one['system'])} |\n" for name, one in scores.items())
    rows += f"| published | {table_cell(recipe.published)} |\n" if recipe.published else ""
    table = f"| {table_cell(recipe.about)} | |\n|---|---|\n{rows}"
    write_atomically(out / "results.md", f"{table}\n{chr(10).join(map(as_table, evaluations))}".encode())
    kept = ("scores", "languages", "text", "weights", "settings", "software", "model")
    content = {
        "recipe": recipe.about,
        "published": recipe.published,
        "train": recipe.train,
        "evaluate": recipe.evaluate,
        "scores": {name: one["system"] for name, one in scores.items()},
        "minutes": [evaluation["model"].get(RUN_FACT, {}).get("minutes") for evaluation in evaluations],
        "runs": [{name: evaluation[name] for name in kept} for evaluation in evaluations],
    }
    write_atomically(out / "results.json", json.dumps(content, indent=1, ensure_ascii=False).encode())
    print(table, end="")
    say(f"all of it is in {out / 'results.md'} and {out / 'results.json'}")


def _dry_run(recipe: Recipe, config: ReproduceConfig, seed: int) -> DryRun:
    """What training would take, with the text or without."""
    missing = recipe.missing(config.data)
    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder, "train.yaml")
        settings.write_text(recipe.settings(config.data), encoding="utf-8")
        place = Path(config.out, f"seed-{seed}") if not missing else Path(folder)
        training = _plan(recipe, config, settings, place, seed).to_train
    if not missing:
        return dry_run_training(training)
    if not {"pairs", "length"} <= recipe.imagined.keys():
        raise DragomanError(f"{missing}; get the text first: dragoman download {recipe.download} --out {config.data}")
    pairs, length, words = int(recipe.imagined["pairs"]), recipe.imagined["length"], training.text.vocab_size
    say(f"{missing}; imagining {pairs:,} pairs of {length:g} subwords each")
    text = SyntheticText(pairs, length, training.text.max_length, words)
    shape = replace(training.model, source_vocab_size=words, target_vocab_size=words)
    return dry_run(training, shape, text, choose_device(config.device), say)
