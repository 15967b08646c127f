"""The verb `reproduce`: follows a recipe, one YAML file, from the text to a table of scores."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from dragoman.checkpoint import fingerprint
from dragoman.cli.main import VERBS, call
from dragoman.cli.options import ReproduceConfig
from dragoman.cli.parsing import parse, read_yaml
from dragoman.config import ConfigError, DragomanError, Settings, TrainConfig, require
from dragoman.datasets.download import download
from dragoman.evaluation.report import as_table, compare_runs, differences_in_kind, read_evaluation, spread_in_words
from dragoman.evaluation.scores import METRICS
from dragoman.folder import WEIGHTS_FILE
from dragoman.runtime.console import command, say, table_cell
from dragoman.runtime.device import choose_device
from dragoman.runtime.files import refuse_to_overwrite, write_atomically, write_json
from dragoman.text.corpus import locate_all
from dragoman.train import dry_run_training
from dragoman.training.dry_run import SyntheticText, dry_run

_FIRST = ("train", "augment")  # what can come before; both continue where they were interrupted
_WRITTEN = ("results.md", "results.json")


@dataclass(frozen=True, kw_only=True)
class Recipe(Settings):
    """What a recipe's file says."""

    about: str
    """One line for people."""
    download: str = ""
    """The text, as the verb download calls it; none if it is there."""
    train: dict[str, Any]
    """Settings of train, as in its files; texts are below the folder of the data."""
    evaluate: dict[str, Any]
    """Options of evaluate; texts as in train."""
    before: list[dict[str, Any]] = field(default_factory=list)
    """What to do first, and once: a verb and its options each, such as augment. OUT/NAME is below the folder of runs,
    here and in train."""
    seeds: list[int] = field(default_factory=lambda: [1])
    """Train once with each of these."""
    published: str = ""
    """What there is to compare the result with, and where it is from."""
    imagined: dict[str, float] = field(default_factory=dict)
    """Pairs and mean length of the text, for a dry run without it."""


class Call(NamedTuple):
    """The call of a verb."""

    verb: str
    words: list[str]
    config: Any
    """What the verb makes of the words."""

    def __call__(self) -> int:
        """Show the command, for people to copy, and run it; returns the exit code."""
        say(f"$ {command(self.verb, *self.words)}")
        return call(self.verb, self.config)


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
    first = _plan_before(recipe, config)
    plans = [_plan(recipe, config, out / f"seed-{seed}", seed) for seed in seeds]
    training, scoring = (one.config for one in plans[0])
    texts = [*training.train, *training.valid, *training.test, *scoring.test]
    missing = _missing([text for text in texts if not text.startswith(f"{out}{os.sep}")], training)
    require(bool(recipe.download) or not missing, missing)
    if config.dry_run:
        print("\n".join(_dry_run(recipe, training, _missing(texts, training))))
        if first:
            print(f"before it: {', '.join(one.verb for one in first)}")
        if len(seeds) > 1:
            print(f"seeds: {', '.join(map(str, seeds))}: {len(seeds)} such runs, one after the other")
        return 0
    refuse_to_overwrite(out, _WRITTEN if any(out.glob("seed-*")) else (), _WRITTEN)
    if missing:
        say(f"{missing}\n$ {command('download', recipe.download, '--out', data)}")
        download(recipe.download, Path(data))
    for planned in [*first, *chain.from_iterable(plans)]:
        if code := planned():
            return code
    _conclude(recipe, _of_one_system(read_evaluation(str(out / f"seed-{seeds[-1]}" / "scores.json")), out), out)
    return 0


def _plan_before(recipe: Recipe, config: ReproduceConfig) -> list[Call]:
    """The calls of what comes first; errors as for _plan."""
    calls = []
    for step in recipe.before:
        for verb, options in step.items():
            require(verb in _FIRST and isinstance(options, Mapping), f"{config.recipe}: before has no step {verb!r}")
            places = [_place(options[name], config) for name in VERBS[verb].positionals if name in options]
            others = {name: value for name, value in options.items() if name not in VERBS[verb].positionals}
            changing = _when_changed(config) if verb == "train" else []
            words = places + _options(others, config) + ["--device", config.device] + changing
            calls.append(_call(verb, words, config))
    return calls


def _plan(recipe: Recipe, config: ReproduceConfig, folder: Path, seed: int) -> tuple[Call, Call]:
    """The calls of train and evaluate for a seed; raises ConfigError where the recipe has an impossible setting."""
    device, own = ["--device", config.device], ["--out", str(folder), "--seed", str(seed), *_when_changed(config)]
    files = ["--json", str(folder / "scores.json"), "--markdown", str(folder / "scores.md")]
    training = _call("train", [*_options(recipe.train, config), *own, *device], config)
    return training, _call("evaluate", [str(folder), *files, *device, *_options(recipe.evaluate, config)], config)


def _when_changed(config: ReproduceConfig) -> list[str]:
    return ["--restart"] * config.restart + ["--accept-changes"] * config.accept_changes


def _call(verb: str, words: list[str], config: ReproduceConfig) -> Call:
    try:
        return Call(verb, words, parse(verb, VERBS[verb], words))
    except ConfigError as error:
        raise ConfigError(f"{config.recipe}: {error}") from None


def _options(settings: Mapping[str, Any], config: ReproduceConfig, group: str = "") -> list[str]:
    """Settings as words of the command line; lists, but those of numbers, are of texts, in the folder of the data."""
    words = list[str]()
    for name, value in settings.items():
        if isinstance(value, Mapping):
            words += _options(value, config, f"{group}{name}.")
        elif isinstance(value, list):
            places = (",".join(_place(part, config, config.data) for part in str(item).split(",")) for item in value)
            is_numbers = all(isinstance(item, int | float) for item in value)
            words += [f"--{group}{name}", *(map(str, value) if is_numbers else places)]
        else:
            words.append(f"--{group}{name}={_place(value, config)}")
    return words


def _place(value: Any, config: ReproduceConfig, folder: str = "") -> str:
    """A setting as a word: OUT/NAME in the folder of the runs, others in this folder, if they are paths."""
    text = str(value)
    if text.startswith("OUT/"):
        return str(Path(config.out, text.removeprefix("OUT/")))
    return str(Path(folder, text)) if folder else text


def _missing(texts: Sequence[str], run: TrainConfig) -> str:
    """What the disk lacks of the texts of a run; empty if it has all."""
    try:
        locate_all(texts, run.source, run.target)
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
        "runs": [{name: evaluation[name] for name in kept} for evaluation in evaluations],
    }
    write_json(out / "results.json", content)
    print(table, end="")
    say(f"all results are in {out / 'results.md'} and {out / 'results.json'}")
