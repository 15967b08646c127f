"""Processors without bf16 units: the same results there, imitated on this one by a process that may not use them.

Called as a program, this file computes what the tests compare and prints it as JSON.
"""

from __future__ import annotations

import json
import math
import os
import platform
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from dragoman.checkpoint import Direction, ModelFolder
from dragoman.config import BOS, PAD, ModelConfig, SearchConfig, TextConfig
from dragoman.inference.incremental import IncrementalDecoder, Product
from dragoman.inference.translator import Translator
from dragoman.model.masks import padding_mask
from dragoman.model.transformer import Transformer
from dragoman.runtime.device import use_bf16
from dragoman.text.subwords import Vocabulary

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import processors

CPU = torch.device("cpu")
SHAPES = [(5, [7]), (16, [16, 16, 16]), (64, [300])]
LEADING = [(), (1,), (3,), (257,), (2, 1, 4)]
MODEL = ModelConfig(
    d_model=32, d_ff=48, num_heads=4, num_encoder_layers=2, num_decoder_layers=2, dropout=0.0, max_length=64
)
WORDS = ["house", "tree", "river", "cat", "dog", "bird", "apple", "bread", "water", "stone"]


# ---- what is computed there


def product_error() -> float:
    """How far bf16 products are from the exact ones of the same numbers, in units of bf16's rounding (2^-8)."""
    worst = 0.0
    for inputs, outputs in SHAPES:
        torch.manual_seed(inputs)
        layers = [nn.Linear(inputs, size) for size in outputs]
        product = Product(layers, torch.bfloat16)
        weight, bias = (torch.cat([getattr(layer, name) for layer in layers]) for name in ("weight", "bias"))
        for leading in LEADING:
            x = torch.randn(*leading, inputs).bfloat16()
            exact = F.linear(x.double(), weight.bfloat16().double(), bias.bfloat16().double())
            error = (product(x).double() - exact).abs() / (exact.abs() + 1e-3)
            worst = max(worst, float(error.max()) * 2**8)
    return worst


def stepwise_error(model: Transformer) -> float:
    """The largest difference between the logits of a search, step by step, and those of the whole prefixes, in fp32."""
    generator = torch.Generator().manual_seed(2)
    source = torch.randint(4, 100, (3, 6), generator=generator)
    source[1, 4:] = PAD
    mask = padding_mask(source, PAD)
    memory = model.encode(source, mask)
    decoder = IncrementalDecoder(model, torch.float32)
    state, width, worst = decoder.start(memory, mask), 1, 0.0
    prefixes = torch.full((3, 1), BOS)
    for _ in range(10):
        logits = decoder.step(prefixes[:, -1], state)
        worst = max(worst, float((logits - model.decode(prefixes, memory, mask)[:, -1]).abs().max()))
        parents = torch.arange(3)[:, None] * width + torch.randint(width, (3, 4), generator=generator)
        width = 4
        state.select(parents.view(-1), None)
        chosen = torch.randint(4, 100, (12, 1), generator=generator)
        prefixes = torch.cat((prefixes[parents.view(-1)], chosen), dim=1)
    return worst


def random_folder() -> ModelFolder:
    """A model of random weights with a vocabulary."""
    lines = [f"the {a} and the {b} by the {c}" for a in WORDS for b in WORDS for c in WORDS]
    vocabulary = Vocabulary.learn((lines, lines), TextConfig(vocab_size=320))
    size = len(vocabulary.source)
    torch.manual_seed(3)
    model = Transformer(replace(MODEL, source_vocab_size=size, target_vocab_size=size)).eval()
    return ModelFolder(model, vocabulary, Direction("en", "xx"))


def translating(folder: ModelFolder, bf16: bool) -> dict[str, Any]:
    """Translations, and the log-probabilities of given ones."""
    translator = Translator(folder, CPU, bf16)
    lines = ["the house and the tree", "", "the cat by the river and the dog"]
    found = translator.translate(lines, SearchConfig(beam=4, max_length=5))
    pairs = [("the house and the tree", "the cat and the dog"), ("the bird", "the stone by the water")]
    return {
        "subwords": [len(t.subwords) for t in found],
        "log_probs": [t.log_prob for t in found],
        "scores": [score.log_prob for score in translator.score(pairs)],
    }


@torch.no_grad()
def compute() -> dict[str, Any]:
    """All of it."""
    torch.set_num_threads(1)
    folder = random_folder()
    return {
        "capability": torch.backends.cpu.get_cpu_capability(),
        "product_error": product_error(),
        "stepwise_error": stepwise_error(folder.model),
        "translating": {"fp32": translating(folder, False), "bf16": translating(folder, True)},
        "auto": use_bf16("auto", CPU),
    }


# ---- what is demanded of it


@pytest.fixture(scope="module", params=["AVX2", "AVX512_CORE"])
def found(request: pytest.FixtureRequest) -> dict[str, Any]:
    """What a process computes that uses no later instructions than these."""
    environment = os.environ | processors.PROCESSORS[request.param] | {"OMP_NUM_THREADS": "1"}
    run = subprocess.run([sys.executable, __file__], env=environment, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    result: dict[str, Any] = json.loads(run.stdout.split("\n")[-2])
    return result | {"processor": request.param}


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="other processors have other names")
def test_the_process_uses_no_later_instructions(found: dict[str, Any]) -> None:
    allowed = {"AVX2": ["DEFAULT", "AVX2"], "AVX512_CORE": ["DEFAULT", "AVX2", "AVX512"]}
    assert found["capability"] in allowed[found["processor"]]


def test_products_in_bf16_are_the_exact_ones_rounded_once(found: dict[str, Any]) -> None:
    assert found["product_error"] <= 2.0


def test_decoding_step_by_step_gives_the_logits_of_whole_prefixes(found: dict[str, Any]) -> None:
    assert found["stepwise_error"] < 1e-4


def test_translation_runs_in_both_precisions(found: dict[str, Any]) -> None:
    fp32, bf16 = (found["translating"][name] for name in ("fp32", "bf16"))
    for one in (fp32, bf16):
        assert one["subwords"][0] > 0
        assert one["subwords"][1] == 0  # of the empty line
        assert all(math.isfinite(log_prob) for log_prob in one["log_probs"])
    assert bf16["scores"] == pytest.approx(fp32["scores"], rel=0.02)


def test_auto_picks_a_precision(found: dict[str, Any]) -> None:
    assert found["auto"] in (True, False)
    if found["processor"] == "AVX2" and platform.machine() == "x86_64":
        assert found["auto"] is False  # it multiplies bf16 a hundred times more slowly


if __name__ == "__main__":
    print(json.dumps(compute()))
