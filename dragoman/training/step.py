"""One training step: the gradient of some batches, normalised by their target tokens, then Adam (section 5.3).

A step gives the same result in one process or in several. Each batch seeds its own random numbers, so its dropout does
not depend on the other batches. Computing a batch in pieces changes nothing but the dropout.
"""

import math
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
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
    pairs: list[int] = field(default_factory=list)  # how many of each text in the whole step, if there are several


class Stepper:
    """Makes training steps with one model; owns its optimizer and the moving average of its weights.

    The model is on its device, with the same weights in every process.
    """

    def __init__(self, model: Transformer, config: TrainConfig, bf16: bool, processes: Processes) -> None:
        self.device = next(model.parameters()).device
        self.optimizer = build_optimizer(model, config.optimizer)
        self.average = MovingAverage(model, config.optimizer.ema_decay)
        self.piece_tokens = 0  # larger batches are computed in pieces of so many padded tokens; 0: they stay whole
        self._model, self._bf16, self._processes = model, bf16, processes
        self._clip = config.optimizer.clip_norm or math.inf
        smoothing, r_drop = config.optimizer.label_smoothing, config.optimizer.r_drop
        self._objective = TrainingObjective(model, smoothing, r_drop, config.compile)
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

        Returns this process's part of the loss, in nats per target token of the whole step; and the norm of the whole
        gradient before clipping, the same in every process.
        """
        self._model.train()
        while True:
            try:
                loss = self._accumulate(step)
                break
            except RuntimeError as error:
                if not is_out_of_memory(error):
                    raise
            # Outside the handler, which keeps the tensors of the failed attempt alive.
            self.drop_gradients()
            self.halve_pieces([batch for _, batch in step.batches])
            if self._parallel is not None:  # the other processes may already be waiting for this one's gradients
                raise DragomanError("out of memory: lower optimizer.batch_tokens")
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
        """Leave the next step none of this one's."""
        self.optimizer.zero_grad(set_to_none=True)

    def fits(self, batch: Batch) -> bool:
        """Whether there is enough memory for the gradient of a batch, beside Adam's moments."""
        self._model.train()
        moments = [] if self.optimizer.state else [torch.empty_like(p) for p in 2 * list(self._model.parameters())]
        try:
            torch.manual_seed(0)
            self._loss(batch, self._objective).backward()  # type: ignore[no-untyped-call]
            return True
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            return False
        finally:
            self.drop_gradients()
            del moments

    def halve_pieces(self, batches: Sequence[Batch]) -> None:
        """Compute these batches, for which memory is short, in pieces of half the size from now on."""
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        tokens = self.piece_tokens or max(batch.padded_tokens for batch in batches)
        longest = max(batch.longest for batch in batches)
        if tokens <= longest:
            cure = "choose a smaller model or vocabulary, or lower text.max_length"
            raise DragomanError(f"out of memory on a single sentence of {longest:,} subwords: {cure}")
        self.piece_tokens = max(tokens // 2, longest)

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


def batch_seed(seed: int, epoch: int, number: int) -> int:
    """Random seed of one batch of a run."""
    return int(np.random.SeedSequence((seed, epoch, number)).generate_state(1, np.uint64)[0] >> np.uint64(1))
