"""What a search finds, how long it may be, and how its length counts in its score: the same for every engine."""

from collections.abc import Sequence
from dataclasses import dataclass

from dragoman.config import BOS, PAD, UNK, ConfigError, SearchConfig

NEVER_WRITTEN = (PAD, UNK, BOS)
"""Padding, the unknown symbol and the start of the sentence are not words."""


@dataclass(frozen=True)
class Hypothesis:
    """One finished translation."""

    tokens: list[int]
    """Ids, without BOS and EOS."""
    log_prob: float
    """Natural logarithm of its probability, the end included."""
    score: float
    """log_prob divided by the length penalty; what the hypotheses compete by."""


def length_penalty(length: int, alpha: float) -> float:
    """lp(Y) = ((5 + |Y|) / 6)^α; hypotheses compete by log P(Y) / lp(Y) (Wu et al., 2016, equation 14).

    |Y| counts the end-of-sentence symbol, whose probability is part of P(Y).
    """
    return float(((5.0 + length) / 6.0) ** alpha)


def length_limits(sources: Sequence[Sequence[int]], config: SearchConfig, max_length: int) -> list[int]:
    """Most tokens of each source's translation, not counting the end; sources are ids, each ending in EOS.

    config.max_length counts beyond the source, and min_length wins over it. No translation is longer than the model's
    max_length, which counts the end; a greater min_length is a ConfigError.
    """
    longest = max_length - 1
    if config.min_length > longest:
        raise ConfigError(f"min_length is {config.min_length}, but the model writes at most {longest} subwords")
    return [min(max(len(ids) + config.max_length, config.min_length), longest) for ids in sources]
