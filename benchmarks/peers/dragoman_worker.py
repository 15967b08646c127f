"""Dragoman itself: its training step, its translator, and what the machine's matrix products can do."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence

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

_PRODUCT_SIZE, _PRODUCTS = 2048, 7
_VERSIONS = {"dragoman": dragoman.__version__, "torch": torch.__version__}


class MeasuringProducts:
    """A session that can also measure the machine's own rate ("rate")."""

    def __init__(self, session: TrainingSession) -> None:
        """Wrap a session that measures training."""
        self.facts = session.facts
        self._session = session

    def measure(self, request: Message) -> Message:
        """Training steps, or the rate of large matrix products in GFLOP/s by precision."""
        if request["do"] == "rate":
            return {"fp32": product_rate(torch.float32), "bf16": product_rate(torch.bfloat16)}
        return self._session.measure(request)


def product_rate(dtype: torch.dtype) -> float:
    """GFLOP/s of a product of two large square matrices, the median of a few."""
    a, b = (torch.randn(_PRODUCT_SIZE, _PRODUCT_SIZE).to(dtype) for _ in range(2))
    a @ b
    times = []
    for _ in range(_PRODUCTS):
        start = time.perf_counter()
        a @ b
        times.append(time.perf_counter() - start)
    return 2 * _PRODUCT_SIZE**3 / statistics.median(times) / 1e9


def prepare_training(request: Message) -> MeasuringProducts:
    """Make the model and warm it up."""
    keep_freed_memory()  # as Trainer does
    torch.manual_seed(1)
    config = ModelConfig(**request["config"])
    model = Transformer(config)
    optimizer = OptimizerConfig(
        beta1=BETAS[0], beta2=BETAS[1], epsilon=EPSILON, clip_norm=CLIP_NORM, label_smoothing=LABEL_SMOOTHING
    )
    run = TrainConfig(source="en", target="de", train=["unused"], out="unused", model=config, optimizer=optimizer)
    stepper = Stepper(model, run, request["precision"] == "bf16", Processes())

    def step(arrays: Arrays) -> None:
        batch = Batch(arrays.source, arrays.target_input, arrays.target_output)
        stepper.gradients(StepBatches([(1, batch)], batch.num_tokens), print)
        stepper.apply(LEARNING_RATE)

    facts = {"versions": _VERSIONS, "parameters": model.num_parameters}
    return MeasuringProducts(TrainingSession(step, read_batches(request["batches"]), facts))


def prepare_decoding(request: Message) -> DecodingSession:
    """Load the model folder as the command line does; int8 is what auto takes."""
    precision = request["precision"].replace("int8", "auto")
    translator = Translator.load(request["model"], "cpu", precision=precision, workers=request["threads"])

    def translate(lines: Sequence[str], beam: int) -> list[str]:
        found = translator.translate(lines, SearchConfig(beam=beam, length_penalty=request["length_penalty"]))
        return [translation.text for translation in found]

    return DecodingSession(translate, request["sources"], {"versions": _VERSIONS})


def prepare(request: Message) -> Session:
    """A session of the kind that the request names."""
    return prepare_training(request) if request["task"] == "training" else prepare_decoding(request)


if __name__ == "__main__":
    serve(prepare)
