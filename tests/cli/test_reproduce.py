"""Recipes: what is one, and from the text to a table of scores, once and again."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

import dragoman.train
from dragoman.checkpoint import fingerprint
from dragoman.cli import reproduce as reproduce_module
from dragoman.cli.options import ReproduceConfig
from dragoman.cli.reproduce import _plan, _plan_before, read_recipe
from dragoman.config import DragomanError, TrainConfig
from dragoman.datasets.download import SOURCES
from tests import command_calls
from tests.command_calls import Result
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
        "train": ["train.en,train.xx"],
        "valid": ["valid"],
        "preset": "tiny",
        "max_steps": 6,
        "precision": "fp32",
        "model": {"d_model": 16, "d_ff": 32, "num_encoder_layers": 1, "num_decoder_layers": 1, "num_heads": 2},
        "text": {"vocab_size": 320, "placeholders": 0.0},
        "optimizer": {"schedule": "inverse-sqrt"},  # with which six steps begin as three do
        "validation": {"every": 3},
    },
    "evaluate": {"test": ["valid"], "beam": 2, "tokenized": False},
    "imagined": {"pairs": 300, "length": 8},
}


def write_recipe(folder: Path, train: dict[str, Any] | None = None, **changes: Any) -> Path:
    path = folder / "capitals.yaml"
    path.write_text(yaml.safe_dump(SMALL | {"train": SMALL["train"] | (train or {})} | changes))
    return path


def run(recipe: Path, data: Path, *more: object) -> Result:
    """Follow a recipe into `out` beside it."""
    options = ["--data", data, "--out", recipe.parent / "out", "--device", "cpu"]
    return command_calls.run("reproduce", recipe, *options, *more)


def seeds_of(recipe: Path) -> list[int]:
    """The seeds in the table."""
    results = json.loads((recipe.parent / "out" / "results.json").read_text())
    return [one["model"]["seed"] for one in results["runs"]]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    write_corpus(folder)
    for language in ("en", "xx"):
        valid = (folder / f"valid.{language}").read_text()
        (folder / f"other.{language}").write_text(valid.replace("a", "b").replace("A", "B"))
    return folder


@pytest.fixture(scope="module")
def finished(data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """A recipe that was followed to its end, and what was printed; tests that go on take a copy."""
    recipe = write_recipe(tmp_path_factory.mktemp("recipe"))
    result = run(recipe, data)
    assert result.code == 0, result.err
    return recipe, result


@pytest.fixture
def again(finished: tuple[Path, Result], tmp_path: Path) -> Path:
    """A copy of the finished recipe and its runs."""
    shutil.copytree(finished[0].parent / "out", tmp_path / "out")
    return write_recipe(tmp_path)


def test_each_seed_is_trained_and_scored_and_the_table_says_all(finished: tuple[Path, Result]) -> None:
    (recipe, shown), out = finished, finished[0].parent / "out"
    results = json.loads((out / "results.json").read_text())
    assert seeds_of(recipe) == [1, 2]
    assert results["published"] == SMALL["published"]
    means = {name: sum(one["scores"][name] for one in results["runs"]) / 2 for name in ("bleu", "chrf", "chrfpp")}
    for name, mean in means.items():
        assert results["scores"][name]["mean"] == pytest.approx(mean)
        assert results["scores"][name]["runs"] == 2
    summary = shown.out[shown.out.index("| Words in capitals | |") :]
    assert f"| chrF2 | {means['chrf']:.2f} ± " in summary
    assert "(standard deviation of 2 runs)" in summary
    assert "| published | 12.3 BLEU (Somebody, 2020) |" in summary
    table = (out / "results.md").read_text()
    assert table.startswith(summary)
    assert table.count("| model | ") == 2
    assert {one["settings"]["beam"] for one in results["runs"]} == {2}
    assert (results["train"], results["evaluate"]) == (SMALL["train"], SMALL["evaluate"])
    for one in results["runs"]:
        assert one["model"]["whole_run"]["steps"] == 6
        assert f"| kept | {one['model']['kept']} |" in table


def test_the_commands_that_it_prints_do_the_same(finished: tuple[Path, Result], tmp_path: Path) -> None:
    recipe, shown = finished
    train, evaluate, *_ = [line[2:].split() for line in shown.err.splitlines() if line.startswith("$ ")]
    scores = json.loads((recipe.parent / "out" / "seed-1" / "scores.json").read_text())
    train[train.index("--out") + 1] = evaluate[2] = str(tmp_path / "model")
    evaluate[evaluate.index("--json") + 1] = str(tmp_path / "scores.json")
    assert (train[:2], evaluate[:2]) == (["dragoman", "train"], ["dragoman", "evaluate"])
    assert command_calls.run(*train[1:]).code == 0
    assert command_calls.run(*evaluate[1:]).code == 0
    assert json.loads((tmp_path / "scores.json").read_text())["scores"] == scores["scores"]
    assert fingerprint(tmp_path / "model" / "model.safetensors") == scores["weights"]["sha256"]


def test_an_interrupted_one_continues_and_counts(again: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, train = again.parent / "out", dragoman.train.train
    shutil.rmtree(out / "seed-1")
    (out / "results.md").unlink()

    def interrupted(config: TrainConfig) -> int:
        train(replace(config, max_steps=3))
        return 130

    with monkeypatch.context() as patch:
        patch.setattr(dragoman.train, "train", interrupted)
        assert run(again, data).code == 130
    assert not (out / "results.md").exists()
    result = run(again, data, "--seeds", 1)
    assert (result.code, seeds_of(again)) == (0, [1, 2])
    assert "after step 3" in result.err


def test_runs_of_another_system_are_left_out(again: Path, data: Path) -> None:
    out = again.parent / "out"
    for name in ("seed-2-backup", "seed-5", "seed-6"):
        shutil.copytree(out / "seed-2", out / name)
    (out / "seed-5" / "scores.json").write_text("{}")
    (out / "seed-6" / "model.safetensors").write_bytes((out / "seed-1" / "model.safetensors").read_bytes())
    told = run(again, data, "--seeds", 1).err
    assert seeds_of(again) == [1, 2]
    assert "seed-5: not in the table" in told
    assert "seed-6: not in the table (the model there is another by now)" in told
    write_recipe(again.parent, evaluate=SMALL["evaluate"] | {"beam": 1})
    told = run(again, data, "--seeds", 1).err
    assert seeds_of(again) == [1]
    assert "seed-2: not in the table (differs in: search)" in told


@pytest.mark.parametrize(
    ("settings", "kind"),
    [({"optimizer": {"label_smoothing": 0.2}}, "training settings"), ({"valid": ["other"]}, "validation text")],
)
def test_runs_of_a_changed_recipe_stand_alone(settings: dict[str, Any], kind: str, again: Path, data: Path) -> None:
    write_recipe(again.parent, train=settings)
    refused = run(again, data)
    assert refused.code == 1
    assert "--restart" in refused.err
    told = run(again, data, "--seeds", 3).err
    assert seeds_of(again) == [3]
    assert all(f"seed-{seed}: not in the table (differs in: {kind})" in told for seed in (1, 2))


def test_what_comes_before_is_made_once_and_learned_from(data: Path, tmp_path: Path) -> None:
    teacher = SMALL["train"] | {"out": "OUT/teacher", "max_steps": 3}
    taught = {"folder": "OUT/teacher", "text": ["train.en"], "out": "OUT/taught", "forward": True, "tag": "",
              "min_length": 3, "max_length": 1, "sampling": 1, "engine": "torch"}  # fmt: skip
    steps = [{"train": teacher}, {"augment": taught}]
    recipe = write_recipe(
        tmp_path, train={"train": ["train", "OUT/taught"], "weights": [1, 1.0]}, before=steps, seeds=[1]
    )
    shown = run(recipe, data, "--dry-run")
    assert "before it: train, augment" in shown.out
    assert "imagining 300 pairs" in shown.err
    first, second = run(recipe, data), run(recipe, data)
    assert (first.code, second.code) == (0, 0), first.err
    assert "already made of this text" in second.err
    assert second.out == first.out
    taught_pairs = len((tmp_path / "out" / "taught.xx").read_text().splitlines())
    (one,) = json.loads((tmp_path / "out" / "results.json").read_text())["runs"]
    assert one["model"]["training_pairs"] == 100 + taught_pairs > 100
    refused = run(write_recipe(tmp_path, before=[{"serve": {}}]), data)
    assert "before has no step 'serve'" in refused.err


def test_missing_text_is_downloaded_into_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def download(name: str, out: Path) -> None:
        asked.append((name, out))
        raise DragomanError("no network")

    monkeypatch.setattr(reproduce_module, "download", download)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    write_corpus(tmp_path / "data")  # other text of the same names
    result = command_calls.run("reproduce", write_recipe(tmp_path), "--out", "out")
    assert (result.code, asked) == (1, [("multi30k", Path("data/multi30k"))])
    assert "$ dragoman download multi30k --out data/multi30k" in result.err


@pytest.mark.parametrize("more", [[], ["--dry-run"]], ids=["training", "dry run"])
def test_a_recipe_for_a_text_of_ones_own_names_no_download(data: Path, tmp_path: Path, more: list[str]) -> None:
    recipe = write_recipe(tmp_path, download="", seeds=[1])
    assert "train.xx: no such file" in command_calls.complaint(2, "reproduce", recipe, "--data", tmp_path, *more)
    assert run(recipe, data, *more).code == 0


def test_files_of_somebody_else_are_not_replaced(data: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "results.md").write_text("mine")
    assert "already contains results.md" in run(write_recipe(tmp_path), data).err
    assert (tmp_path / "out" / "results.md").read_text() == "mine"


def test_a_dry_run_trains_nothing(data: Path, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path)
    shown = run(recipe, data, "--dry-run").out
    assert "text: 100 pairs, " in shown
    assert "time: 6 steps (" in shown
    assert "seeds: 1, 2: 2 such runs" in shown
    result = run(recipe, tmp_path, "--dry-run")
    assert "text: 300 pairs, " in result.out
    assert "no such file" in result.err
    assert "; imagining 300 pairs of 8 subwords each" in result.err
    assert not list((tmp_path / "out").rglob("*.safetensors"))


# ---- what is no recipe


@pytest.mark.parametrize("more", [[], ["--dry-run"]], ids=["training", "dry run"])
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"train": {"max_stepz": 5}}, "unknown option --max-stepz (did you mean --max-steps?)"),
        ({"train": {"train": []}}, "--train needs a value"),
        ({"evaluate": {"beam": 2}}, "required: --test"),
        ({"evaluate": {"test": ["valid"], "tokenized": "y"}}, "tokenized must be true or false, not 'y'"),
    ],
)
def test_a_wrong_setting_is_named_before_anything_is_fetched(
    changes: dict[str, Any], said: str, more: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reproduce_module, "download", lambda name, out: pytest.fail("fetched"))
    recipe = write_recipe(tmp_path, **changes)
    result = run(recipe, tmp_path, *more)
    assert result.code == 2
    assert f"dragoman: {recipe}: {said}" in result.err


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (SMALL | {"train": "x"}, "train must be a group, not 'x'"),
        (SMALL | {"imagined": {"pairs": "x"}}, "imagined must be a number, not 'x'"),
        (SMALL | {"evaluated": 1}, "Recipe.__init__() got an unexpected keyword argument 'evaluated'"),
        ({"about": "x"}, "Recipe.__init__() missing 2 required"),
        ([1], ""),
    ],
    ids=str,
)
def test_what_is_no_recipe_is_refused_with_the_reason(content: object, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "capitals.yaml"
    path.write_text(yaml.safe_dump(content))
    message = command_calls.complaint(1, "reproduce", path)
    assert f"capitals.yaml: not a recipe ({reason}" in message
    assert "see those in recipes/" in message


# ---- those that come with Dragoman


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_recipes_are_such_as_the_verbs_take(path: Path) -> None:
    recipe = read_recipe(path)
    assert recipe.download in SOURCES
    config = ReproduceConfig(recipe="x", data="data", out="out")
    training, scoring = (call.config for call in _plan(recipe, config, Path("out/seed-1"), 1))
    made = {call.config.out for call in _plan_before(recipe, config)}
    assert training.max_steps
    assert all(text.startswith("data/") or text in made for text in [*training.train, *training.valid])
    settings = {name: getattr(scoring, name) for name in recipe.evaluate if name != "test"}
    assert settings == {name: value for name, value in recipe.evaluate.items() if name != "test"}
