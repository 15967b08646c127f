"""Recipes: from the text to a table of scores, once and again."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from dragoman.checkpoint import fingerprint
from dragoman.cli import reproduce as reproduce_module
from dragoman.cli.main import main
from dragoman.config import DragomanError, TrainConfig
from tests.training.small_runs import write_corpus

ROOT = Path(__file__).resolve().parents[2]
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
    return main(
        ["reproduce", str(recipe), "--data", str(folder), "--out", str(folder / "out"), "--device", "cpu", *more]
    )


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
    assert (results["train"], results["evaluate"]) == (SMALL["train"], SMALL["evaluate"])
    for one in results["runs"]:
        whole = one["model"]["whole run"]
        assert whole["steps"] == 6
        assert whole["on"].endswith(f"{torch.get_num_threads()} threads" if torch.get_num_threads() > 1 else "1 thread")
        assert one["model"]["kept"] in ("step 3", "step 6", "average of the last 2 checkpoints")
        assert f"| kept | {one['model']['kept']} |" in table
    assert results["minutes"] == [one["model"]["whole run"]["minutes"] for one in results["runs"]]


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
    assert "(standard deviation of 2 runs)" in capsys.readouterr().out
    recipe.write_text(yaml.safe_dump(SMALL | {"evaluate": SMALL["evaluate"] | {"beam": 1}}))
    assert run(recipe, "--seeds", "1") == 0  # seed 2 was scored in another way
    assert seeds_of(recipe) == [1]
    assert "seed-2: not in the table (differs in: search)" in capsys.readouterr().err


def seeds_of(recipe: Path) -> list[int]:
    results = json.loads((recipe.parent / "out" / "results.json").read_text())
    return [one["model"]["seed"] for one in results["runs"]]


def test_runs_of_another_recipe_or_model_are_left_out(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = recipe.parent / "out"
    assert run(recipe) == 0
    assert seeds_of(recipe) == [1, 2]
    shutil.copytree(out / "seed-2", out / "seed-2-backup")
    shutil.copytree(out / "seed-2", out / "seed-5")
    (out / "seed-5" / "scores.json").write_text("{}")
    shutil.copytree(out / "seed-2", out / "seed-6")
    (out / "seed-6" / "model.safetensors").write_bytes((out / "seed-1" / "model.safetensors").read_bytes())
    capsys.readouterr()
    assert run(recipe, "--seeds", "1") == 0
    told = capsys.readouterr().err
    assert seeds_of(recipe) == [1, 2]
    assert "seed-5: not in the table" in told
    assert "seed-6: not in the table (the model there is another by now)" in told
    for settings in ({"max_steps": 8}, {"max_steps": 6, "optimizer": {"label_smoothing": 0.2}}):
        recipe.write_text(yaml.safe_dump(SMALL | {"train": SMALL["train"] | settings}))
        assert run(recipe, "--seeds", "3", "--restart") == 0
        assert seeds_of(recipe) == [3]
        assert "seed-1: not in the table (differs in: training settings)" in capsys.readouterr().err


def with_training(recipe: Path, **settings: Any) -> None:
    recipe.write_text(yaml.safe_dump(SMALL | {"train": SMALL["train"] | settings}))


def test_a_table_is_of_one_system(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither runs that a changed recipe found finished are in it, nor the same one twice."""
    out = recipe.parent / "out"
    assert run(recipe, "--seeds", "1", "2") == 0
    shutil.copytree(out / "seed-2", out / "seed-4")
    with_training(recipe, optimizer={"label_smoothing": 0.2})
    assert run(recipe, "--seeds", "1", "3", "--accept-changes") == 0
    told = capsys.readouterr().err
    assert seeds_of(recipe) == [3]
    assert all(f"seed-{seed}: not in the table (differs in: training settings)" in told for seed in (1, 2, 4))
    with_training(recipe)
    assert run(recipe, "--seeds", "1") == 0
    assert seeds_of(recipe) == [1, 2]
    assert "seed-4: not in the table (the model there is of seed 2)" in capsys.readouterr().err


def test_a_run_that_had_another_end_in_view_is_of_another_system(
    recipe: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a schedule that falls to the end; with the others, more steps are as good as from the beginning."""
    for schedule, joined in (("linear", [2]), ("inverse-sqrt", [1, 2])):
        with_training(recipe, optimizer={"schedule": schedule}, max_steps=3)
        assert run(recipe, "--seeds", "1", "--restart") == 0
        with_training(recipe, optimizer={"schedule": schedule})
        assert run(recipe, "--seeds", "1") == 0
        assert run(recipe, "--seeds", "2", "--restart") == 0
        assert seeds_of(recipe) == joined
        told = "seed-1: not in the table (differs in: changes on the way)" in capsys.readouterr().err
        assert told == (schedule == "linear")
        card = (recipe.parent / "out" / "seed-1" / "README.md").read_text()
        assert ("max_steps was 3 and is 6" in card) == (schedule == "linear")


def test_other_validation_text_makes_another_system(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(recipe, "--seeds", "1") == 0
    valid = recipe.parent / "valid.xx"
    valid.with_name("test.xx").write_text(valid.read_text())
    valid.with_name("test.en").write_text(valid.with_name("valid.en").read_text())
    recipe.write_text(yaml.safe_dump(SMALL | {"evaluate": SMALL["evaluate"] | {"test": ["test"]}}))
    assert run(recipe, "--seeds", "1") == 0
    valid.write_text(valid.read_text().replace("A", "B"))
    assert run(recipe, "--seeds", "2") == 0
    assert seeds_of(recipe) == [2]
    assert "seed-1: not in the table (differs in: validation text)" in capsys.readouterr().err


def test_a_changed_recipe_says_what_helps_and_that_helps(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(recipe, "--seeds", "1") == 0
    recipe.write_text(yaml.safe_dump(SMALL | {"train": SMALL["train"] | {"optimizer": {"label_smoothing": 0.2}}}))
    assert run(recipe, "--seeds", "1") == 1
    assert "start again with --restart" in capsys.readouterr().err
    assert run(recipe, "--seeds", "1", "--restart", "true") == 0


def test_other_text_than_the_one_that_is_known_is_told(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(recipe, "--seeds", "1") == 0
    assert "warning: not the files that `dragoman download multi30k` brings" in capsys.readouterr().err


@pytest.mark.parametrize("seeds", [["1", "01"], ["one"], ["²"], ["-1"]])
def test_seeds_are_whole_numbers_each_once(seeds: list[str], recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(recipe, "--seeds", *seeds) != 0
    assert "Traceback" not in capsys.readouterr().err


def test_text_has_a_folder_of_its_own(recipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that other text with the names train and val is not taken for it."""
    asked = []

    def download(name: str, out: Path) -> None:
        asked.append((name, out))
        raise DragomanError("no network")

    monkeypatch.setattr(reproduce_module, "download", download)
    monkeypatch.chdir(recipe.parent)
    (recipe.parent / "data").mkdir()
    write_corpus(recipe.parent / "data")
    assert main(["reproduce", str(recipe), "--out", "out"]) == 1
    assert asked == [("multi30k", Path("data/multi30k"))]


def test_what_is_missing_is_downloaded_first(
    recipe: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []

    def download(name: str, out: Path) -> None:
        asked.append((name, out))
        write_corpus(out)

    monkeypatch.setattr(reproduce_module, "download", download)
    data = recipe.parent / "elsewhere"
    data.mkdir()
    assert run(recipe, "--data", str(data), "--seeds", "1") == 0
    assert asked == [("multi30k", data)]
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
    assert f"{recipe.parent / 'train.xx'}: no such file" in shown.err
    assert "; imagining 300 pairs of 8 subwords each" in shown.err


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


# ---- recipes with faults


def test_what_is_no_recipe_is_named(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe.write_text(yaml.safe_dump(SMALL | {"published": 41.02}))
    assert run(recipe) == 1
    assert "capitals.yaml: not a recipe (published must be a text, in quotes" in capsys.readouterr().err


def test_a_wrong_setting_of_a_recipe_is_named(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for settings, said in (
        ({"max_stepz": 5}, "unknown setting max_stepz (did you mean max_steps?)"),
        ({"max_steps": -1}, "max_steps must be between 0 and 1,000,000,000, not -1"),
    ):
        with_training(recipe, **settings)
        assert run(recipe) == 2
        assert f"dragoman: {recipe}: {said}" in capsys.readouterr().err


@pytest.mark.parametrize("setting", [{"beem": 2}, {"tokenized": "y"}, {"tokenized": 1}], ids=str)
@pytest.mark.parametrize("more", [[], ["--dry-run"]], ids=["training", "dry run"])
def test_a_wrong_setting_of_the_scoring_is_named_before_anything_is_fetched(
    setting: dict[str, Any],
    more: list[str],
    recipe: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for path in recipe.parent.glob("train.*"):
        path.unlink()
    monkeypatch.setattr(reproduce_module, "download", lambda *_: pytest.fail("fetched"))
    recipe.write_text(yaml.safe_dump(SMALL | {"evaluate": SMALL["evaluate"] | setting}))
    assert run(recipe, *more) == 2
    assert next(iter(setting)) in capsys.readouterr().err
    assert not list((recipe.parent / "out").rglob("*.safetensors"))
