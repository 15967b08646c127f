"""Time to quality: the peers get Dragoman's own run, go on after a kill as if nothing was; no table flatters."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from dragoman import ModelConfig
from dragoman.cli.main import VERBS
from dragoman.cli.parsing import parse
from dragoman.config import BOS, EOS, PAD, DragomanError, OptimizerConfig, TextConfig, TrainConfig
from dragoman.text.batches import collate, plan_epoch
from dragoman.text.preprocess import PreparedText, prepare_text
from dragoman.train import run_training
from tests.sample_run import sentences

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import quality_report
import report
import time_to_quality
from peers import batches, learning, quality_contest, rounds
from peers.learning import Learner, LearningSession
from peers.quality_contest import QualityContest, Record, Settings, learning_rates, planned_batches, run_config
from peers.shape import Shape
from peers.stepping import adam, smoothed_cross_entropy, torch_step
from peers.torch_transformer import TorchTransformer

SHAPE = Shape(16, 24, 2, 1, 1, 0.2, vocab_size=300, max_length=64, layer_norm_eps=1e-5)
SMALL = ModelConfig(
    d_model=16, d_ff=24, num_heads=2, num_encoder_layers=1, num_decoder_layers=1, max_length=64, dropout=0.2
)
WORKER = """
import os, sys
sys.path.insert(0, {tests!r})
from tests.benchmarks.test_time_to_quality import make_learner
from peers.learning import LearningSession
from peers.protocol import serve

def prepare(request):
    with open({log!r}, "a") as log:
        log.write("start\\n")
    return LearningSession(make_learner(1), request)

serve(prepare)
"""


def make_learner(seed: int) -> Learner:
    """A small model that drops out, and "translates" by saying what it was asked."""
    torch.manual_seed(seed)
    model = TorchTransformer(SHAPE)

    def loss(source: Tensor, target_input: Tensor, target_output: Tensor) -> Tensor:
        return smoothed_cross_entropy(model(source, target_input), target_output)

    optimizer = adam(model.parameters())
    step = torch_step(model.parameters(), loss, bf16=False, optimizer=optimizer)
    return Learner(model, optimizer, step, lambda lines, beam: [f"{beam} {x}" for x in lines], {"versions": {"x": "1"}})


def some_batches(count: int) -> list[batches.Arrays]:
    generator = np.random.default_rng(1)
    found = []
    for _ in range(count):
        source, target = (np.append(generator.integers(4, 300, (3, 5)), [[EOS]] * 3, axis=1) for _ in range(2))
        target[0, -2:] = EOS, PAD
        shifted = np.concatenate((np.full((3, 1), BOS), target[:, :-1]), axis=1)
        found.append(batches.Arrays(source, shifted * (target != PAD), target))
    return found


def request(folder: Path, rates: Sequence[float]) -> dict[str, Any]:
    batches.write_batches(folder / "some.npz", some_batches(len(rates)))
    return {"batches": str(folder / "some.npz"), "rates": list(rates), "folder": str(folder / "run")}


def write_text(folder: Path) -> Path:
    for part, count in (("train", 300), ("val", 6), ("test_2016_flickr", 5)):
        for side, language in enumerate(("en", "de")):
            (folder / f"{part}.{language}").write_text("".join(f"{pair[side]}\n" for pair in sentences(count)))
    return folder


def small_config(data: Path, out: Path, steps: int) -> TrainConfig:
    """The run, made small in everything but its schedule's form."""
    return replace(
        run_config(data, out, steps),
        device="cpu",
        precision="fp32",
        log_every=1,
        model=SMALL,
        text=TextConfig(vocab_size=300, max_length=60),
        optimizer=OptimizerConfig(schedule="linear", peak_lr=2e-3, warmup_steps=4, batch_tokens=600),
    )


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of text for a contest of small runs, in which a tiny model is "marian"."""
    write_text(tmp_path)
    script = WORKER.format(tests=str(Path(__file__).resolve().parents[2]), log=str(tmp_path / "starts.txt"))
    (tmp_path / "tiny_worker.py").write_text(script)
    competitor = rounds.Competitor("marian", "marian", "tiny_worker", {"precision": "fp32"})
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(rounds, "_PAUSE", 0.0)
    monkeypatch.setattr(quality_contest, "product_rate", lambda dtype: 100.0)
    monkeypatch.setattr(quality_contest, "run_config", small_config)
    monkeypatch.setitem(quality_contest.COMPETITORS, "marian", competitor)
    monkeypatch.setattr(quality_contest, "STEPS_AT_ONCE", 2)
    return tmp_path


def contest(folder: Path, report: Callable[[str], None] = lambda line: None, threads: int = 1) -> QualityContest:
    return QualityContest(Settings(folder, folder / "work", threads, lines=3, length_penalty=0.0, report=report))


def test_the_peers_get_the_run_of_the_command_line() -> None:
    words = shlex.split(quality_contest.TRAIN.format(data="DATA", out="OUT", steps=1200))
    config = run_config(Path("DATA"), Path("OUT"), 1200)
    assert asdict(parse(words[0], VERBS[words[0]], words[1:])) == asdict(config)
    optimizer = config.optimizer
    assert (optimizer.warmup_steps, optimizer.peak_lr, optimizer.accumulate, config.seed) == (400, 0.002, 1, 1)
    assert ((optimizer.beta1, optimizer.beta2), optimizer.epsilon) == (batches.BETAS, batches.EPSILON)
    assert (optimizer.clip_norm, optimizer.label_smoothing) == (batches.CLIP_NORM, batches.LABEL_SMOOTHING)
    assert optimizer.weight_decay == 0.0, "the peers' Adam has none"
    assert config.seed == learning.SEED


@pytest.mark.parametrize("steps", [6, 900, 1300])
def test_learning_rates_rise_and_fall_to_zero(steps: int) -> None:
    rates = learning_rates(run_config(Path("DATA"), Path("OUT"), steps))
    assert len(rates) == steps
    expected = [0.002 * min(1.0, step / 400) * (1 - step / steps) for step in range(1, steps + 1)]
    assert rates == pytest.approx(expected, rel=1e-9, abs=1e-15)
    assert rates[-1] == 0.0


def prepared(folder: Path, steps: int) -> tuple[TrainConfig, PreparedText]:
    config = small_config(write_text(folder), folder / "out", steps)
    return config, prepare_text(config)


def test_learning_rates_are_those_that_the_trainer_sets(tmp_path: Path) -> None:
    config = small_config(write_text(tmp_path), tmp_path / "out", steps=7)
    run_training(config)
    records = [json.loads(line) for line in (tmp_path / "out" / "metrics.jsonl").read_text().splitlines()]
    found = [record["train/lr"] for record in records if "train/lr" in record]
    assert found == learning_rates(config)


def test_batches_are_those_of_the_plan_epoch_after_epoch(tmp_path: Path) -> None:
    config, text = prepared(tmp_path, steps=70)
    store, found = text.train, list(planned_batches(text.train, config))
    lengths = (store.source_lengths, store.target_lengths, config.optimizer.batch_tokens, config.seed)
    plans = [plan_epoch(*lengths, epoch) for epoch in range(20)]
    expected = [collate(store, indices, config.model.max_length) for plan in plans for indices in plan][:70]
    assert 1 < 70 / len(plans[0]) < 20, "more than one epoch"
    assert len(found) == 70
    for one, other in zip(found, expected, strict=True):
        for name in ("source", "target_input", "target_output"):
            assert np.array_equal(getattr(one, name), getattr(other, name))


def test_a_resumed_run_equals_one_that_nobody_stopped(tmp_path: Path) -> None:
    rates = [1e-3 * (1 + number % 4) for number in range(9)]
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    for folder in (whole, parts):
        folder.mkdir()
    steady = make_learner(1)
    LearningSession(steady, request(whole, rates)).measure({"do": "learn", "steps": 100})
    asked, seconds = request(parts, rates), [0.0]
    for number in range(3):
        learner = make_learner(1 if number == 0 else 100 + number)  # what it begins with no longer matters
        session = LearningSession(learner, asked)
        assert session.facts["step"] == 4 * number
        assert session.facts["seconds"] == seconds[-1]
        (tmp_path / "parts" / "run").mkdir(exist_ok=True)
        (tmp_path / "parts" / "run" / "state.pt.partial").write_bytes(b"killed while saving")
        seconds.append(session.measure({"do": "learn", "steps": 4})["seconds"])
    assert seconds == sorted(set(seconds)), "the clock goes on"
    assert session.measure({"do": "learn", "steps": 4})["step"] == 9
    expected = steady.model.state_dict()
    assert all(torch.equal(tensor, expected[name]) for name, tensor in learner.model.state_dict().items())
    tokens = sum(batch.num_tokens for batch in some_batches(9))
    assert session.measure({"do": "learn", "steps": 1})["tokens"] == tokens


def test_steps_are_made_at_the_rates_of_the_run(tmp_path: Path) -> None:
    learner = make_learner(1)
    before = [parameter.detach().clone() for parameter in learner.model.parameters()]
    session = LearningSession(learner, request(tmp_path, [0.0, 0.0, 0.01]))
    for steps, same in ((2, True), (1, False)):
        session.measure({"do": "learn", "steps": steps})
        after = [parameter.detach() for parameter in learner.model.parameters()]
        assert all(map(torch.equal, before, after)) == same
        assert learner.model.training
    assert session.measure({"do": "translate", "sources": ["a"], "beam": 4}) == {"lines": ["4 a"]}
    assert not learner.model.training, "nothing is dropped while it translates"


def test_a_peers_run_is_made_once_and_scored_anew_where_asked(small: Path) -> None:
    said: list[str] = []
    row = contest(small, said.append).run("marian", 5)
    assert row is not None
    assert [line.split(", loss")[0] for line in said if ", loss" in line] == [
        f"marian, 5 steps: step {step}" for step in (2, 4, 5)
    ]
    assert row["starts"] == 1
    assert row["machine_gflops"] == [{"fp32": 100.0, "bf16": 100.0}]
    again = contest(small)
    assert again.run("marian", 5) == row
    assert again.versions["x"] == "1"
    assert (small / "starts.txt").read_text() == "start\n", "no worker is started for what is known"
    other = QualityContest(replace(again.settings, lines=2)).run("marian", 5)
    assert other is not None
    assert (small / "starts.txt").read_text() == "start\n" * 2, "another test text is translated by what was learnt"
    assert (other["minutes"], other["starts"]) == (row["minutes"], 1)


def test_minutes_hold_the_preparation_and_the_steps(small: Path) -> None:
    found = contest(small)
    row = found.run("marian", 3)
    state = torch.load(small / "work" / "quality" / "marian-3" / "state.pt", weights_only=True)
    assert row is not None
    assert found.preparation_seconds > 0
    expected = (found.preparation_seconds + state["standing"]["seconds"]) / 60
    assert row["minutes"] == pytest.approx(expected, rel=1e-3)
    assert contest(small).preparation_seconds == found.preparation_seconds, "it is measured once"
    with pytest.raises(DragomanError, match="holds a run with other settings, text or threads"):
        contest(small, threads=2).run("marian", 3)


def test_dragomans_clock_goes_on_after_a_kill(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = [sys.executable, "-c", "import time; time.sleep(0.3)"]
    monkeypatch.setattr(quality_contest, "_command", lambda form, values: fake)
    found, folder = contest(small), small / "work" / "quality" / "dragoman-2"
    record = Record(folder, "run")
    record.put({"seconds": 10.0})  # of a command that was killed
    found._train_dragoman(2, folder, record)
    assert 10.3 <= record.content["seconds"] < 30
    assert Record(folder, "run").content["finished"]
    fake[-1] = "raise SystemExit(3)"
    with pytest.raises(DragomanError, match="ended with code 3"):
        found._train_dragoman(2, folder, Record(small / "other", "run"))
    assert not Record(small / "other", "run").content.get("finished")


class FakeContest:
    """Rows without runs."""

    def run(self, toolkit: str, steps: int) -> dict[str, Any] | None:
        if toolkit == "joeynmt":
            return None
        ours = toolkit == "dragoman"
        return {"precision": "bf16", "minutes": 10.0 if ours else 25.0, "bleu": 33.0 if ours else 32.99}


def result() -> dict[str, Any]:
    toolkits = ["dragoman", "marian", "joeynmt"]
    return time_to_quality.compare(FakeContest(), toolkits, 1200, 33.0)  # type: ignore[arg-type]


def test_tables_say_what_was_not_reached() -> None:
    found = result()
    assert list(found["toolkits"]) == ["dragoman", "marian"], "who is left out has no row"
    assert [row["reached"] for row in found["toolkits"].values()] == [True, False]
    assert found["toolkits"]["marian"]["times_dragoman"] == 2.5
    with time_to_quality.CONSOLE.capture() as capture:
        time_to_quality.show(found)
    lines = capture.get().splitlines()
    assert max(map(len, lines)) <= 80
    ours, theirs = (next(line for line in lines if name in line) for name in ("dragoman bf16", "MarianMTModel bf16"))
    assert "not reached" in theirs
    assert "not reached" not in ours
    assert "reached" in ours


def test_the_report_shows_the_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = time_to_quality.parse(["DATA", "--lines", "3", "--length-penalty", "0.6", "--results", "x"])
    options.results = tmp_path / "benchmarks" / "results"

    class Done:
        versions, test_lines, preparation_seconds = {"dragoman": "1", "marian": "2"}, 3, 4.56789

    time_to_quality.store_all(options, "abc", Done(), [result()])  # type: ignore[arg-type]
    record = json.loads((options.results / "time-to-quality.json").read_text())
    assert record["commands"] == ["python benchmarks/time_to_quality.py DATA --lines 3 --length-penalty 0.6"]
    options.toolkits = ["joeynmt"]
    time_to_quality.store_all(options, "abc", Done(), [result() | {"steps": 5000}])  # type: ignore[arg-type]
    record = json.loads((options.results / "time-to-quality.json").read_text())
    assert [one["steps"] for one in record["result"]["minutes to BLEU"]] == [1200, 5000]
    assert len(record["commands"]) == 2
    assert quality_report.is_time_to_quality(record)
    monkeypatch.setattr(report, "ROOT", tmp_path)
    page = report.render()
    assert "## Minutes from raw text to the end of equally long runs, and their quality, side by side" in page
    assert "| MarianMTModel bf16 | 25.0 | 32.99 | not reached | 2.50 |" in page
    assert "**33 BLEU, 1,200 steps**" in page


def test_lengths_and_targets_come_in_pairs(capsys: pytest.CaptureFixture[str]) -> None:
    assert time_to_quality.parse(["DATA"]).steps == [900, 1300]
    with pytest.raises(SystemExit):
        time_to_quality.parse(["DATA", "--steps", "6"])
    assert "give as many of the one as of the other" in capsys.readouterr().err
