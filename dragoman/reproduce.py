"""The verb `reproduce`: a recipe, from the text to a table of scores."""

from __future__ import annotations

import json
import shlex
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from dragoman.arguments import TRAIN, Verb, parse
from dragoman.commands import evaluate
from dragoman.config import DragomanError, TrainConfig
from dragoman.download import download
from dragoman.files import make_folder, write_atomically
from dragoman.inference.evaluation import METRICS
from dragoman.model.precision import choose_device
from dragoman.options import DownloadConfig, EvaluateConfig, ReproduceConfig
from dragoman.quotation import as_table, compare_runs, of_one_kind, read_evaluation, spread_in_words
from dragoman.text.corpus import locate
from dragoman.train import rehearse_training, train
from dragoman.training.rehearsal import ImaginedText, Rehearsal, rehearse

_EVALUATE = Verb(EvaluateConfig, "dragoman.commands")


@dataclass(frozen=True)
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
    published: str = ""
    """What there is to compare the result with, and where it is from."""
    imagined: dict[str, float] = field(default_factory=dict)
    """Pairs and mean length of the text, for a rehearsal without it."""

    @staticmethod
    def read(path: Path) -> Recipe:
        """Read a recipe.

        Raises:
            DragomanError: there is no such file, or it is no recipe.
        """
        try:
            recipe = Recipe(**yaml.safe_load(path.read_text(encoding="utf-8")))
            texts = [recipe.train["train"], recipe.train.get("valid", []), recipe.evaluate["test"]]
            # What is of another kind raises, and so does what is missing.
            "".join([recipe.about, recipe.download, recipe.published, recipe.train["source"], recipe.train["target"]])
            "".join(sum(texts, list[str]()))
            sum([*recipe.seeds, *recipe.imagined.values()])
            if not recipe.seeds or len({*recipe.seeds}) < len(recipe.seeds):
                raise ValueError("seeds: each once, and at least one")
            return recipe
        except OSError as error:
            raise DragomanError(f"{path}: {error.strerror}; recipes/ has some") from None
        except (yaml.YAMLError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            reason = " ".join(str(error).split())
            raise DragomanError(f"{path}: not a recipe ({reason}); see those in recipes/") from None


def reproduce(config: ReproduceConfig) -> int:
    """Download, train with each seed, evaluate, and print the table; returns the exit code."""
    path = Path(config.recipe)
    recipe = Recipe.read(path)
    config = replace(config, data=config.data or f"data/{recipe.download.replace(':', '-').replace('/', '-')}")
    seeds = [int(seed) for seed in config.seeds] or recipe.seeds
    _say(recipe.about)
    if config.dry_run:
        print("\n".join(_rehearse(recipe, config, seeds[0]).lines()))
        if len(seeds) > 1:
            print(f"seeds: {', '.join(map(str, seeds))}: {len(seeds)} such runs, one after the other")
        return 0
    out = Path(config.out or f"runs/{path.stem}")
    make_folder(out)
    if not _texts_are_there(recipe, config.data):
        _say(f"$ dragoman download {recipe.download} --out {shlex.quote(config.data)}")
        download(DownloadConfig(name=recipe.download, out=config.data))
    write_atomically(out / "train.yaml", _settings(recipe, config.data).encode())
    evaluations = []
    for seed in seeds:
        folder = out / f"seed-{seed}"
        arguments = ["--config", str(out / "train.yaml"), "--out", str(folder), "--seed", str(seed)]
        arguments += ["--device", config.device]
        _say(f"$ dragoman train {shlex.join(arguments)}")
        if code := train(_training(arguments)):
            return code
        evaluations.append(_evaluate(recipe, config, folder))
    _conclude(recipe, _with_earlier(evaluations, out), out)
    return 0


def _texts_are_there(recipe: Recipe, data: str) -> bool:
    texts = [*recipe.train["train"], *recipe.train.get("valid", []), *recipe.evaluate["test"]]
    try:
        for text in texts:
            locate(str(Path(data, text)), recipe.train["source"], recipe.train["target"])
    except DragomanError:
        return False
    return True


def _settings(recipe: Recipe, data: str) -> str:
    """The settings of training as a file for --config."""
    names = [name for name in ("train", "valid", "test") if name in recipe.train]
    texts = {name: [str(Path(data, text)) for text in recipe.train[name]] for name in names}
    return yaml.safe_dump(recipe.train | texts, sort_keys=False, allow_unicode=True)


def _training(arguments: Sequence[str]) -> TrainConfig:
    config: TrainConfig = parse("train", TRAIN, arguments)
    return config


def _evaluate(recipe: Recipe, config: ReproduceConfig, folder: Path) -> dict[str, Any]:
    """Score a model, and read what was written about it."""
    scores = folder / "scores.json"
    arguments = [str(folder), "--json", str(scores), "--markdown", str(folder / "scores.md"), "--device", config.device]
    for name, value in recipe.evaluate.items():
        values = [str(Path(config.data, text)) for text in value] if name == "test" else [str(value)]
        arguments += [f"--{name.replace('_', '-')}", *values]
    _say(f"$ dragoman evaluate {shlex.join(arguments)}")
    evaluate(parse("evaluate", _EVALUATE, arguments))
    return read_evaluation(str(scores))


def _with_earlier(evaluations: list[dict[str, Any]], out: Path) -> list[dict[str, Any]]:
    """These runs and those of other seeds that were scored in the same way before, in the order of their seeds."""
    seeds = {evaluation["model"]["seed"] for evaluation in evaluations}
    for path in out.glob("seed-*/scores.json"):
        earlier = read_evaluation(str(path))
        if earlier["model"]["seed"] not in seeds and of_one_kind(earlier, evaluations[0]):
            evaluations.append(earlier)
    return sorted(evaluations, key=lambda evaluation: int(evaluation["model"]["seed"]))


def _conclude(recipe: Recipe, evaluations: list[dict[str, Any]], out: Path) -> None:
    """Print and keep the table of all seeds."""
    scores = compare_runs(evaluations)
    facts = [evaluation["model"] for evaluation in evaluations]
    rows = "".join(f"| {METRICS[name]} | {spread_in_words(one['system'])} |\n" for name, one in scores.items())
    rows += f"| published | {recipe.published} |\n" if recipe.published else ""
    table = f"| {recipe.about} | |\n|---|---|\n{rows}"
    write_atomically(out / "results.md", f"{table}\n{chr(10).join(map(as_table, evaluations))}".encode())
    kept = ("scores", "languages", "text", "weights", "settings", "software", "model")
    content = {
        "recipe": recipe.about,
        "published": recipe.published,
        "scores": {name: one["system"] for name, one in scores.items()},
        "minutes": [fact.get("minutes") for fact in facts],
        "runs": [{name: evaluation[name] for name in kept} for evaluation in evaluations],
    }
    write_atomically(out / "results.json", json.dumps(content, indent=1, ensure_ascii=False).encode())
    print(table, end="")
    _say(f"all of it is in {out / 'results.md'} and {out / 'results.json'}")


def _rehearse(recipe: Recipe, config: ReproduceConfig, seed: int) -> Rehearsal:
    """What training would take, with the text or without."""
    out = Path(config.out or f"runs/{Path(config.recipe).stem}")
    there = _texts_are_there(recipe, config.data)
    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder, "train.yaml")
        settings.write_text(_settings(recipe, config.data), encoding="utf-8")
        place = out / f"seed-{seed}" if there else Path(folder)
        arguments = ["--config", str(settings), "--out", str(place), "--device", config.device]
        training = _training([*arguments, "--seed", str(seed)])
    if there:
        return rehearse_training(training)
    if not {"pairs", "length"} <= recipe.imagined.keys():
        raise DragomanError(f"{config.recipe}: the text is not in {config.data}; get it first: "
                            f"dragoman download {recipe.download} --out {config.data}")  # fmt: skip
    pairs, length, words = int(recipe.imagined["pairs"]), recipe.imagined["length"], training.text.vocab_size
    _say(f"{config.data}: the text is not there; imagining {pairs:,} pairs of {length:g} subwords each")
    text = ImaginedText(pairs, length, training.text.max_length, words)
    shape = replace(training.model, source_vocab_size=words, target_vocab_size=words)
    return rehearse(training, shape, text, choose_device(config.device), _say)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
