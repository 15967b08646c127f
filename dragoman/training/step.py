"""One step: the gradients of some batches, normalised by their target tokens, then Adam (section 5.3).

A step is the same whatever computes it: alone or shared among processes, whole batches or pieces of them where memory
is short. The random numbers of a batch are drawn from a seed of its own, so dropout depends on nothing else either,
but for pieces: they draw other numbers than the whole batch would.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
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
from dragoman.training.distributed import Processes, losing_contact
from dragoman.training.loss import TrainingObjective
from dragoman.training.moving_average import MovingAverage
from dragoman.training.optimizer import build_optimizer


@dataclass(frozen=True)
class Share:
    """One process's part of a step."""

    batches: list[tuple[int, Batch]]
    """Its batches, each with the seed of its random numbers; empty where there are more processes than batches."""
    num_tokens: int
    """Target tokens of the whole step, over all processes."""
    filler: Batch | None = None
    """Any batch, to keep step with the others where this process has none."""


class Stepper:
    """Makes steps with one model and keeps its optimizer."""

    def __init__(self, model: Transformer, config: TrainConfig, bf16: bool, processes: Processes) -> None:
        """Get ready.

        Args:
            model: on its device, with the same weights in every process.
            config: of the run.
            bf16: compute matrix products in bf16.
            processes: that share each step.
        """
        self.device = next(model.parameters()).device
        self.optimizer = build_optimizer(model, config.optimizer)
        self.average = MovingAverage(model, config.optimizer.ema_decay)
        self.piece_tokens = 0
        """Larger batches are computed in pieces of at most so many padded tokens; 0: none is."""
        self._model, self._bf16, self._processes = model, bf16, processes
        self._clip = config.optimizer.clip_norm or math.inf
        self._objective = TrainingObjective(model, config.optimizer.label_smoothing, config.optimizer.r_drop)
        self._parallel: DistributedDataParallel | None = None
        if processes.size > 1:
            ids = [self.device] if self.device.type == "cuda" else None
            with losing_contact(), warnings.catch_warnings():
                warnings.simplefilter("ignore", FutureWarning)  # what replaces broadcast_buffers is newer than 2.6
                self._parallel = DistributedDataParallel(self._objective, ids, broadcast_buffers=False)

    def restore(self, optimizer: dict[str, Any]) -> None:
        """Take up what Adam knew; how it is set is as the run is set now.

        Raises:
            ValueError: it is of another model.
        """
        groups = zip(self.optimizer.param_groups, optimizer["param_groups"], strict=True)
        own = [group | {"params": saved["params"]} for group, saved in groups]
        self.optimizer.load_state_dict(optimizer | {"param_groups": own})

    def gradients(self, share: Share, report: Report) -> tuple[float, float]:
        """Leave the gradient of a step in the parameters, clipped.

        Args:
            share: what this process has to do.
            report: told when memory ran out and batches are cut from now on.

        Returns:
            This process's part of the loss, in nats per target token of the whole step; and the norm of the whole
            gradient before it was clipped, the same in every process.

        Raises:
            DragomanError: memory is too short for a single sentence, or another process is gone.
        """
        self._model.train()
        loss: Tensor | None = None
        while loss is None:
            try:
                with losing_contact():
                    loss = self._accumulate(share)
            except RuntimeError as error:
                if not is_out_of_memory(error):
                    raise
            if loss is None:  # outside the handler, which holds on to the tensors of the failed attempt
                self._cut([batch for _, batch in share.batches])
                report(f"out of memory: batches are computed in pieces of {self.piece_tokens:,} tokens from now on")
        parameters = list(self._model.parameters())
        norm = torch.nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
        if float(norm) > self._clip:
            torch.nn.utils.clip_grads_with_norm_(parameters, self._clip, norm)
        return float(loss), float(norm)

    def apply(self, rate: float) -> None:
        """Let Adam use the gradients, with this learning rate."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        self.forget()

    def forget(self) -> None:
        """Drop the gradients."""
        self.optimizer.zero_grad(set_to_none=True)

    def try_out(self, batch: Batch) -> None:
        """Compute the gradient of one batch and forget it, with room taken for what Adam will keep.

        Raises:
            RuntimeError: memory ran out (is_out_of_memory).
        """
        self._model.train()
        fresh = not self.optimizer.state
        room = [torch.empty_like(p) for p in self._model.parameters() for _ in range(2)] if fresh else []
        try:
            torch.manual_seed(0)
            self._loss(batch, self._objective).backward()  # type: ignore[no-untyped-call]
        finally:
            self.forget()
            del room

    def _accumulate(self, share: Share) -> Tensor:
        """Sum of this process's losses over the step's tokens; gradients summed over all processes."""
        total = torch.zeros((), device=self.device)
        weight = 1.0 / share.num_tokens
        pieces: list[tuple[int | None, Batch]] = []
        for seed, batch in share.batches:
            beginning, *others = batch.pieces(self.piece_tokens)
            pieces += [(seed, beginning), *((None, piece) for piece in others)]
        if share.filler is not None:
            pieces, weight = [(0, share.filler)], 0.0
        for number, (start, piece) in enumerate(pieces, start=1):
            if start is not None:
                torch.manual_seed(start)
            with self._silence(unless=number == len(pieces)):
                loss = self._loss(piece, self._parallel or self._objective) * weight
                # DistributedDataParallel averages over the processes; the sum is wanted.
                (loss * self._processes.size).backward()  # type: ignore[no-untyped-call]
            total += loss.detach()
        return total

    def _silence(self, unless: bool) -> AbstractContextManager[None]:
        """Only the last piece exchanges gradients."""
        if unless or self._parallel is None:
            return nullcontext()
        return self._parallel.no_sync()

    def _loss(self, batch: Batch, objective: Callable[..., Tensor]) -> Tensor:
        ids = (torch.from_numpy(x).to(self.device) for x in (batch.source, batch.target_input, batch.target_output))
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self._bf16):
            return objective(*ids)

    def _cut(self, batches: list[Batch]) -> None:
        """Compute smaller pieces from now on."""
        self.forget()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        size = max(batch.padded_tokens for batch in batches)
        if self._parallel is not None:  # the other processes may already be waiting for this one's gradients
            raise DragomanError(f"out of memory with batches of {size:,} padded tokens: lower optimizer.batch_tokens")
        self.piece_tokens = halved(self.piece_tokens or size, max(batch.longest for batch in batches))


def halved(tokens: int, longest: int) -> int:
    """Half a budget of padded tokens, as long as that holds a sentence of this length.

    Raises:
        DragomanError: it does not.
    """
    if tokens <= longest:
        raise DragomanError(
            f"out of memory with a single sentence of {longest:,} subwords: take a smaller model or "
            f"vocabulary, or lower text.max_length"
        )
    return max(tokens // 2, longest)


def batch_seed(seed: int, epoch: int, number: int) -> int:
    """Where the random numbers of one batch of a run begin."""
    return int(np.random.SeedSequence((seed, epoch, number)).generate_state(1, np.uint64)[0] >> np.uint64(1))
