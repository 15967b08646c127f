"""Where settings begin: presets, parents and files, and what replaces what; the command line's tests have the rest."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path

import pytest
import yaml

from dragoman.cli.parsing import TRAIN, parse
from dragoman.cli.starting_values import (
    FOUND_OUT,
    read_settings,
    settings_of,
    starting_values,
    without_replaced_origins,
)
from dragoman.config import FINE_TUNING, PRESETS, ConfigError, TrainConfig

TEXT = ["--source", "en", "--target", "de", "--train", "a", "--out", "model"]


def test_all_settings_in_groups_begin_somewhere() -> None:
    config: TrainConfig = parse("train", TRAIN, TEXT)
    groups = {name: value for name, value in asdict(config).items() if isinstance(value, dict)}
    values = {f"{group}.{name}": value for group, found in groups.items() for name, value in found.items()}
    assert starting_values([]) == {name: value for name, value in values.items() if name not in FOUND_OUT}


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """A file of all settings, as a run with the preset base leaves it, with a choice of its own."""
    config: TrainConfig = parse("train", TRAIN, [*TEXT, "--model.dropout", "0.2", "--seed", "7"])
    settings = {name.rstrip("_"): value for name, value in asdict(config).items()}
    for name in FOUND_OUT:
        del settings["model"][name.partition(".")[2]]
    (tmp_path / "train.yaml").write_text(yaml.safe_dump(settings))
    return tmp_path / "train.yaml"


@pytest.mark.parametrize("form", ["{} {}", "{}={}"])
def test_a_preset_after_a_file_of_all_settings_replaces_what_came_from_the_other(form: str, whole: Path) -> None:
    config: TrainConfig = parse("train", TRAIN, [*form.format("--config", whole).split(), "--preset", "small"])
    assert config == parse("train", TRAIN, [*TEXT, "--preset", "small", "--model.dropout", "0.2", "--seed", "7"])
    before: TrainConfig = parse("train", TRAIN, ["--preset", "small", "--config", str(whole)])  # the later one wins
    assert before == parse("train", TRAIN, ["--config", str(whole)])


def test_fine_tuning_after_a_file_of_all_settings_is_as_gentle_as_without(whole: Path, tmp_path: Path) -> None:
    model = {"d_model": 48, "num_heads": 3}
    (tmp_path / "config.json").write_text(json.dumps({"model": model}))
    config: TrainConfig = parse("train", TRAIN, ["--config", str(whole), "--from", str(tmp_path)])
    for name, value in (FINE_TUNING | {"model.d_model": 48, "model.num_heads": 3, "model.dropout": 0.2}).items():
        group, field = name.split(".")
        assert getattr(getattr(config, group), field) == value


@pytest.mark.parametrize(
    "content",
    [
        f"model:\n  dropout: {PRESETS['base']['model.dropout']}\n",
        f"preset: base\nmodel:\n  dropout: {PRESETS['base']['model.dropout']}\n",
        f"from: ''\nmodel:\n  dropout: {PRESETS['base']['model.dropout']}\n",
    ],
)
def test_what_people_write_into_a_file_is_meant_whatever_it_is(content: str, tmp_path: Path) -> None:
    path = tmp_path / "few.yaml"
    path.write_text(content + "optimizer:\n  epsilon: 1e-8\n")
    assert without_replaced_origins([f"--config={path}", "--preset=tiny"])[0] == f"--config={path}"
    config: TrainConfig = parse("train", TRAIN, [*TEXT, "--config", str(path), "--preset", "tiny"])
    assert (config.model.dropout, config.optimizer.epsilon) == (PRESETS["base"]["model.dropout"], 1e-8)


def test_names_and_numbers_are_the_same_where_a_preset_is_replaced(whole: Path) -> None:
    settings = yaml.safe_load(whole.read_text()) | {"out": 'runs/\U0001f600 ä\x7f\n"', "max_minutes": "1e-1"}
    whole.write_text(yaml.safe_dump(settings))
    plain, replaced = (parse("train", TRAIN, ["--config", str(whole), *more]) for more in ([], ["--preset", "tiny"]))
    assert plain.out == replaced.out == settings["out"]
    assert plain.max_minutes == replaced.max_minutes == 0.1


def test_a_run_whose_parent_is_gone_can_not_tell_what_it_had_chosen(whole: Path, tmp_path: Path) -> None:
    whole.write_text(yaml.safe_dump(yaml.safe_load(whole.read_text()) | {"from": str(tmp_path / "gone")}))
    with pytest.raises(ConfigError, match="gone, which its run fine-tuned, is not there any more"):
        parse("train", TRAIN, ["--config", str(whole), "--from", ""])


@pytest.mark.skipif(not Path("/dev/fd").is_dir(), reason="no pipes with names here")
def test_a_pipe_is_refused_because_it_is_read_more_than_once() -> None:
    reader, writer = os.pipe()
    try:
        with pytest.raises(ConfigError, match="can be read only once; write the settings into a file"):
            parse("train", TRAIN, [*TEXT, "--config", f"/dev/fd/{reader}"])
    finally:
        os.close(reader)
        os.close(writer)


def test_each_setting_of_a_file_is_known_to_be_from_it(tmp_path: Path) -> None:
    path = tmp_path / "few.yaml"
    path.write_text("seed: 3\nmodel:\n  d_model: 64\n")
    assert settings_of([f"--config={path}", "--seed=4"]) == {"seed": str(path), "model.d_model": str(path)}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "has no settings"),
        ("seed: 1\nseed: 2\n", "line 1, column 1: .*seed stands there twice"),
        ("model:\n  d_model: 64\n  d_model: 32\n", "line 2, column 3: .*d_model stands there twice"),
        ("model:\n  d_model:\n", "model.d_model is empty"),
        ("source: no\n", "reads the value of source as false: put it in quotes"),
    ],
)
def test_files_that_mean_something_else_than_they_seem_to_are_refused(content: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text(content)
    with pytest.raises(ConfigError, match=said) as error:
        read_settings(str(path))
    assert str(error.value).startswith(str(path))


def test_a_folder_in_place_of_a_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"a folder; name a file, such as train\.yaml in it"):
        parse("train", TRAIN, [*TEXT, "--config", str(tmp_path)])
