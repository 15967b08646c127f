"""Peak memory of training steps in bf16, beside two peers, and the largest batches that fit into a machine.

    .bench/peers/bin/python benchmarks/memory.py

Five steps on random sentences, from many short ones to few long ones, each toolkit and size in a process of its own.
What fits is computed from batches of 4,096 and of 8,192 tokens, as memory grows in a straight line between them; 2 GiB
are left to the system. Prints the results and stores them in benchmarks/results/memory.json. `make bench` makes the
environment.
"""

from __future__ import annotations

import importlib
import json
import multiprocessing
import resource
import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from hardware import describe_hardware
from peers.batches import BOS, EOS, Arrays, write_batches
from peers.training_contest import shape_of

from dragoman.config import PRESETS, ModelConfig, TextConfig, model_preset

RESULT = Path(__file__).parent / "results" / "memory.json"
TOOLKITS = {"dragoman": "dragoman_worker", "MarianMTModel": "marian", "nn.Transformer": "torch_transformer"}
SIZES, BESIDE = ("tiny", "small", "base"), ("small", "base")
TOKENS, MACHINES, SYSTEM = (4096, 8192), (8, 16, 24), 2.0


def shape(size: str) -> ModelConfig:
    """The preset's model with its usual number of subwords."""
    subwords = PRESETS[size].get("text.vocab_size", TextConfig().vocab_size)
    return replace(model_preset(size), source_vocab_size=subwords, target_vocab_size=subwords)


def train(toolkit: str, size: str, tokens: int, answer: multiprocessing.Queue[float]) -> None:
    """The steps; answers with the peak of resident memory in GiB."""
    config = shape(size)
    generator, batches = np.random.default_rng(1), []
    for length in (8, 32, 128, 200, 32):
        ids = generator.integers(4, config.source_vocab_size, (tokens // length, length))
        start = np.full((len(ids), 1), BOS)
        ids[:, -1] = EOS
        batches.append(Arrays(ids, np.concatenate((start, ids[:, :-1]), axis=1), ids))
    request = {"task": "training", "precision": "bf16", "config": asdict(config), "shape": asdict(shape_of(config))}
    with tempfile.TemporaryDirectory() as folder:
        write_batches(Path(folder, "batches.npz"), batches)
        worker = importlib.import_module(f"peers.{TOOLKITS[toolkit]}")
        worker.prepare(request | {"batches": str(Path(folder, "batches.npz"))})  # makes a step with each
    answer.put(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)


def measure(toolkit: str, size: str, tokens: int) -> float:
    """The peak of resident memory in GiB, in a process of its own."""
    context = multiprocessing.get_context("spawn")
    answer: multiprocessing.Queue[float] = context.Queue()
    process = context.Process(target=train, args=(toolkit, size, tokens, answer))
    process.start()
    found = round(answer.get(), 2)
    process.join()
    print(f"{toolkit}, {size}, batches of {tokens:,} tokens: {found} GiB", flush=True)
    return found


def main() -> None:
    """Measure, print, store."""
    result: dict[str, Any] = {}
    for size in SIZES:
        less, more = (measure("dragoman", size, tokens) for tokens in TOKENS)
        each = (more - less) / (TOKENS[1] - TOKENS[0])
        fitting = {limit: TOKENS[0] + (limit - SYSTEM - less) / each for limit in MACHINES}
        result[size] = {
            "subwords": shape(size).source_vocab_size,
            f"GiB with {TOKENS[0]:,} tokens": {"dragoman": less},
            f"GiB with {TOKENS[1]:,} tokens": {"dragoman": more},
            "tokens that fit, extrapolated, into": {
                f"{limit} GiB": max(0, int(count) // 1000 * 1000) for limit, count in fitting.items()
            },
        }
        if size in BESIDE:
            beside = {toolkit: measure(toolkit, size, TOKENS[0]) for toolkit in TOOLKITS if toolkit != "dragoman"}
            result[size][f"GiB with {TOKENS[0]:,} tokens"] |= beside
    content = {"command": "python benchmarks/memory.py", "hardware": describe_hardware(), "result": result}
    RESULT.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
