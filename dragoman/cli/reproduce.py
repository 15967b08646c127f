"""The verb `reproduce`: follows a recipe, one YAML file, from the text to a table of scores."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dragoman.checkpoint import fingerprint
from dragoman.cli.evaluate import evaluate
from dragoman.cli.main import VERBS
from dragoman.cli.options import ReproduceConfig
from dragoman.cli.parsing import parse, read_yaml
from dragoman.config import ConfigError, DragomanError, Settings, TrainConfig
from dragoman.datasets.download import download
from dragoman.evaluation.report import as_table, compare_runs, differences_in_kind, read_evaluation, spread_in_words
from dragoman.evaluation.scores import METRICS
from dragoman.folder import RUN_FACT, WEIGHTS_FILE
from dragoman.runtime.console import command, say, table_cell
from dragoman.runtime.device import choose_device
from dragoman.runtime.files import refuse_to_overwrite, write_atomically
from dragoman.text.corpus import locate_all
from dragoman.train import dry_run_training, train
from dragoman.training.dry_run import SyntheticText, dry_run

_WRITTEN = ("results.md", "results.json")


@dataclass(frozen=True, kw_only=True)
class Recipe(Settings):
    """What a recipe's file says."""

    about: str
    """One line for people."""
    download: str
    """The text, as the verb download calls it."""
    train: dict[str, Any]
    """Settings of train, as in its files; texts are below the folder of the data."""
    evaluate: dict[str, Any]
    """Options of evaluate; texts as in train."""
    seeds: list[int] = field(default_factory=lambda: [1])
    """Train once with each of these."""
    published: str = ""
    """What there is to compare the result with, and where it is from."""
    imagined: dict[str, float] = field(default_factory=dict)
    """Pairs and mean length of the text, for a dry run without it."""


Call = tuple[str, Any]
"""The call of a verb: the command for people to copy, and what the verb makes of it."""


def read_recipe(path: Path) -> Recipe:
    """Read a recipe; raises DragomanError for what is none."""
    try:
        return Recipe(**read_yaml(path))
    except (ConfigError, TypeError) as error:
        hint = "see those in recipes/ of Dragoman's source repository"
        raise DragomanError(f"{path}: not a recipe ({error}); {hint}") from None


def reproduce(config: ReproduceConfig) -> int:
    """Download, train with each seed, evaluate, and print the table; returns the exit code."""
    path = Path(config.recipe)
    recipe = read_recipe(path)
    data = config.data or f"data/{recipe.download.replace(':', '-').replace('/', '-')}"
    out, seeds = Path(config.out or f"runs/{path.stem}"), config.seeds or recipe.seeds
    config = replace(config, data=data, out=str(out), seeds=seeds)  # refuses impossible seeds
    say(recipe.about)
    # All are planned before anything is fetched: a wrong setting is found now, not after days.
    plans = [_plan(recipe, config, out / f"seed-{seed}", seed) for seed in seeds]
    (_, training), (_, scoring) = plans[0]
    missing = _missing(training, scoring.test)
    if config.dry_run:
        print("\n".join(_dry_run(recipe, training, missing)))
        if len(seeds) > 1:
            print(f"seeds: {', '.join(map(str, seeds))}: {len(seeds)} such runs, one after the other")
        return 0
    refuse_to_overwrite(out, _WRITTEN if any(out.glob("seed-*")) else (), _WRITTEN)
    if missing:
        say(f"{missing}\n$ {command('download', recipe.download, '--out', data)}")
        download(recipe.download, Path(data))
    for (train_command, training), (evaluate_command, scoring) in plans:
        say(f"$ {train_command}")
        if code := train(training):
            return code
        say(f"$ {evaluate_command}")
        evaluate(scoring)
    _conclude(recipe, _of_one_system(read_evaluation(str(out / f"seed-{seeds[-1]}" / "scores.json")), out), out)
    return 0


def _plan(recipe: Recipe, config: ReproduceConfig, folder: Path, seed: int) -> tuple[Call, Call]:
    """The calls of train and evaluate for a seed; raises ConfigError where the recipe has an impossible setting."""
    training = ["--out", str(folder), "--seed", str(seed), "--device", config.device]
    training += ["--restart"] * config.restart + ["--accept-changes"] * config.accept_changes
    scoring = [str(folder), "--json", str(folder / "scores.json"), "--markdown", str(folder / "scores.md")]
    scoring += ["--device", config.device]
    training = _options(recipe.train, config.data) + training
    scoring += _options(recipe.evaluate, config.data)
    try:
        first, second = (
            (command(verb, *words), parse(verb, VERBS[verb], words))
            for verb, words in (("train", training), ("evaluate", scoring))
        )
    except ConfigError as error:
        raise ConfigError(f"{config.recipe}: {error}") from None
    return first, second


def _options(settings: Mapping[str, Any], data: str, group: str = "") -> list[str]:
    """Settings as words of the command line; lists are of texts, which are in the folder of the data."""
    words = list[str]()
    for name, value in settings.items():
        if isinstance(value, Mapping):
            words += _options(value, data, f"{group}{name}.")
        elif isinstance(value, list):
            texts = [",".join(str(Path(data, part)) for part in str(text).split(",")) for text in value]
            words += [f"--{group}{name}", *texts]
        else:
            words.append(f"--{group}{name}={value}")
    return words


def _missing(run: TrainConfig, tests: Sequence[str]) -> str:
    """What the disk lacks of the texts; empty if it has all."""
    try:
        locate_all([*run.train, *run.valid, *run.test, *tests], run.source, run.target)
    except DragomanError as error:
        return str(error)
    return ""


def _dry_run(recipe: Recipe, training: TrainConfig, missing: str) -> list[str]:
    """What training would take, with the text or, if it is missing, with one of the size that the recipe imagines."""
    if not missing:
        return dry_run_training(training)
    if not {"pairs", "length"} <= recipe.imagined.keys():
        raise DragomanError(f"{missing}; get the text first: {command('download', recipe.download)}")
    pairs, length, words = int(recipe.imagined["pairs"]), recipe.imagined["length"], training.text.vocab_size
    say(f"{missing}; imagining {pairs:,} pairs of {length:g} subwords each")
    text = SyntheticText(pairs, length, training.text.max_length, words)
    shape = replace(training.model, source_vocab_size=words, target_vocab_size=words)
    return dry_run(training, shape, text, choose_device(training.device), say)


# ---- the table


def _of_one_system(last: dict[str, Any], out: Path) -> list[dict[str, Any]]:
    """The runs in a folder that are of the same system as the last one, in the order of their seeds."""
    folders = {path.parent.name.removeprefix("seed-"): path.parent for path in out.glob("seed-*/scores.json")}
    evaluations = []
    for seed in sorted(filter(str.isdecimal, folders), key=int):
        try:
            found = read_evaluation(str(folders[seed] / "scores.json"))
            if differing := differences_in_kind(last, found):
                raise DragomanError(f"differs in: {differing}")
            if found["weights"]["sha256"] != fingerprint(folders[seed] / WEIGHTS_FILE):
                raise DragomanError("the model there is another by now")
            evaluations.append(found)
        except DragomanError as error:
            say(f"{folders[seed]}: not in the table ({error})")
    return evaluations


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
    say(f"all results are in {out / 'results.md'} and {out / 'results.json'}")
