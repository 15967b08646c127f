"""The verb `train`, from the command line: fine-tuning, one run in a folder, several processes, short memory, kills."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import pytest
import torch
import yaml
from training.small_runs import configure, hold, last_weights, records, same, write_corpus

from dragoman import train as train_module
from dragoman.checkpoint import ModelFolder, list_checkpoints, read_weights
from dragoman.cli import main
from dragoman.model.transformer import Transformer
from dragoman.presets import FINE_TUNING
from dragoman.text.preparation import prepare_text
from dragoman.train import build_validate, run_training
from dragoman.training.distributed import Processes
from dragoman.training.state import list_states

SHAPE = ["--model.d-model", "16", "--model.d-ff", "32", "--model.num-heads", "2"]
SHAPE += ["--model.num-encoder-layers", "1", "--model.num-decoder-layers", "1", "--text.vocab-size", "320"]
QUICK = ["--source", "en", "--target", "xx", "--device", "cpu", "--precision", "fp32", "--log-every", "1"]
QUICK += ["--optimizer.batch-tokens", "200", "--optimizer.warmup-steps", "20", "--validation.every", "10"]
QUICK += ["--validation.max-lines", "8", "--validation.patience", "0"]


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("text")
    write_corpus(folder, train=320, valid=30)  # 25 batches: the last steps of an epoch have fewer than the others
    return folder


def arguments(text: Path, out: Path, *more: object, shape: Sequence[str] = SHAPE) -> list[str]:
    given = ["train", *QUICK, *shape, "--train", text / "train", "--valid", text / "valid", "--out", out, *more]
    return list(map(str, given))


@dataclass(frozen=True)
class Ended:
    """How a command ended and what it said."""

    code: int
    said: str


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    """Train in this process."""

    def run(*given: Any, **settings: Any) -> Ended:
        capfd.readouterr()
        try:
            code = main(arguments(*given, **settings))
        except SystemExit as leave:
            code = int(leave.code or 0)
        said = capfd.readouterr()
        assert said.out == ""
        assert "Traceback" not in said.err
        return Ended(code, said.err)

    return run


def complaint(ended: Ended, code: int = 1) -> str:
    """The one sentence with which a command failed."""
    assert ended.code == code, ended.said
    line = ended.said.rstrip("\n").split("\n")[-1]
    assert line.startswith("dragoman")
    return line


def start(*given: Any, processes: int = 1, **settings: Any) -> subprocess.Popen[str]:
    """Train in processes of its own."""
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    return subprocess.Popen(
        [sys.executable, *(launcher if processes > 1 else []), "-m", "dragoman", *arguments(*given, **settings)],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finish(process: subprocess.Popen[str], code: int = 0) -> str:
    """Wait for the end of a command; what it said."""
    try:
        said = process.communicate(timeout=120)[1]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # with all that it started
        raise
    assert process.returncode == code, said
    return said


def settings_of(out: Path) -> dict[str, Any]:
    return yaml.safe_load((out / "train.yaml").read_text(encoding="utf-8"))  # type: ignore[no-any-return]


def facts_of(out: Path) -> dict[str, Any]:
    return ModelFolder.load(out).direction.facts


def kept(out: Path) -> dict[str, torch.Tensor]:
    return read_weights(out / "model.safetensors")


# ---- settings


def test_the_saved_settings_are_the_run_s_and_can_be_read_again(
    text: Path, tmp_path: Path, run: Callable[..., Ended]
) -> None:
    assert run(text, tmp_path / "run", "--max-steps", 1).code == 0
    settings = settings_of(tmp_path / "run")
    assert settings["model"]["d_model"] == 16
    assert settings["max_steps"] == 1
    assert "source_vocab_size" not in settings["model"]
    assert main(["train", "--config", str(tmp_path / "run" / "train.yaml"), "--out", str(tmp_path / "again")]) == 0
    settings["out"] = str(tmp_path / "again")
    assert settings_of(tmp_path / "again") == settings
    assert same(kept(tmp_path / "run"), kept(tmp_path / "again"))


def test_restart_removes_the_run_and_nothing_else(tmp_path: Path, run: Callable[..., Ended]) -> None:
    write_corpus(tmp_path)
    before = (tmp_path / "train.en").read_text()
    assert run(tmp_path, tmp_path, "--max-steps", 1).code == 0
    assert run(tmp_path, tmp_path, "--max-steps", 1, "--restart", "true", "--seed", 2).code == 0
    assert (tmp_path / "train.en").read_text() == before
    assert settings_of(tmp_path)["seed"] == 2


def test_a_restart_that_can_not_begin_leaves_the_run_as_it_was(
    text: Path, parent: Path, tmp_path: Path, run: Callable[..., Ended]
) -> None:
    out = tmp_path / "run"
    assert run(text, out, "--max-steps", 1).code == 0
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    for wrong in (["--test", tmp_path / "nothing"], ["--from", tmp_path], ["--from", parent, "--source", "xx"]):
        shape = SHAPE if wrong[0] == "--test" else NO_SHAPE
        assert run(text, out, "--restart", "true", *wrong, shape=shape).code != 0
        assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


# ---- one run in a folder


def test_a_folder_in_use_is_refused_in_one_sentence_until_its_run_is_gone(
    text: Path, tmp_path: Path, run: Callable[..., Ended]
) -> None:
    out = tmp_path / "run"
    process = hold(out)
    try:
        message = complaint(run(text, out, "--max-steps", 1))
        assert f"{out}: another process is training in this folder" in message
        assert not (out / "data").exists()
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert run(text, out, "--max-steps", 1).code == 0


# ---- what is said at the end


@pytest.mark.parametrize("leave", [KeyboardInterrupt, SystemExit(143)], ids=["Ctrl-C", "SIGTERM"])
def test_who_stops_a_run_before_its_first_step_hears_that_nothing_is_lost(
    leave: BaseException, text: Path, tmp_path: Path, run: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*arguments: object) -> None:
        raise leave

    code = 143 if isinstance(leave, SystemExit) else 130
    with monkeypatch.context() as patch:
        patch.setattr(train_module, "prepare_text", interrupted)
        ended = run(text, tmp_path / "run", "--max-steps", 1)
    assert (ended.code, ended.said) == (code, "stopped before the first step; the same command begins again\n")
    assert run(text, tmp_path / "run", "--max-steps", 1).code == 0
    with monkeypatch.context() as patch:
        patch.setattr(train_module, "prepare_text", interrupted)
        ended = run(text, tmp_path / "run", "--max-steps", 2)
    assert (ended.code, ended.said) == (code, "stopped; the same command continues from the last saved state\n")
    assert "continuing after step 1" in run(text, tmp_path / "run", "--max-steps", 2).said


def test_a_run_that_ends_within_its_warm_up_says_so(text: Path, tmp_path: Path, run: Callable[..., Ended]) -> None:
    ended = run(text, tmp_path / "run", "--max-steps", 3)
    assert ended.said.endswith(
        "the run ended after 3 of 20 warm-up steps, before the learning rate had reached its peak: raise --max-steps, "
        "or begin again with --restart and a lower --optimizer.warmup-steps\n"
    )
    more = ["--max-steps", 3, "--restart", "--optimizer.warmup-steps", 2]
    assert "warm-up" not in run(text, tmp_path / "run", *more).said


def test_a_finished_run_says_how_it_goes_on(text: Path, tmp_path: Path, run: Callable[..., Ended]) -> None:
    def go(*more: object) -> str:
        ended = run(text, tmp_path / "run", "--optimizer.warmup-steps", 2, "--validation.every", 2, *more)
        assert ended.code == 0, ended.said
        return ended.said.rstrip("\n").split("\n")[-1]

    go("--max-steps", 4)
    assert go("--max-steps", 4) == "to go on, raise --max-steps"
    assert go("--max-steps", 6).startswith("finished")
    patient = ["--validation.patience", 1, "--accept-changes", "--optimizer.lr-scale", 1e-9, "--max-steps", 60]
    assert go(*patient) == "to go on, raise --validation.patience and give --accept-changes"
    assert go(*patient, "--validation.patience", 3).startswith("finished, as nothing got better")


# ---- text that changes


@pytest.fixture
def begun(text: Path, tmp_path: Path, run: Callable[..., Ended]) -> Path:
    """A text of its own and a run that has seen some of it."""
    for path in text.iterdir():
        shutil.copy(path, tmp_path)
    assert run(tmp_path, tmp_path / "run", "--max-steps", 3).code == 0
    return tmp_path


def test_a_changed_text_is_refused_by_name_and_accepted_with_the_same_subwords(
    begun: Path, run: Callable[..., Ended]
) -> None:
    out = begun / "run"
    subwords = (out / "sentencepiece.model").read_bytes()
    for language in ("en", "xx"):
        with (begun / f"train.{language}").open("a") as file:
            file.write("a new sentence\n")
    message = complaint(run(begun, out, "--max-steps", 6))
    assert f"{begun / 'train.en'} has changed" in message
    assert "--accept-changes" in message
    ended = run(begun, out, "--max-steps", 6, "--accept-changes")
    assert ended.code == 0
    assert "continuing after step 3" in ended.said
    assert (out / "sentencepiece.model").read_bytes() == subwords
    assert [step for step, *_ in records(out, "train/loss")] == list(range(1, 7))
    assert run(begun, out, "--max-steps", 7).code == 0  # accepted once and for all


def test_the_same_text_under_another_name_and_date_is_the_same(begun: Path, run: Callable[..., Ended]) -> None:
    for path in begun.glob("train.??"):
        path.rename(begun / f"moved{path.suffix}")
        os.utime(begun / f"moved{path.suffix}", ns=(1, 1))
    given = arguments(begun, begun / "run", "--max-steps", 6)
    given[given.index(str(begun / "train"))] = str(begun / "moved")
    assert main(given) == 0
    straight = begun / "straight"
    for path in begun.glob("moved.??"):
        path.rename(begun / f"train{path.suffix}")
    assert run(begun, straight, "--max-steps", 6).code == 0
    assert records(straight, "train/") == records(begun / "run", "train/")


def test_changed_settings_are_refused_by_name(begun: Path, run: Callable[..., Ended]) -> None:
    message = complaint(run(begun, begun / "run", "--max-steps", 6, "--optimizer.lr-scale", 2))
    assert "optimizer.lr_scale was 1.0 and is 2.0" in message
    assert "--accept-changes" in message
    assert run(begun, begun / "run", "--max-steps", 6, "--optimizer.lr-scale", 2, "--accept-changes").code == 0


# ---- fine-tuning


@pytest.fixture(scope="module")
def parent(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that has learned something."""
    out = tmp_path_factory.mktemp("parent") / "model"
    assert main(arguments(text, out, "--max-steps", 60, "--optimizer.lr-scale", 0.5)) == 0
    return out


@pytest.fixture(scope="module")
def other_text(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another text in the same languages, with the same validation text."""
    folder = tmp_path_factory.mktemp("other")
    write_corpus(folder, train=550, valid=0)
    for language in ("en", "xx"):
        path = folder / f"train.{language}"
        path.write_text("".join(line + "\n" for line in path.read_text().split("\n")[350:-1]))
        shutil.copy(text / f"valid.{language}", folder)
    return folder


NO_SHAPE: list[str] = []


def test_fine_tuning_begins_with_the_parents_weights_and_subwords(
    parent: Path, other_text: Path, tmp_path: Path, run: Callable[..., Ended]
) -> None:
    out = tmp_path / "tuned"
    ended = run(other_text, out, "--from", parent, "--max-steps", 5, "--validation.every", 5, shape=NO_SHAPE)
    assert ended.code == 0
    found = {name: value for step, name, value in records(out, "valid/") if step == 0}
    expected = facts_of(parent)["validation"]
    assert {name: found[f"valid/{name}"] for name in expected} == pytest.approx(expected, abs=1e-4)
    assert expected["chrf"] > 0
    assert (out / "sentencepiece.model").read_bytes() == (parent / "sentencepiece.model").read_bytes()
    assert ModelFolder.load(out).model.config.shape() == ModelFolder.load(parent).model.config.shape()
    assert not same(last_weights(out), kept(parent))


def test_fine_tuning_has_settings_of_its_own_which_options_override(
    parent: Path, other_text: Path, tmp_path: Path
) -> None:
    plain = ["train", "--source", "en", "--target", "xx", "--device", "cpu", "--max-steps", "1", "--log-every", "1"]
    plain += ["--train", str(other_text / "train"), "--valid", str(other_text / "valid"), "--from", str(parent)]
    assert main([*plain, "--out", str(tmp_path / "plain")]) == 0
    settings = settings_of(tmp_path / "plain")
    for name, value in FINE_TUNING.items():
        group, field = name.split(".")
        assert settings[group][field] == value
    assert settings["from"] == str(parent)
    (rate,) = [value for _, _, value in records(tmp_path / "plain", "train/lr")]
    assert rate == pytest.approx(FINE_TUNING["optimizer.peak_lr"] / FINE_TUNING["optimizer.warmup_steps"])
    more = ["--optimizer.peak-lr", "0.01", "--model.dropout", "0.4", "--out", str(tmp_path / "own")]
    assert main([*plain, *more]) == 0
    assert settings_of(tmp_path / "own")["optimizer"]["peak_lr"] == 0.01
    assert settings_of(tmp_path / "own")["model"]["dropout"] == 0.4  # no part of the shape
    assert settings_of(tmp_path / "own")["model"]["d_model"] == 16


def test_the_saved_settings_of_fine_tuning_can_be_read_again(
    parent: Path, other_text: Path, tmp_path: Path, run: Callable[..., Ended]
) -> None:
    assert run(other_text, tmp_path / "one", "--from", parent, "--max-steps", 2, shape=NO_SHAPE).code == 0
    assert main(["train", "--config", str(tmp_path / "one" / "train.yaml"), "--out", str(tmp_path / "two")]) == 0
    settings = settings_of(tmp_path / "one")
    assert settings_of(tmp_path / "two") == settings | {"out": str(tmp_path / "two")}
    assert same(kept(tmp_path / "one"), kept(tmp_path / "two"))


def test_what_it_was_made_from_is_known(
    parent: Path, other_text: Path, tmp_path: Path, run: Callable[..., Ended]
) -> None:
    assert run(other_text, tmp_path / "one", "--from", parent, "--max-steps", 2, shape=NO_SHAPE).code == 0
    origin = facts_of(tmp_path / "one")["fine-tuned from"]
    assert origin == {"folder": parent.name} | facts_of(parent)
    assert facts_of(tmp_path / "one")["training pairs"] != facts_of(parent)["training pairs"]
    longest = facts_of(tmp_path / "one")["longest training side"]
    assert longest >= facts_of(parent)["longest training side"]
    card = (tmp_path / "one" / "README.md").read_text(encoding="utf-8")
    assert f"folder: {parent.name}" in card
    assert str(parent) not in card, "where it is, is nobody else's business"


def test_what_fine_tuning_makes_worse_is_left_as_it_was(
    parent: Path, other_text: Path, tmp_path: Path, run: Callable[..., Ended]
) -> None:
    wild = ["--optimizer.peak-lr", 0.5, "--optimizer.warmup-steps", 1, "--validation.every", 3]
    more = [*wild, "--validation.metric", "loss", "--validation.keep-last", 1]
    ended = run(other_text, tmp_path / "one", "--from", parent, "--max-steps", 6, *more, shape=NO_SHAPE)
    assert ended.code == 0
    losses = {step: value for step, _, value in records(tmp_path / "one", "valid/loss")}
    assert losses[0] < min(losses[3], losses[6])
    assert same(kept(tmp_path / "one"), kept(parent))


def test_an_interrupted_fine_tuning_continues_bit_for_bit(
    parent: Path, other_text: Path, tmp_path: Path, run: Callable[..., Ended]
) -> None:
    for out, limits in (("straight", [4]), ("broken", [2, 4])):
        for steps in limits:
            more = ["--from", parent, "--max-steps", steps, "--validation.every", 2]
            assert run(other_text, tmp_path / out, *more, shape=NO_SHAPE).code == 0
    assert records(tmp_path / "straight") == records(tmp_path / "broken")
    assert same(last_weights(tmp_path / "straight"), last_weights(tmp_path / "broken"))


def test_a_fine_tuning_goes_on_though_its_parent_has_learned_something_else_since(
    parent: Path, other_text: Path, tmp_path: Path, run: Callable[..., Ended]
) -> None:
    copy = Path(shutil.copytree(parent, tmp_path / "copy"))
    more = ["--from", copy, "--validation.every", 2]
    assert run(other_text, tmp_path / "one", *more, "--max-steps", 2, shape=NO_SHAPE).code == 0
    origin = facts_of(tmp_path / "one")["fine-tuned from"]
    assert run(other_text, tmp_path / "two", *more, "--max-steps", 4, shape=NO_SHAPE).code == 0
    folder = ModelFolder.load(copy)
    with torch.no_grad():
        folder.model.softmax.weight.mul_(2)
    folder.with_facts({"longest training side": 1, "steps": 77}).save(copy)
    assert run(other_text, tmp_path / "one", *more, "--max-steps", 4, shape=NO_SHAPE).code == 0
    assert same(last_weights(tmp_path / "one"), last_weights(tmp_path / "two"))
    for fact in ("fine-tuned from", "longest training side"):
        assert facts_of(tmp_path / "one")[fact] == facts_of(tmp_path / "two")[fact]
    assert facts_of(tmp_path / "one")["fine-tuned from"] == origin


def test_only_the_first_process_rehearses(text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    assert main(arguments(text, tmp_path / "out", "--max-steps", 5, "--dry-run")) == 0
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("CUDA out of memory"), MemoryError()], ids=repr)
def test_too_little_memory_is_one_sentence_wherever_it_shows(
    error: Exception, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Callable[..., Ended]
) -> None:
    def fail(*arguments: object) -> NoReturn:
        raise error

    monkeypatch.setattr("dragoman.train.Trainer", fail)
    assert "too little memory" in complaint(run(text, tmp_path / "out", "--max-steps", 5))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--model.d-model", 32], "keeps the model's shape (d_model was 16 and is 32)"),
        (["--model.norm", "pre"], "norm was post and is pre"),
        (["--target", "yy", "--source", "en"], "translates en to xx, not en to yy"),
    ],
)
def test_fine_tuning_into_another_kind_of_model_is_refused(
    more: list[object], said: str, parent: Path, tmp_path: Path, run: Callable[..., Ended]
) -> None:
    write_corpus(tmp_path)
    for path in tmp_path.glob("*.xx"):
        shutil.copy(path, path.with_suffix(".yy"))
    ended = run(tmp_path, tmp_path / "one", "--from", parent, "--max-steps", 2, *more, shape=NO_SHAPE)
    assert said in complaint(ended)
    assert str(parent) in complaint(ended)


def test_fine_tuning_into_its_own_folder_is_refused(parent: Path, text: Path, run: Callable[..., Ended]) -> None:
    before = (parent / "model.safetensors").read_bytes()
    for out in (parent, parent.parent / "." / parent.name):
        assert "same folder" in complaint(run(text, out, "--from", parent, "--max-steps", 2, shape=NO_SHAPE), code=2)
    assert (parent / "model.safetensors").read_bytes() == before


def test_a_parent_that_is_missing_or_damaged_is_named(
    parent: Path, text: Path, tmp_path: Path, run: Callable[..., Ended]
) -> None:
    nowhere = tmp_path / "nowhere"
    assert str(nowhere) in complaint(run(text, tmp_path / "one", "--from", nowhere, "--max-steps", 2))
    copy = Path(shutil.copytree(parent, tmp_path / "copy"))
    (copy / "model.safetensors").write_bytes((copy / "model.safetensors").read_bytes()[:-100])
    message = complaint(run(text, tmp_path / "one", "--from", copy, "--max-steps", 2, shape=NO_SHAPE))
    assert str(copy / "model.safetensors") in message


# ---- validating together


@dataclass(frozen=True)
class Pretended(Processes):
    """One of two processes, with what the other one has to say."""

    others: Any = None

    def collect(self, own: Sequence[Any]) -> list[Any]:
        if self.others is None:
            return list(own)
        parts = [list(own), self.others][:: 1 if self.rank == 0 else -1]
        return [parts[i % 2][i // 2] for i in range(sum(map(len, parts)))]

    def tell(self, value: Any) -> Any:
        return value


def test_two_processes_translate_half_each_and_score_as_one(parent: Path, text: Path, tmp_path: Path) -> None:
    config = configure(text, str(tmp_path / "run"))
    folder, pairs = ModelFolder.load(parent), prepare_text(config).valid_pairs[:11]
    alone = build_validate(config, folder, pairs)(folder.model, False)
    halves: list[Any] = []

    @dataclass(frozen=True)
    class Listening(Pretended):
        def collect(self, own: Sequence[Any]) -> list[Any]:
            halves.append(list(own))
            return super().collect(own) + [("", [])] * (len(pairs) - len(own))

    for rank in range(2):
        build_validate(config, folder, pairs, Listening(rank, 2))(folder.model, False)
    assert [len(half) for half in halves] == [6, 5]
    for rank in range(2):
        together = build_validate(config, folder, pairs, Pretended(rank, 2, others=halves[1 - rank]))(
            folder.model, False
        )
        assert together == alone
    assert alone.references == [target for _, target in pairs]
    assert folder.vocabulary.target.decode(alone.translation_ids) == list(alone.translations)
    assert folder.vocabulary.target.decode(alone.reference_ids) == list(alone.references)
    assert alone.scores.keys() == alone.signatures.keys() == {"bleu", "chrf"}


def test_no_more_lines_are_translated_than_asked_for(
    parent: Path, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: list[int] = []
    validated = train_module.evaluate
    monkeypatch.setattr(
        train_module, "evaluate", lambda texts, *more: counts.append(len(texts)) or validated(texts, *more)
    )
    config = configure(text, str(tmp_path / "run"), max_steps=1)
    run_training(replace(config, validation=replace(config.validation, max_lines=7)))
    assert set(counts) == {7}


# ---- short memory


SHORT_MEMORY = """
import re, resource, sys
from pathlib import Path
import dragoman.train as verb
from dragoman.cli import main
prepare = verb.prepare_text
def prepare_then_limit(*arguments):
    text = prepare(*arguments)
    size = int(re.search(r"VmSize:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) * 1024
    resource.setrlimit(resource.RLIMIT_AS, (size + int(sys.argv[1]) * 2**20,) * 2)
    return text
verb.prepare_text = prepare_then_limit
sys.exit(main(sys.argv[2:]))
"""
LARGER = ["--model.d-model", "64", "--model.d-ff", "256", "--model.num-heads", "4"]
LARGER += ["--model.num-encoder-layers", "2", "--model.num-decoder-layers", "2", "--model.dropout", "0"]
LARGER += ["--text.vocab-size", "320", "--optimizer.batch-tokens", "6000"]


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="not Linux")
@pytest.mark.timeout(120)
def test_where_memory_really_is_short_training_goes_on_in_pieces(tmp_path: Path) -> None:
    write_corpus(tmp_path, train=1000, valid=200)

    def train(name: str, megabytes: int) -> str:
        given = arguments(tmp_path, tmp_path / name, "--max-steps", 3, shape=LARGER)
        command = [sys.executable, "-c", SHORT_MEMORY, str(megabytes), *given]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100)
        assert ended.returncode == 0, ended.stderr
        return ended.stderr

    assert "in pieces" not in train("plenty", 4000).replace(str(tmp_path), "")
    assert "computed in pieces of" in train("short", 80)
    expected, found = (records(tmp_path / name, "train/loss", "valid/loss") for name in ("plenty", "short"))
    assert [record[:2] for record in found] == [record[:2] for record in expected]
    assert [value for *_, value in found] == pytest.approx([value for *_, value in expected], rel=1e-5)


# ---- several processes


GENTLY = ["--optimizer.lr-scale", 0.1]  # large steps make much of rounding


def equal_numbers(first: Path, second: Path, steps: int) -> None:
    """Two runs did the same, but for rounding."""
    for kind, tolerance in (("train/loss", 1e-5), ("valid/loss", 1e-5), ("valid/bleu", 1e-4), ("valid/chrf", 1e-4)):
        expected, found = records(first, kind), records(second, kind)
        assert [record[:2] for record in found] == [record[:2] for record in expected]
        assert [value for *_, value in found] == pytest.approx([value for *_, value in expected], rel=tolerance)
    assert [step for step, *_ in records(second, "train/loss")] == list(range(1, steps + 1))  # no line twice


@pytest.mark.timeout(120)
def test_two_processes_train_as_one(text: Path, tmp_path: Path, run: Callable[..., Ended]) -> None:
    # Two batches of each step for each process, but one batch for one of them at the end of an epoch.
    two = start(text, tmp_path / "two", *GENTLY, "--max-steps", 50, "--optimizer.accumulate", 3, processes=2)
    assert run(text, tmp_path / "one", *GENTLY, "--max-steps", 50, "--optimizer.accumulate", 4).code == 0
    said = finish(two)
    assert "a step has 4 batches, shared by 2 processes" in said
    for line in ("finished: the model in", "step 50: valid loss", "training text:"):  # from the first process alone
        assert said.count(line) == 1
    equal_numbers(tmp_path / "one", tmp_path / "two", 50)
    assert len(list((tmp_path / "two" / "tensorboard").iterdir())) == 1


def wait_for_states(out: Path, number: int, process: subprocess.Popen[str]) -> None:
    """Wait until a run has saved its state so many times."""
    while process.poll() is None:
        states = list_states(out)
        if states and int(states[-1].name.split("-")[1]) >= number:
            return
        time.sleep(0.005)
    raise AssertionError(process.communicate()[1])


def children(process: subprocess.Popen[str]) -> list[int]:
    found = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    return list(map(int, found.split()))


def rank_of(pid: int) -> int:
    environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return next(int(entry[5:]) for entry in environment if entry.startswith(b"RANK="))


OFTEN = ["--max-steps", 150, "--save-minutes", 0.0001]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="not Linux")
@pytest.mark.parametrize("victim", [0, 1])
def test_where_one_process_is_killed_the_others_end_and_the_run_goes_on_with_the_same_result(
    victim: int, text: Path, tmp_path: Path
) -> None:
    finish(start(text, tmp_path / "steady", *OFTEN, processes=2))
    process = start(text, tmp_path / "killed", *OFTEN, processes=2)
    wait_for_states(tmp_path / "killed", 20, process)
    (pid,) = [pid for pid in children(process) if rank_of(pid) == victim]
    os.kill(pid, signal.SIGKILL)
    started = time.monotonic()
    said = process.communicate(timeout=90)[1]
    assert process.returncode != 0
    assert time.monotonic() - started < 60
    assert "has lost contact with the other processes" in said or "Signal 9 (SIGKILL)" in said
    finish(start(text, tmp_path / "killed", *OFTEN, processes=2))
    assert records(tmp_path / "steady") == records(tmp_path / "killed")
    assert same(kept(tmp_path / "steady"), kept(tmp_path / "killed"))


@pytest.mark.slow
def test_begun_with_two_processes_and_continued_with_one_it_is_the_same_run(
    text: Path, tmp_path: Path, run: Callable[..., Ended]
) -> None:
    finish(start(text, tmp_path / "mixed", *GENTLY, "--max-steps", 25, processes=2))
    ended = run(text, tmp_path / "mixed", *GENTLY, "--max-steps", 50)
    assert ended.code == 0
    assert "a step has 2 batches, shared by 1 process" in ended.said
    assert run(text, tmp_path / "one", *GENTLY, "--max-steps", 25, "--optimizer.accumulate", 2).code == 0
    assert run(text, tmp_path / "one", *GENTLY, "--max-steps", 50, "--optimizer.accumulate", 2).code == 0
    equal_numbers(tmp_path / "one", tmp_path / "mixed", 50)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_the_launcher_saves_and_the_run_goes_on_bit_for_bit(
    number: signal.Signals, text: Path, tmp_path: Path
) -> None:
    finish(start(text, tmp_path / "steady", "--max-steps", 150, processes=2))
    process = start(text, tmp_path / "stopped", "--max-steps", 150, processes=2)
    wait_for_states(tmp_path / "stopped", 3, process)
    os.killpg(process.pid, number)  # as a terminal does: to the launcher and to every process
    said = process.communicate(timeout=90)[1]
    assert process.returncode != 0
    assert len(re.findall(r"stopped after step \d+; run the same command again", said)) == 1, said
    finish(start(text, tmp_path / "stopped", "--max-steps", 150, processes=2))
    assert records(tmp_path / "steady") == records(tmp_path / "stopped")
    assert same(kept(tmp_path / "steady"), kept(tmp_path / "stopped"))


@pytest.mark.slow
def test_where_the_text_is_missing_two_processes_say_so_once(tmp_path: Path) -> None:
    process = start(tmp_path / "nowhere", tmp_path / "run", "--max-steps", 3, processes=2)
    said = process.communicate(timeout=60)[1]
    assert process.returncode != 0
    assert said.count("dragoman: ") == 1
    assert "no such file" in said


# ---- kills


def wait_for_save(process: subprocess.Popen[str], out: Path) -> None:
    """Wait until the run is writing something."""
    places = [str(out), str(out / "checkpoints")]
    while process.poll() is None and not any(n.endswith(".partial") for place in places for n in os.listdir(place)):
        pass


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_run_that_is_killed_again_and_again_ends_as_if_it_had_not_been(text: Path, tmp_path: Path) -> None:
    steady, killed = tmp_path / "steady", tmp_path / "killed"
    finish(start(text, steady, *OFTEN))
    chance = random.Random(1)
    half_written = 0
    for number in range(1, 40):
        process = start(text, killed, *OFTEN)
        wait_for_states(killed, 12 * min(number, 3), process)
        time.sleep(chance.uniform(0.0, 0.05))
        if number >= 3:
            wait_for_save(process, killed)
        assert process.poll() is None, process.communicate()[1]
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        half_written += any(killed.rglob("*.partial"))
        if half_written and number >= 3:
            break
    assert half_written
    finish(start(text, killed, *OFTEN))
    assert not list(killed.rglob("*.partial"))
    assert records(steady) == records(killed)
    for path in [Path("model.safetensors"), *(p.relative_to(steady) for p in list_checkpoints(steady))]:
        assert same(read_weights(steady / path), read_weights(killed / path))


def test_the_first_weights_depend_on_the_seed_and_on_nothing_else(text: Path, tmp_path: Path) -> None:
    config = configure(text, str(tmp_path / "run"))
    prepared = prepare_text(config)

    def weights(seed: int) -> dict[str, torch.Tensor]:
        torch.rand(seed + 7)
        model: Transformer = train_module._begin_with(replace(config, seed=seed), prepared, None).model
        return {name: parameter.detach() for name, parameter in model.named_parameters()}

    assert same(weights(1), weights(1))
    assert not same(weights(1), weights(2))


def test_what_is_known_of_the_text_is_written_down(text: Path, parent: Path) -> None:
    facts = facts_of(parent)
    assert facts["training pairs"] == 320
    assert facts["seed"] == 1
    assert len(facts["training text (SHA-256)"]) == 64
    store = json.loads((parent / "data" / "train" / "store.json").read_text())["report"]
    assert facts["training text (SHA-256)"] == store["fingerprint"]
    assert 1 < facts["longest training side"] <= 40


def test_a_folder_that_no_run_has_made_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    (out / "data").mkdir(parents=True)
    (out / "data" / "precious").write_text("mine")
    (out / "README.md").write_text("my project")
    for extra in ([], ["--restart", "true"]):
        arguments = ["--source", "en", "--target", "fr", "--train", "x", "--out", str(out), *extra]
        assert main(["train", *arguments]) == 1
        assert "is not the folder of a training run, but has data and README.md" in capsys.readouterr().err
    assert (out / "data" / "precious").read_text() == "mine"
    assert (out / "README.md").read_text() == "my project"
