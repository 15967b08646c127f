"""Recipes: from the text to a table of scores, once and again; and those that come with Dragoman."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from training.small_runs import write_corpus

from dragoman import reproduce as reproduce_module
from dragoman.arguments import TRAIN, parse
from dragoman.checkpoint import fingerprint
from dragoman.cli import main
from dragoman.config import DragomanError, TrainConfig
from dragoman.model.transformer import Transformer
from dragoman.reproduce import Recipe
from dragoman.sources import SOURCES

ROOT = Path(__file__).resolve().parents[1]
RECIPES = sorted((ROOT / "recipes").glob("*.yaml"))
SMALL: dict[str, Any] = {
    "about": "Words in capitals",
    "download": "multi30k",
    "published": "12.3 BLEU (Somebody, 2020)",
    "seeds": [1, 2],
    "train": {
        "source": "en",
        "target": "xx",
        "train": ["train"],
        "valid": ["valid"],
        "preset": "tiny",
        "max_steps": 6,
        "device": "cpu",
        "precision": "fp32",
        "model": {"d_model": 16, "d_ff": 32, "num_encoder_layers": 1, "num_decoder_layers": 1, "num_heads": 2},
        "text": {"vocab_size": 320},
        "validation": {"every": 3},
    },
    "evaluate": {"test": ["valid"], "beam": 2},
    "imagined": {"pairs": 300, "length": 8},
}


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    write_corpus(tmp_path)
    (tmp_path / "capitals.yaml").write_text(yaml.safe_dump(SMALL))
    return tmp_path / "capitals.yaml"


def run(recipe: Path, *more: str) -> int:
    folder = recipe.parent
    return main(["reproduce", str(recipe), "--data", str(folder), "--out", str(folder / "out"), *more])


def test_each_seed_is_trained_and_scored_and_the_table_says_all(
    recipe: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(recipe) == 0
    shown, out = capsys.readouterr(), recipe.parent / "out"
    results = json.loads((out / "results.json").read_text())
    assert [one["model"]["seed"] for one in results["runs"]] == [1, 2]
    assert results["published"] == SMALL["published"]
    means = {name: sum(one["scores"][name] for one in results["runs"]) / 2 for name in ("bleu", "chrf", "chrfpp")}
    for name, mean in means.items():
        assert results["scores"][name]["mean"] == pytest.approx(mean)
        assert results["scores"][name]["runs"] == 2
    summary = shown.out[shown.out.index("| Words in capitals | |") :]
    assert f"| chrF2 | {means['chrf']:.2f} ± " in shown.out
    assert "| published | 12.3 BLEU (Somebody, 2020) |" in shown.out
    table = (out / "results.md").read_text()
    assert table.startswith(summary)
    assert table.count("| model | ") == 2
    assert {one["settings"]["beam"] for one in results["runs"]} == {2}


def test_what_it_does_can_be_done_by_hand(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The commands that it prints are all there is to it."""
    assert run(recipe, "--seeds", "7") == 0
    commands = [line[2:] for line in capsys.readouterr().err.splitlines() if line.startswith("$ ")]
    assert [command.split()[:2] for command in commands] == [["dragoman", "train"], ["dragoman", "evaluate"]]
    scores = recipe.parent / "out" / "seed-7" / "scores.json"
    before = json.loads(scores.read_text())
    scores.unlink()
    words = commands[0].split()
    words[words.index("--out") + 1] = str(recipe.parent / "by-hand")
    assert main(words[1:]) == 0
    assert main(commands[1].split()[1:]) == 0
    assert json.loads(scores.read_text())["scores"] == before["scores"]
    weights = [recipe.parent / name / "model.safetensors" for name in ("out/seed-7", "by-hand")]
    assert fingerprint(weights[0]) == fingerprint(weights[1]) == before["weights"]["sha256"]


def test_an_interrupted_one_continues(recipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train = reproduce_module.train

    def interrupted(config: TrainConfig) -> int:
        train(replace(config, max_steps=3))
        return 130

    with monkeypatch.context() as patch:
        patch.setattr(reproduce_module, "train", interrupted)
        assert run(recipe) == 130
    assert not (recipe.parent / "out" / "results.md").exists()
    assert run(recipe) == 0
    assert run(recipe) == 0  # finished: only evaluated once more
    assert (recipe.parent / "out" / "results.md").exists()


def test_other_seeds_join_those_that_are_there(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seeds in (["2"], ["1"]):
        assert run(recipe, "--seeds", *seeds) == 0
    results = json.loads((recipe.parent / "out" / "results.json").read_text())
    assert [one["model"]["seed"] for one in results["runs"]] == [1, 2]
    assert "(2 runs)" in capsys.readouterr().out
    recipe.write_text(yaml.safe_dump(SMALL | {"evaluate": SMALL["evaluate"] | {"beam": 1}}))
    assert run(recipe, "--seeds", "1") == 0  # seed 2 was scored in another way
    assert len(json.loads((recipe.parent / "out" / "results.json").read_text())["runs"]) == 1


@pytest.mark.parametrize("seeds", [["1", "01"], ["one"], ["²"], ["-1"]])
def test_seeds_are_whole_numbers_each_once(seeds: list[str], recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(recipe, "--seeds", *seeds) != 0
    assert "Traceback" not in capsys.readouterr().err


def test_text_has_a_folder_of_its_own(recipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that other text with the names train and val is not taken for it."""
    asked = []

    def download(config: Any) -> int:
        asked.append(config.out)
        raise DragomanError("no network")

    monkeypatch.setattr(reproduce_module, "download", download)
    monkeypatch.chdir(recipe.parent)
    (recipe.parent / "data").mkdir()
    write_corpus(recipe.parent / "data")
    assert main(["reproduce", str(recipe), "--out", "out"]) == 1
    assert asked == ["data/multi30k"]


def test_what_is_missing_is_downloaded_first(
    recipe: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []

    def download(config: Any) -> int:
        asked.append((config.name, config.out))
        write_corpus(Path(config.out))
        return 0

    monkeypatch.setattr(reproduce_module, "download", download)
    data = recipe.parent / "elsewhere"
    data.mkdir()
    assert run(recipe, "--data", str(data), "--seeds", "1") == 0
    assert asked == [("multi30k", str(data))]
    assert f"$ dragoman download multi30k --out {data}" in capsys.readouterr().err


def test_a_dry_run_trains_nothing(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(recipe, "--dry-run") == 0
    shown = capsys.readouterr()
    assert "text: 100 pairs, " in shown.out
    assert "time: 6 steps (" in shown.out
    assert "seeds: 1, 2: 2 such runs" in shown.out
    assert not list((recipe.parent / "out").rglob("*.safetensors"))
    (recipe.parent / "train.xx").unlink()
    assert run(recipe, "--dry-run") == 0
    shown = capsys.readouterr()
    assert "text: 300 pairs, " in shown.out
    assert "the text is not there; imagining 300 pairs of 8 subwords each" in shown.err


def test_training_can_be_rehearsed_by_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_corpus(tmp_path)
    arguments = ["train", "--source", "en", "--target", "xx", "--train", str(tmp_path / "train"), "--valid"]
    arguments += [str(tmp_path / "valid"), "--out", str(tmp_path / "run"), "--preset", "tiny", "--max-steps", "2"]
    arguments += ["--text.vocab-size", "320", "--device", "cpu"]
    assert main([*arguments, "--dry-run"]) == 0
    assert "time: 2 steps (" in capsys.readouterr().out
    assert not list((tmp_path / "run").rglob("*.safetensors"))
    assert main(arguments) == 0
    assert (tmp_path / "run" / "model.safetensors").exists()
    assert "dry_run" not in (tmp_path / "run" / "train.yaml").read_text()


# ---- what is no recipe


@pytest.mark.parametrize(
    "change",
    [
        {"about": None},
        {"train": None},
        {"train": {"source": "en", "target": "xx"}},
        {"evaluate": {}},
        {"seeds": ["one"]},
        {"seeds": []},
        {"seeds": [1, 1]},
        {"train": SMALL["train"] | {"train": "train"}},
        {"evaluate": SMALL["evaluate"] | {"test": "valid"}},
        {"unknown": 1},
    ],
)
def test_what_is_no_recipe_is_named(change: dict[str, Any], recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe.write_text(yaml.safe_dump(SMALL | change))
    assert run(recipe) == 1
    assert "capitals.yaml: not a recipe" in capsys.readouterr().err


@pytest.mark.parametrize("content", ["", "about: [", "- 1\n", "\x00"])
def test_other_files_are_none(content: str, recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe.write_text(content)
    assert run(recipe) == 1
    assert "not a recipe" in capsys.readouterr().err
    recipe.unlink()
    assert run(recipe) == 1
    assert "capitals.yaml: No such file or directory; recipes/ has some" in capsys.readouterr().err


def test_a_wrong_setting_of_a_recipe_is_named(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe.write_text(yaml.safe_dump(SMALL | {"train": SMALL["train"] | {"max_stepz": 5}}))
    with pytest.raises(SystemExit):
        run(recipe)
    assert "unknown setting max_stepz (did you mean max_steps?)" in capsys.readouterr().err


# ---- those that come with Dragoman


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_recipes_are_such_as_the_verbs_take(path: Path, tmp_path: Path) -> None:
    recipe = Recipe.read(path)
    assert recipe.download in SOURCES
    (tmp_path / "train.yaml").write_text(reproduce_module._settings(recipe, "data"))
    config = parse("train", TRAIN, ["--config", str(tmp_path / "train.yaml"), "--out", "out"])
    assert config.max_steps
    assert all(text.startswith("data/") for text in [*config.train, *config.valid])
    parse("evaluate", reproduce_module._EVALUATE, ["folder", "--test", *recipe.evaluate["test"]])
    known = {name: value for name, value in recipe.evaluate.items() if name != "test"}
    reproduce_module.EvaluateConfig(folder="folder", test=["x"], **known)


def test_the_papers_models_have_the_papers_size() -> None:
    """Table 3: 65 and 213 million parameters, with a vocabulary of about 37,000."""
    for name, millions in (("base", 65), ("big", 213)):
        recipe = Recipe.read(ROOT / "recipes" / f"wmt14-en-de-{name}.yaml")
        config = parse("train", TRAIN, ["--out", "x", "--source", "en", "--target", "de", "--train", "x", "--preset",
                                        recipe.train["preset"]])  # fmt: skip
        words = config.text.vocab_size
        with torch.device("meta"):
            model = Transformer(replace(config.model, source_vocab_size=words, target_vocab_size=words))
        assert model.num_parameters / 1e6 == pytest.approx(millions, rel=0.04)
