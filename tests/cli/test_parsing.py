"""From words and settings files to the config of a verb, or to one sentence about what is wrong."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dragoman.cli.main import VERBS
from dragoman.cli.options import TranslateConfig
from dragoman.cli.parsing import parse
from dragoman.config import FINE_TUNING, PRESETS, ConfigError, TrainConfig
from dragoman.train import _as_yaml

TEXT = ["--source", "en", "--target", "de", "--train", "text", "--out", "out"]


def parsed(name: str, *words: object) -> Any:
    """The config of a verb."""
    return parse(name, VERBS[name], list(map(str, words)))


def refusal(name: str, *words: object) -> str:
    """Why the words are refused."""
    with pytest.raises(ConfigError) as error:
        parsed(name, *words)
    assert len(str(error.value)) < 500
    return str(error.value)


@pytest.fixture
def training() -> Callable[..., TrainConfig]:
    return lambda *words: parsed("train", *TEXT, *words)


@pytest.fixture
def file(tmp_path: Path) -> Callable[[str], Path]:
    """Writes a settings file."""

    def write(content: str) -> Path:
        (tmp_path / "settings.yaml").write_bytes(content.encode("latin-1", errors="replace"))
        return tmp_path / "settings.yaml"

    return write


def setting(config: TrainConfig, name: str) -> Any:
    group, _, inner = name.partition(".")
    return getattr(getattr(config, group), inner)


# ---- words


def test_options_stand_in_any_order_and_positionals_among_them() -> None:
    expected = TranslateConfig(folder="m", file="f", beam=2, length_penalty=1.0, alignments="auto")
    options = ["--beam", "2", "--length_penalty=1"]
    assert parsed("translate", "m", "f", *options, "--alignments") == expected
    assert parsed("translate", *options, "--alignments", "m", "f") == expected
    assert parsed("translate", "m", "--alignments", *options, "f") == expected


def test_dashes_and_underscores_mean_the_same_in_options_and_stay_in_values(training: Any) -> None:
    config = training("--max_steps=5", "--model.d_ff", 99, "--valid", "a_b", "c_d,e-f")
    assert config == training("--max-steps", 5, "--model.d-ff=99", "--valid", "a_b", "c_d,e-f")
    assert (config.max_steps, config.model.d_ff, config.valid) == (5, 99, ["a_b", "c_d,e-f"])


@pytest.mark.parametrize("value", [[], ["true"], ["false"]])
def test_switches_may_stand_alone(value: list[str], training: Any) -> None:
    config = training("--clean.copies", *value, "--accept-changes", *value, "--max-steps", 3)
    assert (config.clean.copies, config.accept_changes) == (value != ["false"],) * 2
    inspection = parsed("inspect", "m", "--text", *value, "sentence")
    assert (inspection.sentence, inspection.text) == ("sentence", value != ["false"])
    assert parsed("evaluate", "--tokenized", *value, "m", "--test", "x").tokenized is (value != ["false"])


def test_what_stands_after_two_dashes_is_no_option() -> None:
    config = parsed("evaluate", "--test", "a", "--", "--test")
    assert (config.folder, config.test) == ("--test", ["a"])
    assert parsed("inspect", "m", "--text", "--", "--an_odd sentence").sentence == "--an_odd sentence"


def test_words_that_yaml_would_change_stay_text() -> None:
    config = parsed("inspect", "m", "1e3", "--translation", "null", "--out", "no")
    assert (config.sentence, config.translation, config.out) == ("1e3", "null", "no")
    assert parsed("inspect", "m", "a", "--translation", "").translation == ""
    assert parsed("inspect", "m", "a").translation is None


# ---- refusals


@pytest.mark.parametrize(
    ("name", "words", "said"),
    [
        ("translate", ["m", "--beem", "3"], "unknown option --beem (did you mean --beam?)"),
        ("translate", ["m", "--file", "x"], "unknown option --file"),
        ("train", [*TEXT, "--optimiser.warmup_steps=9"], "did you mean --optimizer.warmup-steps?"),
        ("train", [*TEXT, "--max_steps", "-1"], "max_steps must be between 0 and 1,000,000,000, not -1"),
        ("train", [*TEXT, "--max_steps", "many"], "max_steps must be a whole number, not 'many'"),
        ("train", ["--out", "--restart"], "--out needs a value"),
        ("train", [*TEXT, "--model.norm", "both"], "model.norm must be one of post, pre, not 'both'"),
        ("train", [*TEXT, "--model", "3"], "unknown option --model"),
        ("train", [*TEXT, "--preset", "smal"], "preset must be one of auto, tiny, small, fast, base, big, not 'smal'"),
        ("train", [*TEXT, "--config", "nowhere.yaml"], "nowhere.yaml: No such file"),
        ("train", [], "required: --source, --target, --train, --out (usage: dragoman train"),
        ("evaluate", ["--test", "text", "m"], "required: folder (usage: dragoman evaluate folder --test TEST …"),
        ("evaluate", ["m", "--test", "x", "--n-best", "3"], "unknown option --n-best"),
        ("evaluate", ["m", "--test", "a", "--beam", "1", "--test", "b"], "--test is given twice"),
        ("inspect", ["m", "two", "words"], "unexpected argument 'words'; text with spaces goes in quotes"),
    ],
)
def test_a_wrong_word_is_named(name: str, words: list[str], said: str) -> None:
    assert said in refusal(name, *words)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("max_stepz: 3\n", "unknown setting max_stepz (did you mean max_steps?)"),
        ("preset: huge\n", "preset must be one of auto, tiny, small, fast, base, big, not 'huge'"),
        ("seed: {a: 1}\n", "seed must be a whole number"),
        ("source: no\n", "source must be text, not False"),
        ("valid: text\n", "valid must be a list, such as [a, b], not 'text'"),
        ("clean: true\n", "unknown setting clean (did you mean clean."),
        ("seed: 1\nout:\n", "required: --out"),
        ('out: "a\\0b"\n', "out is not text"),
        ("[" * 5000, "can't be understood"),
        ("\xff\n", "can't be understood"),
        ("- a\n", "has no settings"),
        ("model: &a {d_model: *a}\n", "model.d_model must be a whole number"),
        ("model:\n  d_model: -3\n", "model.d_model must be between 1 and"),
    ],
)
def test_a_wrong_settings_file_is_refused(content: str, said: str, file: Any) -> None:
    assert said in refusal("train", *TEXT, "--config", file(content))


# ---- settings files and presets


def test_a_settings_file_is_as_good_as_options(training: Any, file: Any) -> None:
    path = file("max_steps: 7\nvalid: [a, b]\nmodel:\n  d_model: 64\n  norm: pre\noptimizer:\n  lr_scale: 2e-3\n")
    options = ["--max_steps", 7, "--valid", "a", "b", "--model.d_model", 64, "--model.norm", "pre"]
    assert training("--config", path) == training(*options, "--optimizer.lr_scale", "0.002")


def test_of_files_and_options_the_last_wins(training: Any, file: Any) -> None:
    path = file("max_steps: 7\n")
    assert training("--config", path, "--max_steps", 8).max_steps == 8
    assert training("--max_steps", 8, "--config", path).max_steps == 7


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_fills_what_nobody_chose(preset: str, training: Any, file: Any) -> None:
    path = file(f"model:\n  d_ff: 96\npreset: {preset}\n")
    for words in (
        ["--preset", preset, "--model.d-ff", 96],
        ["--model.d-ff", 96, f"--preset={preset}"],
        ["--config", path],
    ):
        config = training(*words)
        found = {name: setting(config, name) for name in PRESETS[preset]}
        assert found == PRESETS[preset] | {"model.d_ff": 96}
        assert config.preset == preset


@pytest.mark.parametrize(
    ("words", "schedule"),
    [
        (["--preset", "small"], "inverse-sqrt"),
        (["--preset", "small", "--max-steps", 9], "linear"),
        (["--preset", "tiny", "--max-minutes", 9], "linear"),
        (["--preset", "fast", "--max-steps", 9, "--optimizer.schedule", "cosine"], "cosine"),
        (["--preset", "small", "--max-steps", 9, "--from", "parent"], "inverse-sqrt"),
        (["--preset", "base", "--max-steps", 9], "paper"),
    ],
)
def test_with_a_limit_the_learning_rate_of_small_presets_falls_to_zero(
    words: list[Any], schedule: str, training: Any
) -> None:
    assert training(*words).optimizer.schedule == schedule


@pytest.fixture
def parent(tmp_path: Path) -> Path:
    """A folder with the configuration of a model, and nothing else."""
    model = {"d_model": 48, "d_ff": 96, "num_heads": 3, "dropout": 0.2, "norm": "pre", "source_vocab_size": 500}
    (tmp_path / "parent").mkdir()
    (tmp_path / "parent" / "config.json").write_text(json.dumps({"model_type": "dragoman", "model": model}))
    return tmp_path / "parent"


def test_fine_tuning_starts_from_its_parents_shape_and_small_steps(parent: Path, training: Any, file: Any) -> None:
    for words in (["--from", parent], ["--config", file(f"from: {parent}\n")]):
        config = training(*words, "--preset", "tiny", "--validation.every", 7)
        assert config.from_ == str(parent)
        assert (config.model.d_model, config.model.d_ff, config.model.num_heads) == (48, 96, 3)
        assert (config.model.norm, config.model.dropout) == ("pre", 0.2)
        assert config.model.num_encoder_layers == 4, "of the preset, as the parent does not say"
        assert config.model.source_vocab_size == training().model.source_vocab_size, "training finds it out"
        gentle = FINE_TUNING | {"validation.every": 7}
        assert {name: setting(config, name) for name in gentle} == gentle


@pytest.mark.parametrize("content", [None, "", "[]", "{}", '{"model": 3}', "\xff"])
def test_a_parent_without_a_readable_configuration_is_left_to_training(
    content: str | None, parent: Path, training: Any
) -> None:
    (parent / "config.json").unlink()
    if content is not None:
        (parent / "config.json").write_bytes(content.encode("latin-1"))
    assert training("--from", parent).model.d_model == PRESETS["base"]["model.d_model"]


@pytest.mark.parametrize("words", [["--preset", "small", "--seed", "5"], ["--from", "parent", "--test", "x"]])
def test_the_settings_that_a_run_saves_give_the_same_settings(
    words: list[str], training: Any, tmp_path: Path, parent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = replace(training(*words), out='runs/\U0001f600 ä\x7f\n"')
    (tmp_path / "train.yaml").write_bytes(_as_yaml(config))
    assert parsed("train", "--config", "train.yaml") == config
    assert parsed("train", "--config", "train.yaml", "--max-steps", 3) == replace(config, max_steps=3)


def test_settings_that_are_printed_can_be_read_again(file: Any, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*TEXT, "--preset", "small", "--model.d-ff", "96"]
    with pytest.raises(SystemExit):
        parsed("train", *words, "--print-config")
    assert parsed("train", "--config", file(capsys.readouterr().out)) == parsed("train", *words)


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (["--optimizer.peak-lr", "3e-4"], "choose --optimizer.lr-scale"),
        (["--optimizer.peak_lr=0.001"], "choose --optimizer.lr-scale"),  # although it is the default
        (["--optimizer.lr-scale", "2", "--preset", "small"], "choose --optimizer.peak-lr"),
    ],
)
def test_a_learning_rate_that_the_schedule_ignores_is_refused(words: list[str], advice: str) -> None:
    assert advice in refusal("train", *TEXT, *words)


def test_a_learning_rate_of_a_preset_or_a_file_may_be_left_unused(training: Any, file: Any) -> None:
    assert training("--preset", "small", "--optimizer.schedule", "paper").optimizer.schedule == "paper"
    path = file("preset: small\noptimizer:\n  peak_lr: 0.1\n")
    for words in (["--optimizer.schedule", "paper", "--optimizer.lr-scale", "2"], ["--preset", "base"]):
        assert training("--config", path, *words).optimizer.schedule == "paper"
