"""What small real runs are told, healthy ones and ones that were spoilt."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from statistics import median

import numpy as np
import pytest
import torch

from dragoman.checkpoint import Direction, ModelFolder
from dragoman.config import EOS, PAD, ModelConfig, OptimizerConfig, SearchConfig, TextConfig
from dragoman.inference.translator import Translator
from dragoman.model.transformer import Transformer
from dragoman.text.batches import pad_right
from dragoman.text.subwords import Vocabulary
from dragoman.training.diagnostics import Observation, diagnose, examine_translations, unigram_loss
from dragoman.training.loss import TrainingObjective
from dragoman.training.optimizer import build_optimizer, learning_rate

SLOTS = ("the a this that my your his her", "red blue big old new wet sad odd", "cat dog cow hen pig fox rat bee")


VERBS = "sees hears bites finds hugs likes fears chases"


Pairs = list[tuple[str, str]]


def sentence(generator: random.Random) -> tuple[str, str]:
    """A sentence and its translation into a language with other words in the same order."""
    words = [generator.choice(slot.split()) for slot in (*SLOTS, VERBS, *SLOTS)]
    return " ".join(words), " ".join(f"{word[::-1]}o".upper() for word in words)


def misaligned(pairs: Pairs) -> Pairs:
    return [(source, target) for (source, _), (_, target) in itertools.pairwise(pairs)]


def cut_short(pairs: Pairs) -> Pairs:
    return [(source, " ".join(target.split()[:3])) for source, target in pairs]


def untranslated(pairs: Pairs) -> Pairs:
    return [(source, source if number % 2 else target) for number, (source, target) in enumerate(pairs)]


def as_it_is(pairs: Pairs) -> Pairs:
    return pairs


class SmallRun:
    """Trains the smallest model that learns the language, and looks at it every 40 steps."""

    def __init__(self, spoil: Callable[[Pairs], Pairs], blind: bool, peak_lr: float) -> None:
        generator = random.Random(1)
        pairs = [sentence(generator) for _ in range(1360)]
        self.valid, self.train = pairs[:200], spoil(pairs[200:])  # of fewer, what chance does would count
        sides = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        vocabulary = Vocabulary.learn(sides, TextConfig(vocab_size=400))
        torch.manual_seed(1)
        size = len(vocabulary.source)
        config = ModelConfig(64, 128, 4, 1, 1, 0.0, max_length=32, source_vocab_size=size, target_vocab_size=size)
        self.model = Transformer(config)
        if blind:  # every source looks the same
            encode = self.model.encode
            self.model.encode = lambda *arguments: 0.0 * encode(*arguments)  # type: ignore[method-assign]
        self.optimizing = OptimizerConfig(schedule="inverse-sqrt", peak_lr=peak_lr, warmup_steps=50)
        self.translator = Translator(ModelFolder(self.model, vocabulary, Direction("xx", "yy")))
        self.references = vocabulary.target.encode([target for _, target in self.valid])
        self.batches = [self.tensors(self.train[i : i + 40]) for i in range(0, len(self.train), 40)]
        self.unseen = self.tensors(self.valid)
        self.guess = unigram_loss(np.bincount(self.unseen[2].numpy().ravel())[PAD + 1 :])

    def tensors(self, pairs: Pairs) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        vocabulary = self.translator.vocabulary
        source, target = (
            [[*ids, EOS] for ids in vocabulary.source.encode(list(side))] for side in zip(*pairs, strict=True)
        )
        shifted = [[2, *ids[:-1]] for ids in target]
        return tuple(torch.from_numpy(pad_right(ids)) for ids in (source, shifted, target))  # type: ignore[return-value]

    @torch.no_grad()
    def observe(self, step: int, losses: list[float], norms: list[float]) -> Observation:
        self.model.eval()
        source, target_input, target_output = self.unseen
        log_probs, real = self.model(source, target_input).log_softmax(-1), target_output != PAD
        loss = -log_probs.gather(2, target_output[..., None]).squeeze(2)[real].mean()
        forced = (log_probs.argmax(-1) == target_output)[real].float().mean()
        found = self.translator.translate([source for source, _ in self.valid], SearchConfig(beam=1, max_length=10))
        texts, ids = [t.text for t in found], [t.subwords for t in found]
        sources, references = [pair[0] for pair in self.valid], [pair[1] for pair in self.valid]
        health = examine_translations(sources, references, texts, self.references, ids, float(forced), median(norms))
        return Observation(step, sum(losses) / len(losses), float(loss), self.guess, health)

    def observations(self, steps: int) -> list[Observation]:
        objective = TrainingObjective(self.model, 0.1)
        optimizer = build_optimizer(self.model, self.optimizing)
        course: list[Observation] = []
        losses: list[float] = []
        norms: list[float] = []
        for step in range(1, steps + 1):
            self.model.train()
            batch = self.batches[step % len(self.batches)]
            loss = objective(*batch) / (batch[2] != PAD).sum()
            loss.backward()
            losses.append(loss.item())
            norms.append(float(torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)))
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(self.optimizing, 64, step, 0.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            if step % 40 == 0:
                course.append(self.observe(step, losses, norms))
                losses, norms = [], []
        return course


@pytest.mark.parametrize(
    ("spoil", "blind", "peak_lr", "words"),
    [
        (as_it_is, False, 3e-3, None),
        (misaligned, False, 3e-3, "ignores the source"),
        (as_it_is, True, 3e-3, "ignores the source"),
        (as_it_is, False, 1.0, "lower the learning rate"),
        (cut_short, False, 3e-3, "cut short"),
        (untranslated, False, 3e-3, "copy their source"),
    ],
    ids=["healthy", "misaligned", "blind", "too fast", "cut short", "untranslated"],
)
def test_small_real_runs(spoil: Callable[[Pairs], Pairs], blind: bool, peak_lr: float, words: str | None) -> None:
    run = SmallRun(spoil, blind, peak_lr)
    course = run.observations(240)
    diagnoses = [text for number in range(len(course)) if (text := diagnose(course[: number + 1]))]
    if words is None:
        assert diagnoses == []
        assert course[-1].health.free_accuracy > 0.9  # it has learned the language
    else:
        assert diagnoses
        assert all(words in text for text in diagnoses), diagnoses
