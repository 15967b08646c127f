"""Time to quality: the peers get Dragoman's own run, go on after a kill as if nothing was; no table flatters."""

import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dragoman import ModelConfig
from dragoman.cli.main import VERBS
from dragoman.cli.parsing import parse
from dragoman.config import BOS, EOS, PAD, OptimizerConfig, TextConfig, TrainConfig
from dragoman.corpus_check.cleaning import clean_text
from dragoman.text.batches import collate, plan_epoch
from dragoman.text.preprocess import PreparedText, prepare_text
from dragoman.train import run_training
from tests.sample_run import sentences

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from peers import batches, quality_contest
from peers.learning import Learner, LearningSession
from peers.quality_contest import learning_rates, planned_batches, run_config
from peers.shape import Shape
from peers.stepping import adam, smoothed_cross_entropy, torch_step
from peers.torch_transformer import TorchTransformer

SHAPE = Shape(16, 24, 2, 1, 1, 0.2, vocab_size=300, max_length=64, layer_norm_eps=1e-5)
SMALL = ModelConfig(
    d_model=16, d_ff=24, num_heads=2, num_encoder_layers=1, num_decoder_layers=1, max_length=64, dropout=0.2
)


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
        run_config(data, out, steps, seed=1),
        device="cpu",
        precision="fp32",
        log_every=1,
        model=SMALL,
        text=TextConfig(vocab_size=300, max_length=60, placeholders=0.0),
        optimizer=OptimizerConfig(schedule="linear", peak_lr=2e-3, warmup_steps=4, batch_tokens=600),
    )


def test_the_peers_get_the_run_of_the_command_line() -> None:
    words = shlex.split(quality_contest.TRAIN.format(data="DATA", out="OUT", steps=1200, seed=2))
    config = run_config(Path("DATA"), Path("OUT"), 1200, 2)
    assert asdict(parse(words[0], VERBS[words[0]], words[1:])) == asdict(config)
    optimizer = config.optimizer
    assert (optimizer.warmup_steps, optimizer.peak_lr, optimizer.accumulate, config.seed) == (400, 0.002, 1, 2)
    assert ((optimizer.beta1, optimizer.beta2), optimizer.epsilon) == (batches.BETAS, batches.EPSILON)
    assert (optimizer.clip_norm, optimizer.label_smoothing) == (batches.CLIP_NORM, batches.LABEL_SMOOTHING)
    assert optimizer.weight_decay == 0.0, "the peers' Adam has none"


def prepared(folder: Path, steps: int) -> tuple[TrainConfig, PreparedText]:
    config = small_config(write_text(folder), folder / "out", steps)
    return config, prepare_text(config, clean_text)


def test_learning_rates_are_those_that_the_trainer_sets(tmp_path: Path) -> None:
    config = small_config(write_text(tmp_path), tmp_path / "out", steps=7)
    run_training(config)
    records = [json.loads(line) for line in (tmp_path / "out" / "metrics.jsonl").read_text().splitlines()]
    found = [record["train/lr"] for record in records if "train/lr" in record]
    assert found == learning_rates(config)


def test_batches_are_those_of_the_plan_epoch_after_epoch(tmp_path: Path) -> None:
    config, text = prepared(tmp_path, steps=70)
    store, found = text.train, list(planned_batches(text.train, config))
    lengths = (*store.lengths, config.optimizer.batch_tokens, config.seed)
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
