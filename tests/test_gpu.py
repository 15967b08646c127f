"""A GPU computes what the CPU computes: run with DRAGOMAN_GPU=cuda in the environment, and skipped without."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from dragoman.cli.main import main
from dragoman.config import SearchConfig
from dragoman.inference.translator import Translator
from dragoman.inspection.evidence import inspect
from tests.small_models import LINES, small_model
from tests.training.small_runs import last_weights, records, write_corpus

DEVICE = os.environ.get("DRAGOMAN_GPU", "")
pytestmark = pytest.mark.skipif(not DEVICE, reason="needs a GPU, and DRAGOMAN_GPU=cuda in the environment")
SHAPE = "--model.d-model 16 --model.d-ff 32 --model.num-heads 2 --text.vocab-size 320 --model.num-encoder-layers 2"
RUN = f"{SHAPE} --source en --target xx --optimizer.batch-tokens 200 --validation.every 6 --log-every 1"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    write_corpus(tmp_path)
    yield tmp_path
    if DEVICE.startswith("cuda"):
        torch.cuda.empty_cache()


def train(folder: Path, out: str, device: str, *more: str) -> Path:
    texts = ["--train", str(folder / "train"), "--valid", str(folder / "valid"), "--out", str(folder / out)]
    assert main(["train", *RUN.split(), *texts, "--device", device, *more]) == 0
    return folder / out


def test_losses_are_those_of_the_cpu(folder: Path) -> None:
    settings = ["--model.dropout", "0", "--precision", "fp32", "--max-steps", "12"]
    runs = [train(folder, device, device, *settings) for device in ("cpu", DEVICE)]
    cpu, gpu = ([value for *_, value in records(run, "train/loss")] for run in runs)
    assert gpu == pytest.approx(cpu, rel=1e-3)


def test_a_run_that_was_interrupted_ends_as_one_that_was_not(folder: Path) -> None:
    whole = train(folder, "whole", DEVICE, "--max-steps", "12")
    train(folder, "twice", DEVICE, "--max-steps", "7")
    twice = train(folder, "twice", DEVICE, "--max-steps", "12")
    ours, theirs = last_weights(twice), last_weights(whole)
    assert all(torch.allclose(ours[name], theirs[name], atol=1e-4) for name in theirs)


def test_in_bf16_it_learns(folder: Path) -> None:
    settings = ["--precision", "bf16", "--max-steps", "60", "--optimizer.warmup-steps", "20"]
    losses = [value for *_, value in records(train(folder, "run", DEVICE, *settings), "train/loss")]
    assert losses[-1] < 0.9 * losses[0]


def test_translations_scores_and_alignments_are_those_of_the_cpu() -> None:
    cpu, gpu = (Translator(small_model(), torch.device(device)) for device in ("cpu", DEVICE))
    config = SearchConfig(beam=4)
    here, there = cpu.translate(LINES, config), gpu.translate(LINES, config)
    assert [translation.text for translation in there] == [translation.text for translation in here]
    assert [t.score for t in there] == pytest.approx([t.score for t in here], abs=1e-3)
    pairs = list(zip(LINES, (translation.text for translation in here), strict=True))
    assert [s.log_prob for s in gpu.score(pairs)] == pytest.approx([s.log_prob for s in cpu.score(pairs)], abs=1e-3)
    maps = [inspect(translator, LINES[8]).maps for translator in (cpu, gpu)]
    for name, weights in maps[0].items():
        assert maps[1][name] == pytest.approx(weights, abs=1e-4)
