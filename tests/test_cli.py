"""The command line, from the help to a trained model and back out as translations."""

from __future__ import annotations

import importlib
import io
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from sacrebleu.metrics import BLEU

import dragoman
from dragoman.checkpoint import ModelFolder, average_weights, list_checkpoints, read_weights, save_weights
from dragoman.cli import VERBS, main
from dragoman.config import TrainConfig
from dragoman.options import TranslateConfig
from dragoman.presets import FINE_TUNING, PRESETS
from dragoman.training.state import list_states

SUBJECTS = {"the cat": "die Katze", "the dog": "der Hund", "a bird": "ein Vogel", "my friend": "mein Freund"}
VERB_FORMS = {"sees": "sieht", "likes": "mag", "hears": "hört"}
OBJECTS = {"the house": "das Haus", "an apple": "einen Apfel", "the river": "den Fluss", "the sun": "die Sonne"}


@dataclass(frozen=True)
class Result:
    """How a command ended and what it wrote."""

    code: int
    out: str
    err: str


def run(*arguments: object, stdin: bytes | None = b"") -> Result:
    """Run the command line in this process."""
    out, err, before = io.StringIO(), io.StringIO(), sys.stdin
    sys.stdin = None if stdin is None else io.TextIOWrapper(io.BytesIO(stdin))
    try:
        with redirect_stdout(out), redirect_stderr(err):
            code = main([str(argument) for argument in arguments])
    except SystemExit as leave:
        code = int(leave.code or 0)
    finally:
        sys.stdin = before
    assert "Traceback" not in err.getvalue()
    return Result(code, out.getvalue(), err.getvalue())


def complaint(code: int, *arguments: object, stdin: bytes | None = b"") -> str:
    """The last line on stderr of a command that fails with this code."""
    result = run(*arguments, stdin=stdin)
    assert (result.code, result.out) == (code, "")
    line = result.err.splitlines()[-1]
    assert line.startswith("dragoman")
    return line


def python(*arguments: object, **options: Any) -> subprocess.Popen[bytes]:
    """Run Python in a process of its own."""
    pipe = subprocess.PIPE
    command = [sys.executable, *map(str, arguments)]
    return subprocess.Popen(command, **({"stdin": pipe, "stdout": pipe, "stderr": pipe} | options))


def write_text(prefix: Path, count: int, seed: int = 1) -> Path:
    choose = random.Random(seed).choice
    rows = [(choose(list(SUBJECTS)), choose(list(VERB_FORMS)), choose(list(OBJECTS))) for _ in range(count)]
    english = "".join(f"{s} {v} {o} .\n" for s, v, o in rows)
    german = "".join(f"{SUBJECTS[s]} {VERB_FORMS[v]} {OBJECTS[o]} .\n" for s, v, o in rows)
    prefix.with_suffix(".en").write_text(english, encoding="utf-8")
    prefix.with_suffix(".de").write_text(german, encoding="utf-8")
    return prefix


TINY = ["--preset", "tiny", "--model.d_model", "16", "--model.d_ff", "32", "--model.num_heads", "2"]
TINY += ["--model.num_encoder_layers", "1", "--model.num_decoder_layers", "1", "--text.vocab_size", "330"]
TINY += ["--device", "cpu", "--precision", "fp32", "--validation.max_lines", "2", "--optimizer.batch_tokens", "200"]
TINY += ["--model.max_length", "64", "--text.max_length", "60"]


def train(text: Path, out: Path, *more: object) -> list[str]:
    """The arguments of a very small training run: four steps, two validations."""
    arguments = ["train", "--source", "en", "--target", "de", "--train", text / "train", "--valid", text / "valid"]
    return list(map(str, [*arguments, "--out", out, *TINY, "--max_steps", 4, "--validation.every", 2, *more]))


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("text")
    write_text(folder / "train", 60)
    write_text(folder / "valid", 6, seed=2)
    write_text(folder / "test", 7, seed=3)
    return folder


@pytest.fixture(scope="module")
def trained(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run; tests that change it take a copy."""
    out = tmp_path_factory.mktemp("run") / "model"
    result = run(*train(text, out))
    assert result.code == 0, result.err
    return out


@pytest.fixture
def copy(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "model"))


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
    code = "import sys, dragoman, dragoman.cli\ntry: dragoman.cli.main(['train', '--help'])\nexcept SystemExit: pass\n"
    code += "sys.exit(sorted({'torch', 'sentencepiece', 'sacrebleu', 'numpy'} & sys.modules.keys()) or 0)"
    process = python("-c", code)
    assert (process.communicate()[1], process.returncode) == (b"", 0)


# ---- usage errors

RUN = ["train", "--source", "en", "--target", "de", "--train", "text", "--out", "out"]


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
        (["translate", "model", "--beam", "0"], "beam"),
        (["translate", "model", "--n_best", "9"], "n_best"),
        (["translate", "model", "--format", "xml"], "format"),
        (["average", "run", "--out", "model", "--last", "0"], "last"),
    ],
)
def test_an_impossible_value_is_a_usage_error_that_names_it(arguments: list[str], named: str) -> None:
    assert named in complaint(2, *arguments)


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


def settings(folder: Path, yaml: str) -> Path:
    path = folder / "settings.yaml"
    path.write_text(yaml)
    return path


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
    yaml = "max_steps: 7\nvalid: [a, b]\nmodel:\n  d_model: 64\n  norm: pre\noptimizer:\n  peak_lr: 2e-3\n"
    config = parse(*RUN, "--config", settings(tmp_path, yaml))
    options = ["--max_steps", "7", "--valid", "a", "b", "--model.d_model", "64", "--model.norm", "pre"]
    assert config == parse(*RUN, *options, "--optimizer.peak_lr", "0.002")


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


# ---- training


def checkpoint_steps(out: Path) -> list[str]:
    return [path.stem for path in list_checkpoints(out)]


def same_weights(first: Path, second: Path) -> bool:
    ours, others = (read_weights(folder / "model.safetensors") for folder in (first, second))
    return ours.keys() == others.keys() and all(torch.equal(ours[name], others[name]) for name in ours)


def test_training_leaves_a_model_folder_with_records_and_checkpoints(text: Path, trained: Path) -> None:
    sides = [
        [(text / f"{name}.{side}").read_text().split("\n")[:-1] for side in ("en", "de")] for name in ("train", "valid")
    ]
    pairs, held_out = (list(zip(*part, strict=True)) for part in sides)
    unseen = [pair for pair in pairs if pair not in held_out]
    assert len(unseen) < len(pairs) == 60
    assert ModelFolder.load(trained).direction.facts["training pairs"] == len(unseen)
    assert checkpoint_steps(trained) == ["step-00000002", "step-00000004"]
    lines = [json.loads(line) for line in (trained / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if "valid/loss" in line] == [2, 4]


def test_a_finished_run_says_so_and_changes_nothing(text: Path, copy: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in copy.rglob("*") if path.is_file()}
    result = run(*train(text, copy))
    assert (result.code, result.out) == (0, "")
    assert "already finished" in result.err
    assert {path: path.stat().st_mtime_ns for path in copy.rglob("*") if path.is_file()} == before


def test_a_finished_run_given_more_room_goes_on(text: Path, copy: Path) -> None:
    result = run(*train(text, copy, "--max_steps", 6))
    assert result.code == 0
    assert "continuing after step 4" in result.err
    assert checkpoint_steps(copy)[-1] == "step-00000006"


def test_the_same_command_gives_the_same_model(text: Path, trained: Path, tmp_path: Path) -> None:
    assert run(*train(text, tmp_path / "again")).code == 0
    assert same_weights(tmp_path / "again", trained)
    assert run(*train(text, tmp_path / "other", "--seed", 2)).code == 0
    assert not same_weights(tmp_path / "other", trained)


def test_a_restart_begins_again(text: Path, copy: Path, trained: Path) -> None:
    result = run(*train(text, copy, "--restart", "true"))
    assert result.code == 0
    assert "continuing" not in result.err
    assert same_weights(copy, trained)


def test_a_switch_may_stand_alone(text: Path, copy: Path, trained: Path) -> None:
    result = run(*train(text, copy, "--restart", "--max_minutes", 9))
    assert result.code == 0
    assert "continuing" not in result.err
    assert same_weights(copy, trained)


def test_without_validation_text_some_pairs_are_held_out(text: Path, tmp_path: Path) -> None:
    arguments = train(text, tmp_path / "model")
    at = arguments.index("--valid")
    del arguments[at : at + 2]
    assert run(*arguments).code == 0
    assert (tmp_path / "model" / "heldout.en").read_text()


@pytest.fixture
def stop_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Let SIGTERM arrive during a step of training; 0 stops that."""
    from dragoman.training.trainer import Trainer

    train_step = Trainer._train_step

    def stop_at(step: int) -> None:
        def stopping(self: Trainer, share: Any) -> None:
            if self.progress.step == step - 1:
                signal.raise_signal(signal.SIGTERM)
            train_step(self, share)

        monkeypatch.setattr(Trainer, "_train_step", stopping)

    return stop_at


@pytest.mark.parametrize("step", [1, 2, 3, 4])
def test_an_interrupted_run_ends_as_if_it_had_not_been(
    step: int, stop_at: Callable[[int], None], text: Path, trained: Path, tmp_path: Path
) -> None:
    out = tmp_path / "model"
    stop_at(step)
    result = run(*train(text, out))
    assert result.code == 143
    assert f"stopped after step {step}" in result.err
    stop_at(0)
    result = run(*train(text, out))
    assert result.code == 0
    assert f"continuing after step {step}" in result.err
    assert checkpoint_steps(out) == checkpoint_steps(trained)
    assert same_weights(out, trained)


def test_a_run_stopped_at_its_last_step_still_leaves_a_model(
    stop_at: Callable[[int], None], text: Path, tmp_path: Path
) -> None:
    arguments = train(text, tmp_path / "model", "--validation.every", 4)
    stop_at(4)
    assert run(*arguments).code == 143
    stop_at(0)
    assert run(*arguments).code == 0
    assert ModelFolder.load(tmp_path / "model").direction.facts["steps"] == 4


def test_sigterm_saves_and_the_same_command_continues(text: Path, tmp_path: Path) -> None:
    arguments = train(text, tmp_path / "model", "--validation.every", 10_000)
    process = python("-m", "dragoman", *arguments, "--max_steps", 100_000)
    assert process.stderr
    for line in process.stderr:
        if b"training" in line and b"parameters" in line:
            break
    time.sleep(0.2)
    process.send_signal(signal.SIGTERM)
    said = process.communicate()[1].decode()
    assert process.returncode == 143, said
    assert "Traceback" not in said
    (step,) = re.findall(r"stopped after step ([\d,]+)", said)
    result = run(*arguments, "--max_steps", int(step.replace(",", "")) + 1)
    assert result.code == 0
    assert f"continuing after step {step}" in result.err


def test_a_model_does_not_go_on_with_the_subwords_of_another_text(copy: Path, text: Path, tmp_path: Path) -> None:
    for language, word, other in (("en", "cat", "cow"), ("de", "Katze", "Kuhle")):
        shutil.copy(text / f"valid.{language}", tmp_path)
        changed = (text / f"train.{language}").read_text().replace(word, other)
        (tmp_path / f"train.{language}").write_text(changed)
    assert "--restart" in complaint(1, *train(tmp_path, copy, "--max_steps", 6))


@pytest.mark.parametrize("option", ["--model.d_model=32", "--model.num_encoder_layers=2", "--model.tie_softmax=false"])
def test_a_model_does_not_go_on_in_another_shape(option: str, text: Path, copy: Path, trained: Path) -> None:
    assert "--restart" in complaint(1, *train(text, copy, option, "--max_steps", 6))
    assert same_weights(copy, trained)


@pytest.mark.parametrize("option", ["--model.num_heads=4", "--model.activation=gelu", "--model.positions=halves"])
def test_a_model_does_not_go_on_as_another_of_the_same_shape(option: str, text: Path, copy: Path) -> None:
    assert "--restart" in complaint(1, *train(text, copy, option, "--max_steps", 6))


# ---- translating


INPUT = "the cat sees the sun .\n\nthe dog hears a bird .\n   \nan odd 🐈 line\n".encode()


@pytest.fixture(scope="module")
def answers(trained: Path) -> list[str]:
    return run("translate", trained, *SHORT, stdin=INPUT).out.split("\n")


SHORT = ["--device", "cpu", "--beam", "2", "--max_length", "3"]


def test_every_line_has_its_translation_and_empty_lines_are_empty(answers: list[str]) -> None:
    assert len(answers) == 5 + 1
    assert [bool(line) for line in answers] == [True, False, True, False, True, False]


def test_a_file_is_translated_as_stdin_is(trained: Path, answers: list[str], tmp_path: Path) -> None:
    (tmp_path / "input.txt").write_bytes(INPUT)
    assert run("translate", trained, tmp_path / "input.txt", *SHORT).out.split("\n") == answers


def test_windows_line_ends_and_a_missing_last_one_change_nothing(trained: Path, answers: list[str]) -> None:
    windows = INPUT.replace(b"\n", b"\r\n").removesuffix(b"\r\n")
    assert run("translate", trained, *SHORT, stdin=windows).out.split("\n") == answers


def test_nothing_translates_to_nothing(trained: Path) -> None:
    assert run("translate", trained, *SHORT) == Result(0, "", "")


def test_moses_format_numbers_the_lines_and_ranks_their_translations(trained: Path, answers: list[str]) -> None:
    result = run("translate", trained, *SHORT, "--n_best", 2, "--format", "moses", stdin=INPUT)
    rows = [line.split(" ||| ") for line in result.out.splitlines()]
    assert [int(number) for number, *_ in rows] == [0, 0, 1, 2, 2, 3, 4, 4]
    assert all(float(log_prob) <= 0 for _, _, log_prob, _ in rows)
    for number in (0, 2, 4):
        candidates = [row for row in rows if row[0] == str(number)]
        assert candidates[0][1] == answers[number]
        assert float(candidates[0][3]) >= float(candidates[1][3])
    assert run("translate", trained, *SHORT, "--n_best", 2, stdin=INPUT).out == result.out


def test_json_format_is_an_object_a_line_with_its_alternatives(trained: Path, answers: list[str]) -> None:
    result = run("translate", trained, *SHORT, "--n_best", 2, "--format", "json", stdin=INPUT)
    objects = [json.loads(line) for line in result.out.splitlines()]
    assert [entry["text"] for entry in objects] == answers[:-1]
    for entry in objects:
        assert len(entry["alternatives"]) == (1 if entry["text"] else 0)
        assert all(other["score"] <= entry["score"] for other in entry["alternatives"])
    plain = run("translate", trained, *SHORT, "--format", "json", stdin=INPUT).out
    assert [set(json.loads(line)) for line in plain.splitlines()] == [{"text", "log_prob", "score"}] * 5


def write_newlines_only(folder: Path) -> None:
    """Make a model say the byte of a line feed and nothing else."""
    loaded = ModelFolder.load(folder)
    subwords = loaded.vocabulary.target
    (newline,) = (i for i in range(len(subwords)) if subwords.pieces([i]) == ["<0x0A>"])
    with torch.no_grad():
        norm = loaded.model.decoder.layers[-1].feed_forward_connection.layer_norm  # type: ignore[union-attr]
        norm.weight.zero_()  # type: ignore[operator, union-attr]
        norm.bias.fill_(1.0)  # type: ignore[operator, union-attr]
        loaded.model.softmax.weight[newline] = 10.0
    loaded.save(folder)


@pytest.mark.parametrize("options", [[], ["--format", "moses"]])
def test_a_translation_is_one_line_whatever_the_model_says(options: list[str], copy: Path) -> None:
    write_newlines_only(copy)
    out = run("translate", copy, *SHORT, *options, stdin=b"one\ntwo\nthree\n").out
    assert out.count("\n") == 3


def test_a_line_that_is_not_utf8_is_named_after_the_lines_before_are_translated(trained: Path) -> None:
    result = run("translate", trained, *SHORT, stdin=b"the cat\n\xff\n")
    assert result.code == 1
    assert result.out.count("\n") <= 1
    assert "stdin, line 2, byte 1" in result.err


def test_a_line_longer_than_the_model_takes_is_an_error(trained: Path) -> None:
    message = complaint(1, "translate", trained, *SHORT, "--long", "error", stdin=b"the cat " * 300)
    assert "64" in message
    assert "line 1" in message


@pytest.mark.parametrize(
    "ending",
    [
        "closes",
        "stays open",
    ],
)
def test_a_reader_that_had_enough_is_no_failure(ending: str, trained: Path) -> None:
    process = python("-m", "dragoman", "translate", trained, *SHORT)
    assert process.stdin
    assert process.stdout
    process.stdin.write(b"the cat\n")
    process.stdin.flush()
    assert process.stdout.readline().endswith(b"\n")  # it comes before the input ends
    process.stdout.close()
    process.stdin.write(b"the dog\n")
    if ending == "closes":
        process.stdin.close()
    else:
        process.stdin.flush()
    code = process.wait(30)
    assert process.stderr
    assert (process.stderr.read(), code) == (b"", 0)


def test_translations_are_utf8_whatever_the_terminal_says(trained: Path) -> None:
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    process = python("-m", "dragoman", "translate", trained, *SHORT, env=environment)
    out, err = process.communicate(INPUT)
    assert (process.returncode, err) == (0, b"")
    assert len(out.decode("utf-8").split("\n")) == 6


def test_a_closed_stdin_is_an_error_not_a_crash(trained: Path) -> None:
    complaint(1, "translate", trained, *SHORT, stdin=None)


@pytest.mark.parametrize("unbuffered", [False, True])
def test_a_reader_of_results_may_leave_but_not_one_of_what_went_wrong(unbuffered: bool, tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONUNBUFFERED": "1" if unbuffered else ""}
    for words, both, code in ((["download"], False, 0), (["download"], True, 1), (["translate", tmp_path], True, 1)):
        reader, writer = os.pipe()
        os.close(reader)
        kept = writer if both else subprocess.PIPE
        process = python("-m", "dragoman", *words, stdout=writer, stderr=kept, env=environment)
        os.close(writer)
        _, told = process.communicate()
        assert (process.returncode, told) == (code, None if both else b"")


# ---- evaluate, score, average


def test_evaluate_prints_the_scores_of_the_translations_it_writes(trained: Path, text: Path, tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    result = run("evaluate", trained, "--test", text / "test", *SHORT, "--json", path)
    assert result.code == 0
    content = json.loads(path.read_text(encoding="utf-8"))
    translations = [line["translation"] for line in content["lines"]]
    references = [line["reference"] for line in content["lines"]]
    assert references == (text / "test.de").read_text(encoding="utf-8").splitlines()
    expected = BLEU().corpus_score(translations, [references]).score
    assert content["scores"]["bleu"] == pytest.approx(expected)
    assert f"BLEU {expected:.2f}  {content['scores']['bleu_signature']}\n" in result.out
    assert f"chrF2 {content['scores']['chrf']:.2f}  {content['scores']['chrf_signature']}\n" in result.out
    assert content["settings"]["beam"] == 2
    sources = (text / "test.en").read_bytes()
    assert run("translate", trained, *SHORT, stdin=sources).out.splitlines() == translations


def test_score_prints_three_columns_for_each_pair(trained: Path, text: Path) -> None:
    result = run("score", trained, "--test", text / "test", "--length_penalty", 1, "--device", "cpu")
    rows = [line.split("\t") for line in result.out.splitlines()]
    assert len(rows) == 7
    for log_prob, score, tokens in rows:
        assert float(log_prob) < 0
        assert float(score) == pytest.approx(float(log_prob) / ((5 + int(tokens)) / 6), abs=1e-3)


def test_average_is_the_mean_of_the_last_checkpoints(trained: Path, tmp_path: Path) -> None:
    out = tmp_path / "averaged"
    assert run("average", trained, "--out", out, "--last", 2).code == 0
    expected = average_weights(list_checkpoints(trained)[-2:])
    assert read_weights(out / "model.safetensors").keys() == expected.keys()
    assert all(torch.equal(weight, expected[name]) for name, weight in read_weights(out / "model.safetensors").items())
    assert run("translate", out, *SHORT, stdin=INPUT).code == 0


def test_average_of_the_last_one_is_the_last_one(trained: Path, tmp_path: Path) -> None:
    assert run("average", trained, "--out", tmp_path / "last", "--last", 1).code == 0
    last = read_weights(list_checkpoints(trained)[-1])
    assert all(torch.equal(w, last[name]) for name, w in read_weights(tmp_path / "last" / "model.safetensors").items())


# ---- failures


@pytest.mark.parametrize("verb", ["translate", "evaluate", "score", "average"])
def test_a_missing_model_folder_is_named(verb: str, text: Path, tmp_path: Path) -> None:
    more = {"evaluate": ["--test", text / "test"], "score": ["--test", text / "test"], "average": ["--out", tmp_path]}
    assert str(tmp_path / "nowhere") in complaint(1, verb, tmp_path / "nowhere", *more.get(verb, []))


def cut_weights(folder: Path) -> Path:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    return path


def damage_subwords(folder: Path) -> Path:
    path = folder / "sentencepiece.model"
    path.write_bytes(b"nonsense")
    return path


def remove_config(folder: Path) -> Path:
    (folder / "config.json").unlink()
    return folder


@pytest.mark.parametrize("damage", [cut_weights, damage_subwords, remove_config])
def test_a_damaged_model_is_named(damage: Callable[[Path], Path], copy: Path) -> None:
    assert str(damage(copy)) in complaint(1, "translate", copy, stdin=INPUT)


def test_a_damaged_state_is_named_with_the_way_out(text: Path, copy: Path) -> None:
    states = list_states(copy)
    for path in states:
        path.write_bytes(path.read_bytes()[:1000])
    message = complaint(1, *train(text, copy, "--max_steps", 6))
    assert str(states[-1]) in message
    assert "--restart" in message


def test_missing_text_is_named_before_anything_is_trained(text: Path, tmp_path: Path) -> None:
    message = complaint(1, *train(tmp_path / "nowhere", tmp_path / "model"))
    assert str(tmp_path / "nowhere") in message


def test_an_out_folder_that_cannot_be_written_is_named(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    for out in (tmp_path / "file", tmp_path / "file" / "model"):
        assert str(out) in complaint(1, *train(text, out))
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert str(tmp_path / "readonly") in complaint(1, *train(text, tmp_path / "readonly"))


@pytest.mark.parametrize("device", ["gpu", "cuda:99", "tpu"])
def test_a_device_that_is_not_there_is_named(device: str, trained: Path) -> None:
    assert device in complaint(1, "translate", trained, "--device", device, stdin=INPUT)


@pytest.mark.parametrize(("verb", "options"), [("translate", ["/nowhere.txt"]), ("evaluate", ["--test", "/nowhere"])])
def test_a_missing_file_is_named(verb: str, options: list[str], trained: Path) -> None:
    assert "/nowhere" in complaint(1, verb, trained, *options)


def test_an_empty_test_text_has_no_score(trained: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.tsv").touch()
    complaint(1, "evaluate", trained, "--test", tmp_path / "empty.tsv")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test writes to a relative path does not land in the repository."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(autouse=True)
def _leave_signals_and_threads_alone() -> Iterator[None]:
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    yield
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers


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


@pytest.mark.parametrize(("option", "kind"), [("--beam", "int"), ("--length-penalty", "float")])
def test_an_empty_value_is_called_nothing(option: str, kind: str) -> None:
    assert f"must be {kind}, not nothing" in complaint(2, "translate", "model", option, "")


def test_there_is_nothing_to_evaluate_in_an_empty_text(trained: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.tsv").touch()
    assert "empty.tsv" in complaint(1, "evaluate", trained, "--test", tmp_path / "empty.tsv")


def test_checkpoints_of_another_model_are_not_averaged_into_this_one(trained: Path, tmp_path: Path) -> None:
    shutil.copytree(trained, tmp_path / "run")
    path = list_checkpoints(tmp_path / "run")[-1]
    weights = read_weights(path)
    save_weights({f"other.{name}": weight for name, weight in weights.items()}, path)
    assert path.name in complaint(1, "average", tmp_path / "run", "--last", "1", "--out", tmp_path / "mean")
    assert not (tmp_path / "mean").exists()


@pytest.mark.parametrize("value", ["true", "null", "[1]", "3"])
def test_a_group_of_settings_that_is_none_is_named(value: str, tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(f"source: en\ntarget: de\ntrain: [x]\nout: {tmp_path / 'out'}\nclean: {value}\n")
    assert "clean" in complaint(2, "train", "--config", file)
