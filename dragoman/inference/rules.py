"""What a hypothesis may contain and how it is scored, apart from what the model thinks of it.

Shapes: N hypotheses, T tokens so far, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

from dragoman.config import BOS, EOS, PAD, UNK

Rule = Callable[[Tensor, Tensor], Tensor]
"""(logits (N, V), tokens so far (N, T)) -> logits (N, V), with -inf where a token may not follow; may change its input.

What is left is not normalised again: a hypothesis keeps the probability the model gave it.
"""


@dataclass(frozen=True)
class LengthPenalty:
    """lp(Y) = ((5 + |Y|) / 6)^α; hypotheses compete by log P(Y) / lp(Y) (Wu et al., 2016, equation 14).

    |Y| counts the end-of-sentence symbol, whose probability is part of P(Y).
    """

    alpha: float = 0.6

    def __call__(self, length: int) -> float:
        """lp of a hypothesis of this many tokens."""
        return float(((5.0 + length) / 6.0) ** self.alpha)


@dataclass(frozen=True)
class Forbid:
    """Never write these tokens."""

    tokens: Sequence[int]

    def __call__(self, logits: Tensor, tokens: Tensor) -> Tensor:
        """Rule out the tokens, in place."""
        logits[:, list(self.tokens)] = -float("inf")
        return logits


@dataclass(frozen=True)
class MinLength:
    """Do not end before this many tokens, the end not counted."""

    length: int

    def __call__(self, logits: Tensor, tokens: Tensor) -> Tensor:
        """Rule out the end, in place."""
        if tokens.size(1) < self.length:
            logits[:, EOS] = -float("inf")
        return logits


NEVER_WRITTEN = Forbid((PAD, UNK, BOS))
"""Padding, the unknown symbol and the start of the sentence are no words."""
