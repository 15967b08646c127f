"""What processors without AMX or AVX-512 gain and lose, and whether `--precision auto` chooses well for them.

    python benchmarks/processors.py [--quick] [--repeats N]

This processor plays the older ones: processes of their own are told not to use later instructions than theirs (oneDNN,
MKL and PyTorch have a variable each for that). Each reports which precision `auto` takes and how long it thinks about
it, and measures, in fp32 and in bf16, training (preset small, target tokens/s, one batch of 2,000) and translating
(sentences/s, beam 4, 64 sentences of a fixed length, random weights). The processors take turns; medians of N rounds.
Clock rates, caches and memory stay those of this machine. Stored in benchmarks/results/processors.json; --quick takes
a far smaller model, one round, and stores nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from hardware import describe_hardware
from torch import Tensor

from dragoman.config import BOS, EOS, SearchConfig, TrainConfig, model_preset
from dragoman.inference.engine import Engine
from dragoman.model.transformer import Transformer
from dragoman.runtime.allocator import keep_freed_memory
from dragoman.runtime.device import use_bf16
from dragoman.text.batches import Batch
from dragoman.training.distributed import Processes
from dragoman.training.step import StepBatches, Stepper

RESULT = Path(__file__).parent / "results" / "processors.json"
PROCESSORS = {
    "AVX2": {"ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"},
    "AVX512_CORE": {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE", "MKL_ENABLE_INSTRUCTIONS": "AVX512"},
    "AVX512_CORE_BF16": {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16", "MKL_ENABLE_INSTRUCTIONS": "AVX512"},
    "AVX512_CORE_AMX": {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_AMX"},
}
"""Environments by oneDNN's names; fp32 products are MKL's, all else is PyTorch's own."""
CPU = torch.device("cpu")
UNITS = {"training": "tokens_per_second", "translating": "sentences_per_second"}


@dataclass(frozen=True)
class Work:
    """How much is computed."""

    preset: str = "small"
    vocabulary: int = 8000
    tokens: int = 2000
    """Of the training batch, on each side."""
    sentences: int = 64
    length: int = 20
    """Subwords of every sentence to translate or learn, and of every translation."""
    seconds: float = 5.0
    """How long each speed is measured, if one go takes less."""


QUICK = Work("tiny", vocabulary=400, tokens=200, sentences=4, length=10, seconds=0.2)


@dataclass(frozen=True)
class ExactLength:
    """A rule of the search: end after so many subwords, neither sooner nor later."""

    length: int

    def __call__(self, logits: Tensor, tokens: Tensor, sentences: Sequence[int]) -> Tensor:
        """Rule out the end, or all but the end, in place; logits (N, V), tokens so far (N, T)."""
        if tokens.size(1) < self.length:
            logits[:, EOS] = -float("inf")
        else:
            end = logits[:, EOS].clone()
            logits.fill_(-float("inf"))[:, EOS] = end
        return logits


def random_ids(work: Work, count: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """So many sentences, each ending in EOS, (count, length)."""
    ids = np.random.default_rng(1).integers(4, work.vocabulary, (count, work.length))
    ids[:, -1] = EOS
    return ids


def random_model(work: Work) -> Transformer:
    """The preset with random weights, the same every time."""
    torch.manual_seed(1)
    sizes = {"source_vocab_size": work.vocabulary, "target_vocab_size": work.vocabulary}
    return Transformer(replace(model_preset(work.preset), **sizes))


def rate(go: Callable[[], object], amount: int, seconds: float) -> float:
    """Amount per second of going; a first go is thrown away, unless it took longer than all is to take."""
    times: list[float] = []
    begun = time.perf_counter()
    while len(times) < 2 or time.perf_counter() - begun < seconds:
        start = time.perf_counter()
        go()
        times.append(time.perf_counter() - start)
        if len(times) == 1 and times[0] > seconds:
            return amount / times[0]
    return amount / statistics.median(times[1:])


def training_speed(work: Work, bf16: bool) -> float:
    """Target tokens per second of steps with one batch."""
    ids = random_ids(work, work.tokens // work.length)
    inputs = np.concatenate((np.full((len(ids), 1), BOS), ids[:, :-1]), axis=1)
    batch = Batch(ids, inputs, ids)
    config = TrainConfig(source="xx", target="yy", train=["-"], out="-")
    stepper = Stepper(random_model(work), config, bf16, Processes())

    def step() -> None:
        stepper.gradients(StepBatches([(1, batch)], batch.num_tokens), print)
        stepper.apply(1e-4)

    return rate(step, batch.num_tokens, work.seconds)


def translating_speed(work: Work, bf16: bool) -> float:
    """Sentences per second of a search whose translations all have the same length."""
    engine = Engine(random_model(work).eval(), CPU, bf16)
    sources = random_ids(work, work.sentences).tolist()
    config, exact = SearchConfig(beam=4), ExactLength(work.length)
    return rate(lambda: engine.search(sources, config, exact), len(sources), work.seconds)


def measure(work: Work) -> dict[str, Any]:
    """One round, in the process whose instructions are limited."""
    keep_freed_memory()
    start = time.perf_counter()
    auto = use_bf16("auto", CPU)
    found: dict[str, Any] = {
        "capability": torch.backends.cpu.get_cpu_capability(),
        "auto": "bf16" if auto else "fp32",
        "choosing_ms": 1000 * (time.perf_counter() - start),
    }
    for task, speed in (("training", training_speed), ("translating", translating_speed)):
        for precision in ("fp32", "bf16"):
            found[f"{task}_{precision}"] = speed(work, precision == "bf16")
    return found


def measure_as(processor: str, work: Work) -> dict[str, Any]:
    """One round, in a process of its own that uses no later instructions than this processor has.

    Raises:
        RuntimeError: it failed.
    """
    names = {name for variables in PROCESSORS.values() for name in variables}
    environment = {name: value for name, value in os.environ.items() if name not in names} | PROCESSORS[processor]
    command = [sys.executable, __file__, "--round", json.dumps(asdict(work))]
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    if run.returncode:
        raise RuntimeError(f"{processor}: {run.stderr}")
    return dict(json.loads(run.stdout.strip().split("\n")[-1]))


def summarise(rounds: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Medians of a processor's rounds, and whether the precision that auto takes was the faster one."""
    choices = sorted({found["auto"] for found in rounds})
    summary: dict[str, Any] = {
        "pytorch_capability": rounds[0]["capability"],
        "auto": ", ".join(choices),
        "milliseconds_to_choose": round(statistics.median(found["choosing_ms"] for found in rounds), 1),
    }
    faster = {}
    for task, unit in UNITS.items():
        speeds = {
            precision: statistics.median(found[f"{task}_{precision}"] for found in rounds)
            for precision in ("fp32", "bf16")
        }
        summary[f"{task}_{unit}"] = {precision: float(f"{speed:.4g}") for precision, speed in speeds.items()}
        faster[task] = choices == [max(speeds, key=lambda precision: speeds[precision])]
    return summary | {"auto_was_faster": faster}


def compare(work: Work, repeats: int) -> dict[str, Any]:
    """Let the processors take turns."""
    rounds: dict[str, list[dict[str, Any]]] = {processor: [] for processor in PROCESSORS}
    for number in range(repeats):
        for processor, found in rounds.items():
            found.append(measure_as(processor, work))
            print(f"round {number + 1}, {processor}: {json.dumps(found[-1])}", file=sys.stderr, flush=True)
    return {processor: summarise(found) for processor, found in rounds.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tiny model, one round, nothing stored")
    parser.add_argument("--repeats", type=int, default=3, help="rounds (default 3)")
    parser.add_argument("--round", help=argparse.SUPPRESS)  # what a process of its own is told
    options = parser.parse_args(arguments)
    if options.round:
        print(json.dumps(measure(Work(**json.loads(options.round)))))
        return
    work = QUICK if options.quick else Work()
    result = {"threads": torch.get_num_threads(), **asdict(work)}
    result |= compare(work, 1 if options.quick else options.repeats)
    print(json.dumps(result, indent=1))
    if not options.quick:
        command = f"python benchmarks/processors.py --repeats {options.repeats}"
        content = {"command": command, "hardware": describe_hardware(), "result": result}
        RESULT.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
