"""Peak memory of training the paper's base model with batches of 4,096 padded tokens.

    python benchmarks/memory.py

Trains a few steps on random sentences with a joint vocabulary of 37,000, in bf16 where the processor gains from it and
in fp32, each in a process of its own; prints the peak resident memory and stores it in benchmarks/results/memory.json.
"""

from __future__ import annotations

import json
import multiprocessing
import resource
from pathlib import Path

import numpy as np
import torch
from hardware import describe_hardware

from dragoman.config import BOS, EOS, OptimizerConfig, model_preset
from dragoman.model.transformer import Transformer
from dragoman.runtime.allocator import keep_freed_memory, limit_kernel_cache
from dragoman.training.loss import TrainingObjective
from dragoman.training.optimizer import build_optimizer

RESULT = Path(__file__).parent / "results" / "memory.json"
TOKENS = 4096


def train(precision: str, answer: multiprocessing.Queue[float]) -> None:
    """A few steps at the budget's extremes: many short sentences, few long ones."""
    limit_kernel_cache()
    keep_freed_memory()
    config = model_preset("base")
    model = Transformer(config)
    objective = TrainingObjective(model, smoothing=0.1)
    optimizer = build_optimizer(model, OptimizerConfig())
    generator = np.random.default_rng(1)
    for length in (8, 32, 128, 200, 32):
        ids = torch.from_numpy(generator.integers(4, config.source_vocab_size, (TOKENS // length, length)))
        target_input = ids.clone()
        target_input[:, 0], ids[:, -1] = BOS, EOS
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            loss = objective(ids, target_input, ids) / ids.numel()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    answer.put(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)


def main() -> None:
    """Measure, print, store."""
    context = multiprocessing.get_context("spawn")
    result = {"preset": "base", "vocabulary": 37_000, "batch_tokens": TOKENS}
    for precision in ("bf16", "fp32"):
        answer: multiprocessing.Queue[float] = context.Queue()
        process = context.Process(target=train, args=(precision, answer))
        process.start()
        result[f"peak_resident_gib_{precision}"] = round(answer.get(), 2)
        process.join()
    print(json.dumps(result, indent=1))
    RESULT.write_text(
        json.dumps(
            {"command": "python benchmarks/memory.py", "hardware": describe_hardware(), "result": result}, indent=1
        )
        + "\n"
    )


if __name__ == "__main__":
    main()
