"""From words to settings: the same ones, however they are written. What users see is tested with the command line."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dragoman.cli.main import VERBS
from dragoman.cli.options import TranslateConfig
from dragoman.cli.parsing import TRAIN, first_sentence, in_utf8, nearest, on_one_line, parse
from dragoman.config import ConfigError, TrainConfig

TEXT = ["--source", "en", "--target", "de", "--train", "a", "b", "--out", "model"]


def test_lists_and_groups_find_their_fields() -> None:
    config: TrainConfig = parse("train", TRAIN, [*TEXT, "--model.d-model", "64", "--optimizer.lr_scale=1e-4"])
    assert (config.train, config.model.d_model, config.optimizer.lr_scale) == (["a", "b"], 64, 1e-4)


def test_the_order_of_options_does_not_matter_and_positionals_stand_anywhere() -> None:
    ways = [["m", "f", "--beam", "2"], ["--beam", "2", "m", "f"], ["m", "--beam=2", "f"]]
    assert {parse("translate", VERBS["translate"], way) for way in ways} == {
        TranslateConfig(folder="m", file="f", beam=2)
    }


@pytest.mark.parametrize("preset", ["tiny", "small", "base", "big"])
def test_a_file_of_all_settings_gives_the_same_settings(preset: str, tmp_path: Path) -> None:
    config: TrainConfig = parse("train", TRAIN, [*TEXT, "--preset", preset, "--seed", "5"])
    settings = {name.rstrip("_"): value for name, value in asdict(config).items()}
    for name in TRAIN.hidden:
        del settings["model"][name.partition(".")[2]]
    (tmp_path / "all.yaml").write_text(yaml.safe_dump(settings))
    assert parse("train", TRAIN, ["--config", str(tmp_path / "all.yaml")]) == config


def test_what_comes_later_wins(tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text("seed: 3\nmax_steps: 7\n")
    config: TrainConfig = parse("train", TRAIN, [*TEXT, "--config", str(tmp_path / "one.yaml"), "--seed", "4"])
    assert (config.seed, config.max_steps) == (4, 7)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("train", [*TEXT, "--train", "c"]),
        ("train", [*TEXT, "--valid=a", "--valid", "b"]),
        ("evaluate", ["m", "--test", "a", "--beam", "1", "--test", "b"]),
        ("compare", ["--system", "a", "--system", "b"]),
        ("reproduce", ["--seeds", "1", "--seeds=2", "--", "recipe"]),
        ("split", ["--train", "x", "--text", "a", "--text", "b"]),
    ],
)
def test_a_list_in_two_parts_is_refused_for_the_first_would_be_lost(name: str, words: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"--(\w+) is given twice: give all of its values after one --\1$"):
        parse(name, VERBS[name], words)


def test_what_stands_after_two_dashes_is_no_option() -> None:
    config = parse("evaluate", VERBS["evaluate"], ["--test", "a", "--", "--test"])
    assert (config.folder, config.test) == ("--test", ["a"])


@pytest.mark.parametrize("name", VERBS)
def test_what_a_verb_is_for_fits_into_a_sentence(name: str) -> None:
    sentence = first_sentence(VERBS[name].config)
    assert sentence
    assert not sentence.endswith(".")


@given(st.text())
def test_messages_stay_on_one_line(text: str) -> None:
    assert on_one_line(text).isprintable()


def test_a_near_name_is_suggested_and_a_far_one_not() -> None:
    assert nearest("trian", VERBS) == " (did you mean train?)"
    assert nearest("xyzzy", VERBS) == ""


def test_bytes_that_are_no_text_are_refused() -> None:
    assert in_utf8("é") == "é"
    with pytest.raises(ConfigError, match="can't be written in UTF-8"):
        in_utf8("caf\udce9")


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (["--optimizer.peak-lr", "3e-4"], "give --optimizer.lr-scale"),
        (["--optimizer.peak_lr=0.001"], "give --optimizer.lr-scale"),  # as much as it is anyway
        (["--optimizer.lr-scale", "2", "--preset", "small"], "give --optimizer.peak-lr"),
        (["--optimizer.lr-scale", "2", "--from", "parent"], "give --optimizer.peak-lr"),
    ],
)
def test_a_learning_rate_that_the_schedule_would_ignore_is_refused(
    words: list[str], advice: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "parent").mkdir()
    (tmp_path / "parent" / "config.json").write_text('{"model": {"d_model": 64}}')
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=advice):
        parse("train", TRAIN, [*TEXT, *words])


def test_the_rate_of_a_preset_or_of_a_file_may_be_left_unused(tmp_path: Path) -> None:
    config: TrainConfig = parse("train", TRAIN, [*TEXT, "--preset", "small", "--optimizer.schedule", "paper"])
    assert config.optimizer.schedule == "paper"
    (tmp_path / "mine.yaml").write_text("preset: small\noptimizer:\n  peak_lr: 0.1\n")
    given = [*TEXT, "--config", str(tmp_path / "mine.yaml")]
    for words in (["--optimizer.schedule", "paper", "--optimizer.lr-scale", "2"], ["--preset", "base"]):
        config = parse("train", TRAIN, [*given, *words])
        assert config.optimizer.schedule == "paper"


@pytest.mark.parametrize(
    ("yaml", "said"),
    [
        ("optimizer:\n  peak_lr: 0.1\n", "mine.yaml: optimizer.peak_lr means nothing"),
        ("model:\n  d_model: -3\n", "mine.yaml: model.d_model must be at least 1"),
        ("text:\n  vocab_size: 3\n", "mine.yaml: text.vocab_size (256 of the subwords are the bytes) must be at least"),
    ],
)
def test_what_is_wrong_in_a_file_is_said_with_its_name(
    yaml: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text(yaml)
    with pytest.raises(ConfigError) as error:
        parse("train", TRAIN, [*TEXT, "--config", "mine.yaml"])
    assert str(error.value).startswith(said)


def test_a_file_is_not_blamed_for_an_option(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.yaml").write_text("model:\n  d_model: 64\n")
    given = [*TEXT, "--config", str(tmp_path / "mine.yaml")]
    with pytest.raises(ConfigError) as error:
        parse("train", TRAIN, [*given, "--model.d-model", "-1"])
    assert str(error.value).startswith("model.d_model must be")
    with pytest.raises(SystemExit):
        parse("train", TRAIN, [*given, "--model.d-modell", "1"])
    assert "dragoman train: unknown setting model.d_modell (did you mean model.d_model?)" in capsys.readouterr().err
