"""Where the time of a training step on a CPU goes, by kind of operation.

    python benchmarks/operations.py [--sizes tiny small base] [--steps N]

Steps of 4,096 random tokens in sentences of 20, under PyTorch's profiler, in fp32 and in bf16. Each operation's own
time counts, without that of the operations it calls. Prints shares of the time of all operations and stores them in
benchmarks/results/operations.json. The profiler slows small operations down a little, so shares of those are upper
bounds; what Python does between operations does not count.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from hardware import describe_hardware
from torch.profiler import ProfilerActivity, profile

from dragoman.config import BOS, EOS, PRESETS, TextConfig, TrainConfig, model_preset
from dragoman.model.transformer import Transformer
from dragoman.runtime.allocator import keep_freed_memory
from dragoman.text.batches import Batch
from dragoman.training.distributed import Processes
from dragoman.training.step import StepBatches, Stepper

RESULT = Path(__file__).parent / "results" / "operations.json"
TOKENS, LENGTH = 4096, 20
KINDS = {
    "matrix products": "mm addmm bmm baddbmm linear mkldnn_linear linear_pointwise",
    "fused attention": "scaled_dot_product",
    "softmax and loss": "softmax log_softmax logsumexp log exp gather scatter_add_ masked_fill_",
    "layer normalisation": "native_layer_norm",
    "dropout": "random_ bernoulli_ clamp_ native_dropout rand",
    "ReLU": "relu clamp_min threshold_backward",
    "sums: gradients of biases": "sum",
    "element by element": "add add_ sub sub_ mul mul_ div div_",
    "copies and conversions": "copy_ cat clone contiguous fill_ zero_ stack",
    "embedding": "embedding index_select index index_put",
    "Adam and gradient norm": "fused_adamw linalg_vector_norm foreach",
}
"""Kinds of operations and how their names begin, after `aten::` and underscores; all others are "other"."""


def kind_of(name: str) -> str:
    """The kind of an operation by PyTorch's name of it."""
    plain = name.rpartition("::")[2].strip("_")
    words = [(word.strip("_"), kind) for kind, some in KINDS.items() for word in some.split()]
    words.sort(key=lambda known: -len(known[0]))
    return next((kind for word, kind in words if f"{plain}_".startswith(f"{word}_")), "other")


def shares(size: str, bf16: bool, steps: int) -> dict[str, float]:
    """Percentages of the time of all operations, by kind."""
    subwords = PRESETS[size].get("text.vocab_size", TextConfig().vocab_size)
    torch.manual_seed(1)
    model = Transformer(replace(model_preset(size), source_vocab_size=subwords, target_vocab_size=subwords))
    ids = np.random.default_rng(1).integers(4, subwords, (TOKENS // LENGTH, LENGTH))
    ids[:, -1] = EOS
    batch = Batch(ids, np.concatenate((np.full((len(ids), 1), BOS), ids[:, :-1]), axis=1), ids)
    stepper = Stepper(model, TrainConfig("xx", "yy", ["-"], "-"), bf16, Processes())

    def step() -> None:
        stepper.gradients(StepBatches([(1, batch)], batch.num_tokens), print)
        stepper.apply(1e-4)

    for _ in range(2):
        step()
    with profile(activities=[ProfilerActivity.CPU]) as measured:
        for _ in range(steps):
            step()
    times = Counter[str]()
    for event in measured.key_averages():
        times[kind_of(event.key)] += event.self_cpu_time_total
    return {kind: 100 * times[kind] / times.total() for kind in [*KINDS, "other"]}


def main(arguments: list[str]) -> None:
    """Measure, print, store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", default=["tiny", "small", "base"])
    parser.add_argument("--steps", type=int, default=10)
    options = parser.parse_args(arguments)
    keep_freed_memory()
    found: dict[str, Any] = {}
    for size in options.sizes:
        for precision in ("fp32", "bf16"):
            kinds = shares(size, precision == "bf16", options.steps)
            found[f"{size}, {precision}"] = {kind: round(share, 1) for kind, share in kinds.items()}
            print(size, precision, found[f"{size}, {precision}"], flush=True)
    command = " ".join(["python benchmarks/operations.py", *arguments])
    content = {"command": command, "hardware": describe_hardware(), "result": {"share of time": found}}
    RESULT.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
