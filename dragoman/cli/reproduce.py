"""The verb `reproduce`: follows a recipe, one YAML file, from the text to a table of scores."""

from __future__ import annotations

import json
import shlex
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import yaml

from dragoman.checkpoint import RUN_FACT, WEIGHTS_FILE, fingerprint
from dragoman.cli.evaluate import evaluate
from dragoman.cli.main import VERBS
from dragoman.cli.options import ReproduceConfig
from dragoman.cli.parsing import parse, read_settings
from dragoman.config import ConfigError, DragomanError, require
from dragoman.datasets.download import download
from dragoman.evaluation.report import as_table, compare_runs, differences_in_kind, read_evaluation, spread_in_words
from dragoman.evaluation.scores import METRICS
from dragoman.runtime.console import say, table_cell
from dragoman.runtime.device import choose_device
from dragoman.runtime.files import make_folder, refuse_to_overwrite, write_atomically
from dragoman.text.corpus import locate
from dragoman.train import dry_run_training, train
from dragoman.training.dry_run import SyntheticText, dry_run

_RESERVED = {
    "train": ("out", "seed", "restart", "accept_changes", "dry_run", "device"),
    "evaluate": ("folder", "json", "markdown", "device"),
}
"""Settings that the verb chooses itself."""
_WRITTEN = ("train.yaml", "results.md", "results.json")


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What a recipe's file says."""

    about: str
    """One line for people."""
    download: str
    """The text, as the verb download calls it."""
    train: dict[str, Any]
    """Settings, as --config takes them; texts are below the folder of the data."""
    evaluate: dict[str, Any]
    """Options of evaluate; texts as in train."""
    seeds: list[int] = field(default_factory=lambda: [1])
    """Train once with each of these."""
    published: str = ""
    """What there is to compare the result with, and where it is from."""
    imagined: dict[str, float] = field(default_factory=dict)
    """Pairs and mean length of the text, for a dry run without it."""

    def __post_init__(self) -> None:
        """Refuse what is no recipe; train and evaluate are parsed later, their texts are used before."""
        ReproduceConfig(recipe="", seeds=self.seeds)  # refuses impossible seeds
        for name, texts in self._texts().items():
            is_list = isinstance(texts, list) and bool(texts) and all(isinstance(text, str) for text in texts)
            require(is_list, f"{name} must be a list of texts, such as [val]")
        for name in ("source", "target"):
            require(isinstance(self.train.get(name), str), f"train.{name} must be a language code")
        for group, settings in (("train", self.train), ("evaluate", self.evaluate)):
            for name in settings:
                chosen = str(name).replace("-", "_") in _RESERVED[group]
                require(not chosen, f"{group}.{name} is chosen by reproduce: leave it out")
        sizes = not self.imagined or {*self.imagined} == {"pairs", "length"}
        require(sizes, "imagined must have pairs and length")

    def _texts(self) -> dict[str, Any]:
        needed = {"train.train": self.train.get("train"), "evaluate.test": self.evaluate.get("test")}
        return needed | {f"train.{name}": self.train[name] for name in ("valid", "test") if name in self.train}

    def missing(self, data: str) -> str:
        """What a folder lacks of the texts; empty if it has all."""
        try:
            for text in [text for texts in self._texts().values() for text in _within(data, texts)]:
                locate(text, self.train["source"], self.train["target"])
        except DragomanError as error:
            return str(error)
        return ""

    def settings(self, data: str) -> str:
        """The settings of training as a file for --config."""
        texts = {name: _within(data, self.train[name]) for name in ("train", "valid", "test") if name in self.train}
        return yaml.safe_dump(self.train | texts, sort_keys=False, allow_unicode=True)


def read_recipe(path: Path) -> Recipe:
    """Read a recipe; raises DragomanError for what is none."""
    try:
        return cast(Recipe, read_settings(Recipe, path))
    except ConfigError as error:
        hint = "see those in recipes/ of Dragoman's source repository"
        raise DragomanError(f"{path}: not a recipe ({error}); {hint}") from None


def _within(data: str, texts: list[str]) -> list[str]:
    """Texts in the folder of the data, each a prefix or a file for each language with a comma between."""
    return [",".join(str(Path(data, part)) for part in text.split(",")) for text in texts]


# ---- the runs


def reproduce(config: ReproduceConfig) -> int:
    """Download, train with each seed, evaluate, and print the table; returns the exit code."""
    path = Path(config.recipe)
    recipe = read_recipe(path)
    data = config.data or f"data/{recipe.download.replace(':', '-').replace('/', '-')}"
    seeds = config.seeds or recipe.seeds
    config = replace(config, data=data, out=config.out or f"runs/{path.stem}", seeds=seeds)
    say(recipe.about)
    if config.dry_run:
        print("\n".join(_dry_run(recipe, config)))
        if len(seeds) > 1:
            print(f"seeds: {', '.join(map(str, seeds))}: {len(seeds)} such runs, one after the other")
        return 0
    out, folders = Path(config.out), [Path(config.out, f"seed-{seed}") for seed in seeds]
    refuse_to_overwrite(out, _WRITTEN if any(out.glob("seed-*")) else (), _WRITTEN)
    for folder in folders:
        make_folder(folder)
    settings = out / "train.yaml"
    write_atomically(settings, recipe.settings(data).encode())
    # All are planned before anything is fetched: a wrong setting is found now, not after days.
    runs = [_plan(recipe, config, settings, folder, seed) for folder, seed in zip(folders, seeds, strict=True)]
    if missing := recipe.missing(data):
        say(f"{missing}\n$ dragoman download {recipe.download} --out {shlex.quote(data)}")
        download(recipe.download, Path(data))
    for training, scoring in runs:
        say(f"$ dragoman train {shlex.join(training)}")
        if code := train(parse("train", VERBS["train"], training)):
            return code
        say(f"$ dragoman evaluate {shlex.join(scoring)}")
        evaluate(parse("evaluate", VERBS["evaluate"], scoring))
    _conclude(recipe, _of_one_system(read_evaluation(str(folders[-1] / "scores.json")), out), out)
    return 0


def _plan(
    recipe: Recipe, config: ReproduceConfig, settings: Path, folder: Path, seed: int
) -> tuple[list[str], list[str]]:
    """The words of train and evaluate for a seed; raises ConfigError where the recipe has an impossible setting."""
    training = ["--config", str(settings), "--out", str(folder), "--seed", str(seed), "--device", config.device]
    training += ["--restart"] * config.restart + ["--accept-changes"] * config.accept_changes
    scoring = [str(folder), "--json", str(folder / "scores.json"), "--markdown", str(folder / "scores.md")]
    scoring += ["--device", config.device, "--test", *_within(config.data, recipe.evaluate["test"])]
    scoring += [f"--{name}={value}" for name, value in recipe.evaluate.items() if name != "test"]
    try:
        parse("train", VERBS["train"], training)
        parse("evaluate", VERBS["evaluate"], scoring)
    except ConfigError as error:
        raise ConfigError(f"{config.recipe}: {error}") from None
    return training, scoring


def _dry_run(recipe: Recipe, config: ReproduceConfig) -> list[str]:
    """What training would take, with the text or, if it is missing, with one of the size that the recipe imagines."""
    missing, seed = recipe.missing(config.data), config.seeds[0]
    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder, "train.yaml")
        settings.write_text(recipe.settings(config.data), encoding="utf-8")
        place = Path(folder) if missing else Path(config.out, f"seed-{seed}")
        training = parse("train", VERBS["train"], _plan(recipe, config, settings, place, seed)[0])
    if not missing:
        return dry_run_training(training)
    if not recipe.imagined:
        raise DragomanError(f"{missing}; get the text first: dragoman download {recipe.download} --out {config.data}")
    pairs, length, words = int(recipe.imagined["pairs"]), recipe.imagined["length"], training.text.vocab_size
    say(f"{missing}; imagining {pairs:,} pairs of {length:g} subwords each")
    text = SyntheticText(pairs, length, training.text.max_length, words)
    shape = replace(training.model, source_vocab_size=words, target_vocab_size=words)
    return dry_run(training, shape, text, choose_device(config.device), say)


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
