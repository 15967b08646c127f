"""The sentences of a proof: a text that the user names, the validation text of the run, or random subwords."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import yaml

from dragoman.checkpoint import RUN_FILE, ModelFolder
from dragoman.config import DragomanError
from dragoman.runtime.console import say
from dragoman.text.corpus import read_pairs
from dragoman.text.subwords import SPECIALS, Vocabulary

_RANDOM_LENGTHS = (3, 30)  # subwords of a random line
_TRIES_PER_LINE = 100


@dataclass(frozen=True)
class Sample:
    """The sentences of a proof."""

    sources: list[str]
    references: list[str] | None
    name: str
    """Where they are from."""


def choose_sample(loaded: ModelFolder, folder: Path, texts: Sequence[str], count: int) -> Sample:
    """Sentences that are short enough for the model.

    Args:
        loaded: the model.
        folder: where it comes from; of a training run, its validation text stands in for texts.
        texts: parallel text to take them from, as in training; may be empty.
        count: how many, at most.

    Raises:
        DragomanError: there are none.
    """
    texts, most = texts or _validation_text(folder), loaded.model.config.max_length - 1
    if not texts:
        say("no text to compare on, so the proof uses random subwords; pass --valid to name a text")
        if lines := random_lines(loaded.vocabulary, count, most):
            return Sample(lines, None, "random subwords")
        raise DragomanError(f"no random subwords make a line of less than {most:,}; pass --valid to name a text")
    pairs = read_pairs(texts, loaded.direction.source, loaded.direction.target)
    usable = (
        (source, target)
        for source, target in pairs
        if source.strip() and target.strip() and len(loaded.vocabulary.source.encode([source])[0]) < most
    )
    if not (found := list(islice(usable, count))):
        raise DragomanError(f"{', '.join(texts)}: no sentences that the model could translate")
    names = ", ".join(Path(text).name for text in texts)  # stands on the card, so without folders
    return Sample([source for source, _ in found], [target for _, target in found], names)


def _validation_text(folder: Path) -> list[str]:
    """The validation text of the run that trained the model; empty if it cannot be found."""
    try:
        settings = yaml.safe_load((folder / RUN_FILE).read_text(encoding="utf-8"))
        texts = [str(text) for text in settings["valid"] or [folder / "heldout"]]
        next(read_pairs(texts, settings["source"], settings["target"]))
    except (OSError, ValueError, KeyError, TypeError, StopIteration, yaml.YAMLError, DragomanError):
        return []
    return texts


def random_lines(vocabulary: Vocabulary, count: int, most: int) -> list[str]:
    """Lines of fewer than `most` random subwords, the same ones in every call; maybe fewer lines than `count`."""
    draw, source = random.Random(1), vocabulary.source
    every = range(len(SPECIALS), len(source))
    texts = source.decode([[token] for token in every])
    known = [token for token, text in zip(every, texts, strict=True) if text.strip() and _is_printable(text)]
    shortest, longest = (min(length, max(1, most - 1)) for length in _RANDOM_LENGTHS)
    lines: list[str] = []
    for _ in range(_TRIES_PER_LINE * count if known else 0):
        tokens = draw.choices(known, k=draw.randint(shortest, longest))
        line = " ".join(source.decode([tokens])[0].split())
        if line and _is_printable(line) and len(source.encode([line])[0]) < most:
            lines.append(line)
        if len(lines) == count:
            break
    return lines


def _is_printable(text: str) -> bool:
    return text.isprintable() and "\ufffd" not in text  # a subword may be part of a character
