"""The command line: its help, what it refuses, and the settings that it comes to; tests/verbs has what the verbs do."""

from __future__ import annotations

import importlib
import json
import re
import signal
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dragoman
from dragoman.cli.main import VERBS
from dragoman.cli.options import TranslateConfig
from dragoman.config import FINE_TUNING, PRESETS, TrainConfig
from tests.command_calls import RUN, Result, complaint, python, run, settings

# ---- help


@pytest.fixture
def _narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


OVERVIEW: list[str] = []


@pytest.mark.usefixtures("_narrow")
@pytest.mark.parametrize("arguments", [OVERVIEW, *([verb] for verb in VERBS)])
def test_every_help_fits_80_columns(arguments: list[str]) -> None:
    result = run(*arguments, "--help")
    assert result.code == 0
    assert result.err == ""
    assert max(map(len, result.out.splitlines())) <= 80


@pytest.mark.parametrize("verb", list(VERBS))
def test_the_help_of_a_verb_names_every_setting_and_explains_it(verb: str) -> None:
    shown = run(verb, "--help").out
    options = re.findall(r"^  (--[\w.-]+) [^\n]*?(?:\n {24}|  +)(\S.*)", shown, flags=re.MULTILINE)
    assert len(options) >= {"train": 40, "translate": 6, "evaluate": 6}.get(verb, 1)
    assert not [name for name, explanation in options if explanation.startswith("(")]


def test_what_training_finds_out_by_itself_is_no_option() -> None:
    assert "source-vocab-size" not in run("train", "--help").out


def test_the_overview_names_every_verb() -> None:
    shown = run("--help").out
    assert all(re.search(rf"^  {verb} +\S", shown, flags=re.MULTILINE) for verb in VERBS)


def test_nothing_at_all_is_a_usage_error_with_the_overview() -> None:
    result = run()
    assert result.code == 2
    assert result.out == run("--help").out


def test_the_version_is_that_of_the_package() -> None:
    assert run("--version") == Result(0, f"dragoman {dragoman.__version__}\n", "")


def test_the_command_line_does_not_import_pytorch_before_a_verb_runs() -> None:
    code = "import sys, dragoman.cli.main\ntry: dragoman.cli.main(['train', '--help'])\nexcept SystemExit: pass\n"
    code += "sys.exit(sorted({'torch', 'sentencepiece', 'sacrebleu', 'numpy'} & sys.modules.keys()) or 0)"
    process = python("-c", code)
    assert (process.communicate()[1], process.returncode) == (b"", 0)


# ---- usage errors


def test_an_unknown_verb_names_the_nearest() -> None:
    assert "did you mean translate?" in complaint(2, "translat", "model")
    assert "did you mean" not in complaint(2, "xyzzy")


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["translate", "model", "--beem", "3"], "beam"),
        ([*RUN, "--max-stepz", "3"], "max_steps"),
        ([*RUN, "--model.d_modle=64"], "model.d_model"),
        ([*RUN, "--optimiser.warmup_steps", "9"], "optimizer.warmup_steps"),
    ],
)
def test_an_unknown_option_names_the_nearest(arguments: list[str], meant: str) -> None:
    assert f"did you mean {meant}" in complaint(2, *arguments)


@pytest.mark.parametrize(
    ("yaml", "meant"),
    [
        ("max_stepz: 3\n", "max_steps"),
        ("model:\n  d_modle: 64\n", "model.d_model"),
        ("optimiser:\n  warmup_steps: 9\n", "optimizer.warmup_steps"),
    ],
)
def test_an_unknown_key_in_a_yaml_file_names_the_nearest(yaml: str, meant: str, tmp_path: Path) -> None:
    assert f"did you mean {meant}" in complaint(2, *RUN, "--config", settings(tmp_path, yaml))


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([*RUN, "--max_steps", "-1"], "max_steps"),
        ([*RUN, "--max_steps", "many"], "max_steps"),
        ([*RUN, "--max_steps"], "max-steps"),
        ([*RUN, "--model.dropout", "1.5"], "dropout"),
        ([*RUN, "--model.norm", "both"], "model.norm"),
        ([*RUN, "--model.num_heads", "7"], "num_heads"),
        ([*RUN, "--preset", "huge"], "preset"),
        ([*RUN, "--restart", "maybe"], "restart"),
        ([*RUN, "--optimizer.schedule", "linear"], "max_steps"),
        ([*RUN, "--config", "nowhere.yaml"], "nowhere.yaml"),
        ([*RUN, "--out", ""], "out is empty: it needs a value"),
        ([*RUN, "--model.d-model", "0"], "model.d_model must be at least 1"),
        ([*RUN, "--model", "3"], "give one, such as --model.d-model"),
        (["train", "--model", *RUN[1:]], "give one, such as --model.d-model"),
        ([*RUN, "--seed", "a key foo"], "seed must be a whole number, not a key foo"),
        ([*RUN, "--", "x"], "'x' is one word too many"),
        (["figures", ""], "out is empty"),
        (["split", "all", "--source", "en", "--target", "de", "--out", ""], "out is empty"),
        (["inspect", "model", "two", "words"], "'words' is one word too many; text with spaces goes in quotes"),
        (["translate", "model", "--beam", "0"], "beam"),
        (["translate", "model", "--n_best", "9"], "n_best"),
        (["translate", "model", "--format", "xml"], "format"),
        (["average", "run", "--out", "model", "--last", "0"], "last"),
    ],
)
def test_an_impossible_value_is_a_usage_error_that_names_it(arguments: list[str], named: str) -> None:
    assert named in complaint(2, *arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        ["download", "multi30k", "--out"],
        ["split", "all", "--source", "en", "--target", "de", "--out"],
        ["average", "run", "--out"],
        ["inspect", "model", "hello", "--out"],
        ["inspect", "model", "--out", "--", "hello"],
        ["translate", "model", "--beam"],
        ["translate", "model", "--beam", "--n-best", "2"],
        ["translate", "model", "text", "--device"],
        ["train", "--out", "--restart"],
        ["train", "--out", "--seed", "1"],
        ["train", "--model.d-model", "--seed", "1"],
        ["train", "--config"],
        ["train", "--config", "--seed", "1"],
    ],
)
def test_an_option_without_its_value_is_not_taken_for_one_that_stands_alone(arguments: list[str]) -> None:
    options = {"--out", "--beam", "--device", "--model.d-model", "--config"} & {*arguments}
    assert complaint(2, *arguments).endswith(f"{options.pop()} needs a value")


def test_a_value_with_dashes_in_front_is_given_with_a_sign_between() -> None:
    message = complaint(2, "inspect", "model", "hello", "--translation", "--hallo")
    assert message.endswith("one that begins with dashes is given as --translation=--hallo")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [(["translate"], "folder"), (["train", "--source", "en"], "--target"), (["average", "run"], "--out")],
)
def test_a_missing_argument_is_named_and_not_taken_for_an_unknown_one(arguments: list[str], named: str) -> None:
    message = complaint(2, *arguments)
    assert named in message
    assert "unknown" not in message


@pytest.mark.parametrize(
    "yaml",
    [
        b"model: [1\n",
        b"\tfoo",
        b"- a\n- b\n",
        b"foo\n",
        b"preset: huge\n",
        b"preset: [tiny]\n",
        b"max_steps: many\n",
        b"\xff\n",
    ],
)
def test_a_bad_yaml_file_is_a_usage_error(yaml: bytes, tmp_path: Path) -> None:
    path = tmp_path / "settings.yaml"
    path.write_bytes(yaml)
    try:
        complaint(2, *RUN, "--config", path)
    except UnicodeDecodeError as error:
        pytest.fail(repr(error))


# ---- settings


@pytest.fixture
def parse(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """The config that a command line comes to."""

    def parse(*arguments: object) -> Any:
        seen: list[Any] = []
        verb = VERBS[str(arguments[0])]
        module = importlib.import_module(verb.module)
        monkeypatch.setattr(module, verb.function or str(arguments[0]), lambda config: seen.append(config) or 0)
        result = run(*arguments)
        assert result.code == 0, result.err
        assert isinstance(seen[0], verb.config)
        return seen[0]

    return parse


def test_without_options_the_settings_are_the_defaults_of_the_preset(parse: Callable[..., TrainConfig]) -> None:
    config = parse(*RUN)
    assert config.model.d_model == PRESETS["base"]["model.d_model"]
    assert config.text.vocab_size == PRESETS["base"]["text.vocab_size"]
    assert (config.train, config.valid, config.out) == (["text"], [], "out")


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("form", [["--preset", "{}"], ["--preset={}"]])
def test_a_preset_sets_the_starting_values(form: list[str], preset: str, parse: Callable[..., TrainConfig]) -> None:
    config = parse(*RUN, *(part.format(preset) for part in form))
    assert config.preset == preset
    for key, value in PRESETS[preset].items():
        group, name = key.split(".")
        assert getattr(getattr(config, group), name) == value


@pytest.mark.parametrize("order", [1, -1])
def test_explicit_options_win_over_the_preset_wherever_they_stand(
    order: int, parse: Callable[..., TrainConfig]
) -> None:
    options = [["--preset", "tiny"], ["--model.d_model", "32"]][::order]
    config = parse(*RUN, *options[0], *options[1])
    assert config.model.d_model == 32
    assert config.model.d_ff == PRESETS["tiny"]["model.d_ff"]


def test_underscores_and_dashes_mean_the_same(parse: Callable[..., TrainConfig]) -> None:
    config = parse(*RUN, "--max_steps=5", "--model.d_ff", "99", "--max-minutes", "2.5")
    assert config == parse(*RUN, "--max-steps", "5", "--model.d-ff=99", "--max_minutes=2.5")
    assert (config.max_steps, config.model.d_ff, config.max_minutes) == (5, 99, 2.5)


def test_underscores_in_values_stay(parse: Callable[..., TrainConfig]) -> None:
    config = parse(*RUN[:-4], "--out=my_model_dir", "--train", "my_text", "--valid", "a_b", "c_d,e_f")
    assert (config.out, config.train, config.valid) == ("my_model_dir", ["my_text"], ["a_b", "c_d,e_f"])


def test_a_yaml_file_sets_what_options_set(parse: Callable[..., TrainConfig], tmp_path: Path) -> None:
    yaml = "max_steps: 7\nvalid: [a, b]\nmodel:\n  d_model: 64\n  norm: pre\noptimizer:\n  lr_scale: 2e-3\n"
    config = parse(*RUN, "--config", settings(tmp_path, yaml))
    options = ["--max_steps", "7", "--valid", "a", "b", "--model.d_model", "64", "--model.norm", "pre"]
    assert config == parse(*RUN, *options, "--optimizer.lr_scale", "0.002")


def test_of_yaml_and_options_the_later_wins(parse: Callable[..., TrainConfig], tmp_path: Path) -> None:
    path = settings(tmp_path, "max_steps: 7\n")
    assert parse(*RUN, "--config", path, "--max_steps", "8").max_steps == 8
    assert parse(*RUN, "--max_steps", "8", "--config", path).max_steps == 7


def test_a_yaml_file_may_choose_the_preset_and_change_it(parse: Callable[..., TrainConfig], tmp_path: Path) -> None:
    config = parse(*RUN, "--config", settings(tmp_path, "model:\n  d_ff: 96\npreset: tiny\n"))
    assert config.preset == "tiny"
    assert (config.model.d_model, config.model.d_ff) == (PRESETS["tiny"]["model.d_model"], 96)
    later = parse(*RUN, "--config", tmp_path / "settings.yaml", "--preset", "small")
    assert (later.preset, later.model.d_model, later.model.d_ff) == ("small", PRESETS["small"]["model.d_model"], 96)


@pytest.mark.filterwarnings("ignore:.*")
def test_an_abbreviated_option_is_refused_because_a_preset_would_not_be_noticed() -> None:
    complaint(2, *RUN, "--pres", "tiny")


def test_one_text_in_a_yaml_file_instead_of_a_list_is_an_error_that_names_it(tmp_path: Path) -> None:
    assert "valid" in complaint(2, *RUN, "--config", settings(tmp_path, "valid: text\n")).replace("invalid", "")


def test_the_search_can_be_set_from_the_command_line(parse: Callable[..., TranslateConfig]) -> None:
    config = parse("translate", "model", "input.txt", "--beam", "7", "--length_penalty=1", "--n-best", "2")
    assert (config.folder, config.file) == ("model", "input.txt")
    assert (config.beam, config.length_penalty, config.n_best) == (7, 1.0, 2)


@pytest.mark.parametrize("value", [[], ["true"], ["false"]])
def test_switches_below_a_group_may_stand_alone_too(value: list[str], parse: Callable[..., TrainConfig]) -> None:
    config = parse(*RUN, "--clean.copies", *value, "--accept-changes", *value, "--max_steps", 3)
    assert config.clean.copies is (value != ["false"])
    assert config.accept_changes is (value != ["false"])
    assert config.max_steps == 3
    assert not config.clean.ratio
    assert config.clean.overlap


@pytest.fixture
def parent(tmp_path: Path) -> Path:
    """A folder with the configuration of a model, and nothing else."""
    model = {"d_model": 48, "d_ff": 96, "num_heads": 3, "dropout": 0.2, "norm": "pre", "source_vocab_size": 500}
    (tmp_path / "parent").mkdir()
    (tmp_path / "parent" / "config.json").write_text(json.dumps({"model_type": "dragoman", "model": model}))
    return tmp_path / "parent"


@pytest.mark.parametrize("form", ["option", "attached", "yaml"])
def test_fine_tuning_starts_from_the_shape_of_its_parent_and_gentle_steps(
    form: str, parent: Path, parse: Callable[..., TrainConfig], tmp_path: Path
) -> None:
    given = {
        "option": ["--from", str(parent)],
        "attached": [f"--from={parent}"],
        "yaml": ["--config", str(settings(tmp_path, f"from: {parent}\n"))],
    }[form]
    config = parse(*RUN, *given, "--preset", "tiny", "--validation.every", 7)
    assert config.from_ == str(parent)
    assert (config.model.d_model, config.model.d_ff, config.model.num_heads) == (48, 96, 3)
    assert (config.model.norm, config.model.dropout) == ("pre", 0.2)
    assert config.model.num_encoder_layers == PRESETS["tiny"]["model.num_encoder_layers"]  # the parent does not say
    expected = FINE_TUNING | {"validation.every": 7}
    for key, value in expected.items():
        group, name = key.split(".")
        assert getattr(getattr(config, group), name) == value


def test_without_a_parent_nothing_of_fine_tuning_is_felt(parse: Callable[..., TrainConfig]) -> None:
    assert parse(*RUN, "--from", "") == parse(*RUN)
    assert parse(*RUN).from_ == ""


@pytest.mark.parametrize("content", [None, "", "[]", "{}", '{"model": 3}', "\xff"])
def test_a_parent_without_a_usable_configuration_is_left_to_training(
    content: str | None, parent: Path, parse: Callable[..., TrainConfig]
) -> None:
    (parent / "config.json").unlink()
    if content is not None:
        (parent / "config.json").write_bytes(content.encode("latin-1"))
    assert parse(*RUN, "--from", parent).model.d_model == PRESETS["base"]["model.d_model"]


# ---- what the fuzz tests have found


def test_train_without_any_argument_says_what_it_needs() -> None:
    assert "--source, --target, --train, --out" in complaint(2, "train")


BOMB = "a0: &a0 [x, x, x]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 8))


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    ("yaml", "said"),
    [
        (BOMB + "train: *a7\n", "a1 is nested more deeply"),
        ("model: &a {d_model: *a}\n", "model is nested more deeply"),
        ("[" * 5000, "not YAML"),
        ("{a: " * 5000, "not YAML"),
        ("seed: [1\n", "line 2, column 1"),
        ("clean:\n", "clean is empty"),
        ("valid: ''\n", "valid is a list"),
        ("valid: {a: b, c: d}\n", "valid is a list"),
        ("clean: true\n", "clean is no setting but a group"),
        ("model: [d_model, 16]\n", "model is no setting but a group"),
        ("- 1\n", "lines such as"),
        ("1: 2\n", "lines such as"),
        ('out: "a\\0b"\n', "out contains a NUL"),
        ('out: "\\ud800"\n', "escape"),
        ("train: [[a]]\n", "train"),
        ("seed: {a: 1}\n", "seed"),
    ],
)
def test_settings_that_are_none_are_refused_at_once(yaml: str, said: str, tmp_path: Path) -> None:
    message = complaint(2, *RUN, "--config", settings(tmp_path, yaml))
    assert said in message
    assert len(message) < 1000


def test_names_with_line_breaks_are_told_in_one_line(tmp_path: Path) -> None:
    message = complaint(1, "translate", tmp_path / "line\nbreak\x1b[2J")
    assert "line\\nbreak\\x1b[2J" in message


@pytest.mark.parametrize(("option", "kind"), [("--beam", "a whole number"), ("--length-penalty", "a number")])
def test_an_empty_value_is_called_nothing(option: str, kind: str) -> None:
    assert f"must be {kind}, not nothing" in complaint(2, "translate", "model", option, "")


@pytest.mark.parametrize("value", ["true", "null", "[1]", "3"])
def test_a_group_of_settings_that_is_none_is_named(value: str, tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(f"source: en\ntarget: de\ntrain: [x]\nout: {tmp_path / 'out'}\nclean: {value}\n")
    assert "clean" in complaint(2, "train", "--config", file)


@pytest.mark.parametrize("verb", ["score", "evaluate"])
def test_usage_puts_what_a_list_would_swallow_before_it(verb: str) -> None:
    assert f"usage: dragoman {verb} folder --test TEXT [TEXT ...] [options]" in run(verb, "--help").out
    message = complaint(2, verb, "--test", "text", "model")
    assert "required: folder; write it before --test" in message


def test_evaluate_offers_no_setting_that_changes_no_score() -> None:
    assert "n_best" in complaint(2, "evaluate", "model", "--test", "text", "--n-best", "3")


def test_closed_output_is_no_traceback() -> None:
    close = "import os, sys; os.close(1); os.execv(sys.executable, [sys.executable, '-m', 'dragoman', '--version'])"
    process = python("-c", close)
    assert process.communicate(timeout=60) == (b"", b"")
    assert process.returncode == 0


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="no terminal hangs up here")
@pytest.mark.parametrize("ignored", [True, False])
def test_a_verb_ends_with_its_terminal_unless_it_was_to_outlive_it(
    ignored: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN if ignored else signal.SIG_DFL)
    monkeypatch.setattr("dragoman.cli.translate.average", lambda config: signal.raise_signal(signal.SIGHUP) or 0)
    try:
        assert run("average", "run", "--out", "model").code == (0 if ignored else 129)
        assert signal.getsignal(signal.SIGHUP) is (signal.SIG_IGN if ignored else signal.SIG_DFL)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_library_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dragoman.cli.translate", None)  # what Python raises then is an error of ours
    with pytest.raises(ModuleNotFoundError):
        run("average", "run", "--out", "model")
    missing = ModuleNotFoundError("No module named 'matplotlib'", name="matplotlib")
    monkeypatch.setattr("dragoman.cli.main.importlib", types.SimpleNamespace(import_module=raising(missing)))
    assert "the library matplotlib is not installed" in complaint(1, "average", "run", "--out", "model")


def raising(error: Exception) -> Callable[..., Any]:
    def fail(*arguments: object) -> None:
        raise error

    return fail
