"""A GPU computes what the CPU computes.

With DRAGOMAN_GPU=cuda in the environment these tests use a GPU. Otherwise tests/other_device.py stands in for it, which
notices every tensor that stayed on the CPU.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from dragoman.cli.main import main
from dragoman.config import OptimizerConfig, SearchConfig, TextConfig, ValidationConfig
from dragoman.inference import conversion
from dragoman.inference.search import _stable_topk
from dragoman.inference.translator import Translator
from dragoman.inspection.evidence import inspect
from dragoman.interop import ctranslate2, huggingface, onnx
from dragoman.interop.parity import Sample, prove
from dragoman.train import run_training
from tests.other_device import other_device
from tests.small_models import LINES, TARGETS, small_model
from tests.training.small_runs import SHAPE, configure, last_weights, limit_memory, records, write_corpus

DEVICE = os.environ.get("DRAGOMAN_GPU", "")
SETTINGS: dict[str, Any] = {
    "text": TextConfig(placeholders=0.0, vocab_size=320, max_length=24),
    "model": replace(SHAPE, max_length=26),
    "optimizer": OptimizerConfig(batch_tokens=200, warmup_steps=4),
    "validation": ValidationConfig(every=4, keep_last=2, beam=2),
}
EVERYTHING = replace(SETTINGS["optimizer"], r_drop=1.0, accumulate=2, ema_decay=0.9)


@pytest.fixture
def gpu() -> Iterator[str]:
    if DEVICE:
        yield DEVICE
        if DEVICE.startswith("cuda"):
            torch.cuda.empty_cache()
    else:
        for symbols in (False, True):
            small_model(symbols=symbols)  # learns, which the device would slow down
        with other_device() as device:
            yield str(device)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A corpus; runs write no pages, which takes longer than all else."""
    monkeypatch.setattr("dragoman.train._write_page", lambda *arguments, **more: None)
    write_corpus(tmp_path, valid=4)
    return tmp_path


def train(folder: Path, out: str, device: str, **changes: Any) -> Path:
    run_training(configure(folder, out, device=device, **(SETTINGS | changes)))
    return folder / out


@pytest.mark.parametrize(("optimizer", "memory"), [(SETTINGS["optimizer"], 0), (EVERYTHING, 100)])
def test_a_run_has_the_numbers_of_the_cpu(
    folder: Path, gpu: str, optimizer: OptimizerConfig, memory: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a batch does not fit in memory, and is computed in pieces."""
    settings = {"optimizer": optimizer, "model": replace(SETTINGS["model"], dropout=0.0), "max_steps": 6}
    ours = train(folder, "cpu", "cpu", **settings)
    failed = limit_memory(monkeypatch, memory) if memory else []
    theirs = train(folder, "gpu", gpu, **settings)
    assert bool(failed) == bool(memory)
    expected, found = (records(run, "train/loss", "train/grad_norm", "valid/") for run in (ours, theirs))
    assert [name for _, name, _ in found] == [name for _, name, _ in expected]
    assert [value for *_, value in found] == pytest.approx([value for *_, value in expected], rel=1e-3)


def test_a_run_that_was_interrupted_ends_as_one_that_was_not(folder: Path, gpu: str) -> None:
    whole = train(folder, "whole", gpu, max_steps=6)
    train(folder, "twice", gpu, max_steps=5)
    twice = train(folder, "twice", gpu, max_steps=6)
    ours, theirs = last_weights(twice), last_weights(whole)
    assert all(torch.allclose(ours[name], theirs[name], atol=1e-4) for name in theirs)


def test_in_bf16_it_learns(folder: Path, gpu: str) -> None:
    settings = {"validation": ValidationConfig(every=30, beam=1), "max_steps": 30}
    losses = [v for *_, v in records(train(folder, "run", gpu, precision="bf16", **settings), "train/loss")]
    assert losses[-1] < 0.9 * losses[0]


def test_verbs_print_what_they_print_on_the_cpu(folder: Path, gpu: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a model that was fine-tuned and averaged there."""
    train(folder, "parent", gpu, max_steps=2)
    tuned, model, text = str(folder / "tuned"), str(folder / "average"), str(folder / "valid")
    tuning = ["train", "--source", "en", "--target", "xx", "--train", str(folder / "train"), "--valid", text]
    tuning += ["--from", str(folder / "parent"), "--max-steps", "2", "--text.max-length", "24"]
    tuning += ["--device", gpu, "--out", tuned]
    assert main([*tuning, "--precision", "fp32", "--dry-run"]) == 0
    assert f"fp32 on {gpu}" in capsys.readouterr().out
    assert main([*tuning, "--precision", "bf16"]) == 0
    assert main(["average", tuned, "--out", model]) == 0
    for verb in (
        ["translate", model, f"{text}.en", "--engine", "torch", "--alignments", "--precision", "fp32"],
        ["score", model, "--test", text],
    ):
        printed = []
        for device in ("cpu", gpu):
            capsys.readouterr()
            assert main([*verb, "--device", device]) == 0
            printed.append(re.sub(r"(\.\d\d)\d+", r"\1", capsys.readouterr().out))
        assert printed[0] == printed[1]


def test_an_ensemble_translates_as_on_the_cpu(gpu: str) -> None:
    cpu, there = (
        Translator(small_model(), torch.device(device), ensemble=[small_model(norm="pre")]) for device in ("cpu", gpu)
    )
    assert [one.text for one in there.translate(LINES[:7])] == [one.text for one in cpu.translate(LINES[:7])]


@pytest.mark.parametrize("symbols", [False, True], ids=["plain", "placeholders"])
def test_translations_scores_alignments_and_attention_are_those_of_the_cpu(gpu: str, symbols: bool) -> None:
    lines = [line.replace("cat", "{x}") for line in LINES[:7]]
    cpu, there = (Translator(small_model(symbols=symbols), torch.device(device)) for device in ("cpu", gpu))
    for config in (SearchConfig(beam=1, min_length=3, max_length=4), SearchConfig(beam=4, n_best=3, max_length=4)):
        ours, theirs = ([c for t in one.translate(lines, config) for c in t.candidates] for one in (cpu, there))
        assert [candidate.text for candidate in theirs] == [candidate.text for candidate in ours]
        assert [candidate.score for candidate in theirs] == pytest.approx([c.score for c in ours], abs=1e-3)
    assert there.complete(lines[6], "zo", config).text == cpu.complete(lines[6], "zo", config).text
    targets = TARGETS[: len(lines)]
    pairs = list(zip(lines, targets, strict=True))
    ours, theirs = ([pair.log_prob for pair in one.score(pairs)] for one in (cpu, there))
    assert theirs == pytest.approx(ours, abs=1e-3)
    assert there.align(lines, targets) == cpu.align(lines, targets)
    here, elsewhere = (inspect(translator, lines[6], config) for translator in (cpu, there))
    assert [node.piece for node in elsewhere.tree] == [node.piece for node in here.tree]
    for name, weights in here.maps.items():
        assert elsewhere.maps[name] == pytest.approx(weights, abs=1e-4)


def test_the_best_of_many_subwords_are_those_of_the_cpu(gpu: str) -> None:
    torch.manual_seed(1)
    sums = torch.randn(3, 4000).round(decimals=1)  # many are equal
    ours, theirs = (_stable_topk(sums.to(device), 8) for device in ("cpu", gpu))
    assert [found.tolist() for found in theirs] == [found.tolist() for found in ours]


def test_in_bf16_it_translates_nearly_the_same(gpu: str) -> None:
    """So many sentences, and greedily, that several leave the search at once."""
    greedy = SearchConfig(beam=1)
    cpu, there = (Translator(small_model(), torch.device(device), autocast=device == gpu) for device in ("cpu", gpu))
    ours, theirs = ([t.text for t in translator.translate(LINES[:24], greedy)] for translator in (cpu, there))
    assert sum(one == other for one, other in zip(ours, theirs, strict=True)) >= 22
    pairs = list(zip(LINES[:12], TARGETS[:12], strict=True))
    here, elsewhere = ([pair.log_prob for pair in translator.score(pairs)] for translator in (cpu, there))
    assert elsewhere == pytest.approx(here, rel=0.03, abs=0.1)


@pytest.mark.parametrize(
    "write",
    [conversion.write_model, huggingface.write_model, pytest.param(onnx.write_model, marks=pytest.mark.slow)],
    ids=["ctranslate2", "huggingface", "onnx"],
)
def test_what_is_exported_does_not_depend_on_where_the_model_is(gpu: str, write: Any, tmp_path: Path) -> None:
    written = []
    for device in ("cpu", gpu):
        loaded, out = small_model(num_encoder_layers=1, num_decoder_layers=1), tmp_path / device.replace(":", "")
        loaded.model.to(device)
        out.mkdir()
        write(loaded, out, *(["int8"] if write is conversion.write_model else []))
        written.append({path.name: path.read_bytes() for path in out.iterdir()})
    assert written[0] == written[1]


def test_a_model_there_is_proved(gpu: str, tmp_path: Path) -> None:
    loaded = small_model()
    loaded.model.to(gpu)
    for quantization in ("float32", "int8"):
        (tmp_path / quantization).mkdir()
        backend = ctranslate2.export(loaded, tmp_path / quantization, quantization)
        assert prove(loaded, backend, Sample(LINES[:4], None, "lines")).passed
