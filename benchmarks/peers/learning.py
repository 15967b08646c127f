"""Learning, from random weights to the end of the schedule, in a worker: stopped anywhere, it goes on with its clock.

Needs nothing of Dragoman: the batches come from a file, the learning rates with the first request.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from peers.batches import Arrays, read_batches
from peers.protocol import Message
from peers.sessions import Translate

STATE_FILE = "state.pt"
SEED = 1
"""Of the weights and of dropout, unless a request names another one."""
_SET_PARENT_DEATH_SIGNAL = 1  # prctl's number for it


@dataclass(frozen=True)
class Learner:
    """A model with its optimizer, and what can be done with them."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    step: Callable[[Arrays], Tensor]
    """Makes one step at the optimizer's learning rate; returns the loss per target token."""
    translate: Translate
    facts: Message
    """What there is to know about it; at least its versions."""


@dataclass
class Standing:
    """How far it has got; saved with the weights."""

    step: int = 0
    seconds: float = 0.0
    """Spent in steps; neither reading batches nor saving counts."""
    tokens: int = 0
    """Target tokens seen."""
    slowest: float = 0.0
    """Seconds of the slowest step: shows whether something else held the run up."""


class LearningSession:
    """Makes the steps of a run, some at a time, and translates with what it has learnt."""

    def __init__(self, learner: Learner, request: Message) -> None:
        """Begin, or take up what an earlier worker left in the folder.

        Args:
            learner: with fresh weights.
            request: "batches", a file of one batch for each step; "rates", the learning rate of each step; "folder",
                where the state is kept.
        """
        end_with_parent()
        self._learner, self._rates = learner, request["rates"]
        self._batches = read_batches(request["batches"])
        self._path = Path(request["folder"]) / STATE_FILE
        self._standing = Standing()
        if self._path.is_file():
            self._resume()
        self.facts = learner.facts | asdict(self._standing)

    def measure(self, request: Message) -> Message:
        """Make so many more of the steps ("learn"), or translate ("translate").

        Answers with where the run stands, the mean loss and the target tokens a second of these steps; or with the
        translated lines.
        """
        if request["do"] == "translate":
            self._learner.model.eval()
            return {"lines": self._learner.translate(request["sources"], request["beam"])}
        return self._learn(request["steps"])

    def _learn(self, steps: int) -> Message:
        self._learner.model.train()
        standing, before = self._standing, Standing(**asdict(self._standing))
        losses = []
        for number in range(standing.step, min(standing.step + steps, len(self._rates))):
            batch = self._batches[number]
            start = time.perf_counter()
            for group in self._learner.optimizer.param_groups:
                group["lr"] = self._rates[number]
            loss = self._learner.step(batch)
            seconds = time.perf_counter() - start
            losses.append(float(loss))
            standing.step, standing.tokens = number + 1, standing.tokens + batch.num_tokens
            standing.seconds, standing.slowest = standing.seconds + seconds, max(standing.slowest, seconds)
        self._save()
        speed = (standing.tokens - before.tokens) / max(standing.seconds - before.seconds, 1e-9)
        return asdict(standing) | {"loss": sum(losses) / max(len(losses), 1), "tokens_per_second": speed}

    def _save(self) -> None:
        """Replace the state at once, so that whenever the worker is killed a whole one is there."""
        state = {
            "model": self._learner.model.state_dict(),
            "optimizer": self._learner.optimizer.state_dict(),
            "random": torch.get_rng_state(),
            "standing": asdict(self._standing),
        }
        self._path.parent.mkdir(parents=True, exist_ok=True)
        partial = self._path.with_name(STATE_FILE + ".partial")
        with partial.open("wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(self._path)

    def _resume(self) -> None:
        state = torch.load(self._path, weights_only=True)
        self._learner.model.load_state_dict(state["model"])
        self._learner.optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["random"])
        self._standing = Standing(**state["standing"])


def end_with_parent() -> None:
    """Let Linux send this process SIGTERM when its parent ends, even by SIGKILL: the next start must not meet it."""
    if sys.platform.startswith("linux"):
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, int(signal.SIGTERM), 0, 0, 0)
