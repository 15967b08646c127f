"""One training step: the gradient of some batches, normalised by their target tokens, then Adam (section 5.3).

A step gives the same result in one process or in several, and in whole batches or in pieces of them where memory is
short. Each batch seeds its own random numbers, so dropout does not depend on the other batches either. Only pieces draw
other random numbers than the whole batch would.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from dragoman.config import DragomanError, TrainConfig
from dragoman.model.transformer import Transformer
from dragoman.runtime.allocator import is_out_of_memory
from dragoman.runtime.console import Report
from dragoman.text.batches import Batch
from dragoman.training.distributed import Processes
from dragoman.training.loss import TrainingObjective
from dragoman.training.optimizer import MovingAverage, build_optimizer


@dataclass(frozen=True)
class StepBatches:
    """What one process computes in a step."""

    batches: list[tuple[int, Batch]]  # each with its random seed; empty if there are more processes than batches
    num_tokens: int  # target tokens of the whole step, over all processes
    filler: Batch | None = None  # with which a process without batches takes part in the exchange of gradients


class Stepper:
    """Makes training steps with one model; owns its optimizer and the moving average of its weights."""

    def __init__(self, model: Transformer, config: TrainConfig, bf16: bool, processes: Processes) -> None:
        """Build the optimizer; the model is on its device, with the same weights in every process."""
        self.device = next(model.parameters()).device
        self.optimizer = build_optimizer(model, config.optimizer)
        self.average = MovingAverage(model, config.optimizer.ema_decay)
        self.piece_tokens = 0
        """Larger batches are computed in pieces of at most this many padded tokens; 0: batches stay whole."""
        self._model, self._bf16, self._processes = model, bf16, processes
        self._clip = config.optimizer.clip_norm or math.inf
        self._objective = TrainingObjective(model, config.optimizer.label_smoothing, config.optimizer.r_drop)
        self._parallel: DistributedDataParallel | None = None
        if processes.size > 1:
            ids = [self.device] if self.device.type == "cuda" else None
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FutureWarning)  # what replaces broadcast_buffers is newer than 2.6
                self._parallel = DistributedDataParallel(self._objective, ids, broadcast_buffers=False)

    def restore(self, optimizer: dict[str, Any]) -> None:
        """Restore Adam's moments; its settings come from the current config."""
        groups = zip(self.optimizer.param_groups, optimizer["param_groups"], strict=True)
        own = [group | {"params": saved["params"]} for group, saved in groups]
        self.optimizer.load_state_dict(optimizer | {"param_groups": own})

    def gradients(self, step: StepBatches, report: Report) -> tuple[float, float]:
        """Compute the clipped gradient of a step and leave it in the parameters.

        If memory runs out, batches are cut into pieces from now on, and that is reported.

        Returns:
            This process's part of the loss, in nats per target token of the whole step; and the norm of the whole
            gradient before clipping, the same in every process.
        """
        self._model.train()
        loss: Tensor | None = None
        while loss is None:
            try:
                loss = self._accumulate(step)
            except RuntimeError as error:
                if not is_out_of_memory(error):
                    raise
            if loss is None:  # outside the handler, which keeps the tensors of the failed attempt alive
                self._use_smaller_pieces([batch for _, batch in step.batches])
                report(f"out of memory: batches are computed in pieces of {self.piece_tokens:,} tokens from now on")
        parameters = list(self._model.parameters())
        norm = torch.nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
        if float(norm) > self._clip:
            torch.nn.utils.clip_grads_with_norm_(parameters, self._clip, norm)
        return float(loss), float(norm)

    def apply(self, rate: float) -> None:
        """Update the weights with Adam at this learning rate, and drop the gradients."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        self.drop_gradients()

    def drop_gradients(self) -> None:
        """Forget a step that is not to be applied."""
        self.optimizer.zero_grad(set_to_none=True)

    def try_batch(self, batch: Batch) -> None:
        """Compute the gradient of one batch and drop it, with memory reserved for Adam's moments."""
        self._model.train()
        fresh = not self.optimizer.state
        reserved = [torch.empty_like(p) for p in self._model.parameters() for _ in range(2)] if fresh else []
        try:
            torch.manual_seed(0)
            self._loss(batch, self._objective).backward()  # type: ignore[no-untyped-call]
        finally:
            self.drop_gradients()
            del reserved

    def _accumulate(self, step: StepBatches) -> Tensor:
        """Sum of this process's losses over the step's tokens; gradients summed over all processes."""
        total = torch.zeros((), device=self.device)
        weight = 1.0 / step.num_tokens
        pieces: list[tuple[int | None, Batch]] = []
        for seed, batch in step.batches:
            beginning, *others = batch.pieces(self.piece_tokens)
            pieces += [(seed, beginning), *((None, piece) for piece in others)]
        if step.filler is not None:
            pieces, weight = [(0, step.filler)], 0.0
        for number, (start, piece) in enumerate(pieces, start=1):
            if start is not None:
                torch.manual_seed(start)
            last = number == len(pieces)  # only the last piece exchanges gradients
            with nullcontext() if last or self._parallel is None else self._parallel.no_sync():
                loss = self._loss(piece, self._parallel or self._objective) * weight
                # DistributedDataParallel averages over the processes; the sum is wanted.
                (loss * self._processes.size).backward()  # type: ignore[no-untyped-call]
            total += loss.detach()
        return total

    def _loss(self, batch: Batch, objective: Callable[..., Tensor]) -> Tensor:
        ids = (torch.from_numpy(x).to(self.device) for x in (batch.source, batch.target_input, batch.target_output))
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self._bf16):
            return objective(*ids)

    def _use_smaller_pieces(self, batches: list[Batch]) -> None:
        self.drop_gradients()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        size = max(batch.padded_tokens for batch in batches)
        if self._parallel is not None:  # the other processes may already be waiting for this one's gradients
            raise DragomanError(f"out of memory with batches of {size:,} padded tokens: lower optimizer.batch_tokens")
        self.piece_tokens = halved(self.piece_tokens or size, max(batch.longest for batch in batches))


def halved(tokens: int, longest: int) -> int:
    """Half a budget of padded tokens, but at least one sentence of the longest length; refuses to go below that."""
    if tokens <= longest:
        raise DragomanError(
            f"out of memory on a single sentence of {longest:,} subwords: choose a smaller model or vocabulary, or "
            f"lower text.max_length"
        )
    return max(tokens // 2, longest)


def batch_seed(seed: int, epoch: int, number: int) -> int:
    """Random seed of one batch of a run."""
    return int(np.random.SeedSequence((seed, epoch, number)).generate_state(1, np.uint64)[0] >> np.uint64(1))
