"""Dragoman itself: its training step, its translator, and what the machine's matrix products can do."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from functools import partial

import torch

import dragoman
from dragoman import SearchConfig, Transformer, Translator
from dragoman.config import ModelConfig, OptimizerConfig, TrainConfig
from dragoman.runtime.allocator import keep_freed_memory
from dragoman.text.batches import Batch
from dragoman.training.distributed import Processes
from dragoman.training.step import StepBatches, Stepper
from peers.batches import BETAS, CLIP_NORM, EPSILON, LABEL_SMOOTHING, LEARNING_RATE, Arrays, read_batches
from peers.protocol import Message, Session, serve
from peers.sessions import DecodingSession, TrainingSession
from peers.stepping import wait_for

_PRODUCT_SIZE, _PRODUCTS = 2048, 7  # on a GPU the size is that of the request
_PRODUCT_SECONDS = 5.0  # after which there are no more: bf16 takes minutes on processors that emulate it
_VERSIONS = {"dragoman": dragoman.__version__, "torch": torch.__version__}


class MeasuringProducts:
    """A session that can also measure the machine's own rate ("rate")."""

    def __init__(self, session: TrainingSession, device: str) -> None:
        """Wrap a session that measures training on this device."""
        self.facts = session.facts
        self._session, self._device = session, device

    def measure(self, request: Message) -> Message:
        """Training steps, or the rate of large matrix products in GFLOP/s by precision."""
        if request["do"] == "rate":
            size = request.get("size", _PRODUCT_SIZE)
            types = {"fp32": torch.float32, "bf16": torch.bfloat16}
            return {name: product_rate(dtype, self._device, size) for name, dtype in types.items()}
        return self._session.measure(request)


def product_rate(dtype: torch.dtype, device: str, size: int) -> float:
    """GFLOP/s of a product of two large square matrices, the median of a few."""
    a, b = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
    a[:8] @ b
    times = list[float]()
    while len(times) < _PRODUCTS and sum(times) < _PRODUCT_SECONDS:
        wait_for(device)
        start = time.perf_counter()
        a @ b
        wait_for(device)
        times.append(time.perf_counter() - start)
    return 2 * size**3 / statistics.median(times) / 1e9


def prepare_training(request: Message) -> MeasuringProducts:
    """Make the model and warm it up."""
    keep_freed_memory()  # as Trainer does
    torch.manual_seed(1)
    config = ModelConfig(**request["config"])
    device = request.get("device", "cpu")
    model = Transformer(config).to(device)
    optimizer = OptimizerConfig(
        beta1=BETAS[0], beta2=BETAS[1], epsilon=EPSILON, clip_norm=CLIP_NORM, label_smoothing=LABEL_SMOOTHING
    )
    run = TrainConfig(
        "en", "de", ["unused"], "unused", compile=bool(request.get("compile")), model=config, optimizer=optimizer
    )
    stepper = Stepper(model, run, request["precision"] == "bf16", Processes())

    def step(arrays: Arrays) -> None:
        batch = Batch(arrays.source, arrays.target_input, arrays.target_output)
        stepper.gradients(StepBatches([(1, batch)], batch.num_tokens), print)
        stepper.apply(LEARNING_RATE)

    facts = {"versions": _VERSIONS, "parameters": model.num_parameters}
    session = TrainingSession(step, read_batches(request["batches"]), facts, partial(wait_for, device))
    return MeasuringProducts(session, device)


def prepare_decoding(request: Message) -> DecodingSession:
    """Load the model folder as the command line does; int8 is what auto takes."""
    precision = request["precision"].replace("int8", "auto")
    device = request.get("device", "cpu")
    translator = Translator.load(request["model"], device, precision=precision, workers=request["threads"])

    def translate(lines: Sequence[str], beam: int) -> list[str]:
        config = SearchConfig(beam=beam, length_penalty=request["length_penalty"], log_probs=False)
        found = translator.translate(lines, config)
        return [translation.text for translation in found]

    return DecodingSession(translate, request["sources"], {"versions": _VERSIONS})


def prepare(request: Message) -> Session:
    """A session of the kind that the request names."""
    return prepare_training(request) if request["task"] == "training" else prepare_decoding(request)


if __name__ == "__main__":
    serve(prepare)
