"""Recipes as files: what is one, and those that come with Dragoman."""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from dragoman.cli import recipe as recipe_module
from dragoman.cli.main import VERBS
from dragoman.cli.options import EvaluateConfig
from dragoman.cli.parsing import parse
from dragoman.cli.recipe import Recipe
from dragoman.config import DragomanError
from dragoman.datasets.registry import SOURCES
from dragoman.model.transformer import Transformer

ROOT = Path(__file__).resolve().parents[2]
RECIPES = sorted((ROOT / "recipes").glob("*.yaml"))
TRAINED: dict[str, Any] = {"source": "en", "target": "xx", "train": ["train"], "valid": ["valid"]}
SMALL: dict[str, Any] = {
    "about": "Words in capitals",
    "download": "multi30k",
    "train": TRAINED,
    "evaluate": {"test": ["valid"], "beam": 2},
}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"about": None}, "about must be a text"),
        ({"published": 41.02}, "published must be a text, in quotes where it looks like a number"),
        ({"train": None}, "train is a group of settings"),
        ({"train": {"source": "en", "target": "xx"}}, r"train\.train must be a list"),
        ({"train": TRAINED | {"train": "train"}}, r"train\.train must be a list"),
        ({"train": TRAINED | {"valid": [1]}}, r"train\.valid must be a list"),
        ({"train": {"source": "en", "train": ["train"]}}, r"train\.target must be a text"),
        ({"train": TRAINED | {"device": "cpu"}}, r"train\.device is for whoever follows the recipe to say"),
        (
            {"train": TRAINED | {"accept-changes": True}},
            r"train\.accept-changes is for whoever",
        ),
        ({"evaluate": {}}, r"evaluate\.test must be a list"),
        ({"evaluate": {"test": "valid"}}, r"evaluate\.test must be a list"),
        ({"evaluate": {"test": ["valid"], "json": "x.json"}}, r"evaluate\.json is for whoever"),
        *(({"seeds": seeds}, "seeds must be") for seeds in (["one"], [], [1, 1], [1.5], [-1], 1, [True])),
        *(({"imagined": {"pairs": pairs, "length": 8}}, "sizes above 0") for pairs in (0, -1, "many")),
        ({"imagined": {"pairz": 5}}, "what is imagined has pairs and a length, and no pairz"),
        ({"evaluate": {"test": ["valid"], 5: "x"}}, "evaluate has 5 in place of a setting's name"),
        ({"train": TRAINED | {True: 1}}, "train has True in place of a setting's name"),
        ({"unknown": 1}, r"unknown setting unknown\)"),
        ({"evaluated": 1}, r"unknown setting evaluated \(did you mean evaluate\?\)"),
    ],
)
def test_what_is_no_recipe_is_refused_with_the_reason(change: dict[str, Any], reason: str, tmp_path: Path) -> None:
    path = tmp_path / "capitals.yaml"
    path.write_text(yaml.safe_dump(SMALL))
    assert Recipe.read(path).seeds == [1]
    path.write_text(yaml.safe_dump(SMALL | change))
    with pytest.raises(DragomanError, match=rf"capitals\.yaml: not a recipe \(.*{reason}"):
        Recipe.read(path)


def test_what_a_recipe_lacks_is_named(tmp_path: Path) -> None:
    path = tmp_path / "short.yaml"
    path.write_text(yaml.safe_dump({name: SMALL[name] for name in SMALL if name not in ("train", "evaluate")}))
    with pytest.raises(DragomanError, match=r"not a recipe \(it has no train and no evaluate\)"):
        Recipe.read(path)


@pytest.mark.parametrize("content", ["", "about: [", "- 1\n", "\x00", "[" * 5000])
def test_other_files_are_none(content: str, tmp_path: Path) -> None:
    path = tmp_path / "other.yaml"
    path.write_text(content)
    with pytest.raises(DragomanError, match="not a recipe"):
        Recipe.read(path)
    path.unlink()
    with pytest.raises(
        DragomanError, match=r"other\.yaml: No such file or directory; Dragoman's source repository has"
    ):
        Recipe.read(path)


def test_files_are_known_by_their_content(tmp_path: Path) -> None:
    content = b"a cat\n"
    known = {"train.en": hashlib.sha256(content).hexdigest()}
    plain, packed, other = (tmp_path / name for name in ("train.en", "train.en.gz", "train.xx"))
    for path, written in ((plain, content), (packed, gzip.compress(content)), (other, content)):
        path.write_bytes(written)
    assert recipe_module._is_known(plain, known)
    assert recipe_module._is_known(packed, known)
    assert not recipe_module._is_known(other, known)
    assert not recipe_module._is_known(packed, {"train.en.gz": known["train.en"]})
    plain.write_bytes(b"a dog\n")
    assert not recipe_module._is_known(plain, known)


def test_texts_are_prefixes_or_files_of_the_folder(tmp_path: Path) -> None:
    path = tmp_path / "capitals.yaml"
    path.write_text(yaml.safe_dump(SMALL | {"train": TRAINED | {"train": ["a.txt,b.txt"]}}))
    for name in ("a.txt", "b.txt", "valid.en", "valid.xx"):
        (tmp_path / name).write_text("x\n")
    recipe = Recipe.read(path)
    assert recipe.missing(str(tmp_path)) == ""
    assert yaml.safe_load(recipe.settings("data"))["train"] == ["data/a.txt,data/b.txt"]
    (tmp_path / "valid.xx").unlink()
    assert f"{tmp_path / 'valid.xx'}: no such file" in recipe.missing(str(tmp_path))


def test_text_that_nobody_knows_is_not_strange(tmp_path: Path) -> None:
    for name in ("train.en", "train.xx", "valid.en", "valid.xx"):
        (tmp_path / name).write_text("a\n")
    assert len(Recipe(**SMALL).strange_files(str(tmp_path))) == 6  # valid is also the test text
    assert Recipe(**(SMALL | {"download": "tatoeba-en-fr"})).strange_files(str(tmp_path)) == []
    assert Recipe(**(SMALL | {"download": "mtdata:x"})).strange_files(str(tmp_path)) == []


# ---- those that come with Dragoman


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_recipes_are_such_as_the_verbs_take(path: Path, tmp_path: Path) -> None:
    recipe = Recipe.read(path)
    assert recipe.download in SOURCES
    (tmp_path / "train.yaml").write_text(recipe.settings("data"))
    config = parse("train", VERBS["train"], ["--config", str(tmp_path / "train.yaml"), "--out", "out"])
    assert config.max_steps
    assert all(text.startswith("data/") for text in [*config.train, *config.valid])
    known = {name: value for name, value in recipe.evaluate.items() if name != "test"}
    words = [word for name, value in known.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    scoring = parse("evaluate", VERBS["evaluate"], ["folder", "--test", "x", *words])
    assert scoring == EvaluateConfig(folder="folder", test=["x"], **known)


def test_the_papers_models_have_the_papers_size() -> None:
    """Table 3: 65 and 213 million parameters, with a vocabulary of about 37,000."""
    for name, millions in (("base", 65), ("big", 213)):
        recipe = Recipe.read(ROOT / "recipes" / f"wmt14-en-de-{name}.yaml")
        needed = ["--out", "x", "--source", "en", "--target", "de", "--train", "x"]
        config = parse("train", VERBS["train"], [*needed, "--preset", recipe.train["preset"]])
        words = config.text.vocab_size
        with torch.device("meta"):
            model = Transformer(replace(config.model, source_vocab_size=words, target_vocab_size=words))
        assert model.num_parameters / 1e6 == pytest.approx(millions, rel=0.04)
