"""What a run learns about itself: numbers that padding, batches and processes don't change."""

from collections import Counter
from pathlib import Path
from typing import cast
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch.nn import functional as F

from dragoman.config import BOS, EOS, TextConfig
from dragoman.model.transformer import Transformer
from dragoman.text.dataset import TokenStore
from dragoman.text.planting import mask_pair
from dragoman.text.preprocess import PreparedText, prepare_text
from dragoman.training.distributed import Processes
from dragoman.training.run_state import Progress
from dragoman.training.validation import Validation, Validator
from tests.text.small_texts import keep_all

from .small_runs import VOCABULARY, configure, small_model

SCORED = Validation({"bleu": 12.5, "chrf": 40.0}, {"bleu": "signature"}, [])


class Sentences:
    """A store in memory."""

    def __init__(self, count: int = 40) -> None:
        generator = np.random.default_rng(4)

        def sentences() -> list[NDArray[np.int64]]:
            return [np.array([*generator.integers(4, VOCABULARY, length), EOS]) for length in lengths()]

        def lengths() -> NDArray[np.int64]:
            return generator.integers(1, 19, count)

        self.sources, self.targets = sentences(), sentences()
        source, target = (np.array([len(ids) for ids in side]) for side in (self.sources, self.targets))
        self.lengths = source, target

    def __len__(self) -> int:
        return len(self.sources)

    def __getitem__(self, index: int) -> tuple[NDArray[np.int64], ...]:
        return self.sources[index], self.targets[index]


STORE = Sentences()


def trained_model() -> Transformer:
    """A model that is right now and then, with much dropout."""
    model = small_model(dropout=0.5)
    common = Counter(int(i) for ids in STORE.targets for i in ids).most_common(3)
    with torch.no_grad():
        for rank, (subword, _) in enumerate(common):
            model.target_embedding.weight[subword] *= 3.0 - rank / 2
    return model


@torch.no_grad()
def by_hand(model: Transformer) -> tuple[float, float]:
    """Loss and accuracy, sentence by sentence, without any padding."""
    loss, correct, tokens = 0.0, 0, 0
    model.eval()
    for source, target in zip(STORE.sources, STORE.targets, strict=True):
        decoder_input = torch.tensor([[BOS, *target[:-1].tolist()]])
        logits = model(torch.from_numpy(source)[None], decoder_input)[0]
        loss += F.cross_entropy(logits, torch.from_numpy(target), reduction="sum").item()
        correct += sum(int(row.argmax()) == int(i) for row, i in zip(logits, target, strict=True))
        tokens += len(target)
    return loss / tokens, correct / tokens


@pytest.mark.parametrize("budget", [0, 20, 100_000])
def test_loss_and_accuracy_are_those_of_each_sentence_by_itself(budget: int) -> None:
    model = trained_model()
    loss, accuracy = by_hand(model)
    assert 0.01 < accuracy < 0.9
    model.train()  # as training leaves it: dropout must not be felt
    text = PreparedText(Mock(), Mock(), cast(TokenStore, STORE), {})
    validator = Validator(text, 200, False, lambda model, bf16: SCORED, Processes())
    measured = validator.measure(model, piece_tokens=budget)
    assert measured.scores["loss"] == pytest.approx(loss, rel=1e-5)
    assert measured.accuracy == pytest.approx(accuracy, abs=1e-12)


def test_references_are_measured_as_the_model_writes_them_with_symbols_for_placeholders(tmp_path: Path) -> None:
    lines = [f"<b>{word}</b> {{{word}}} sees https://a.b/{word}" for word in ("dog", "cat", "cow", "hen", "pig")]
    for name in ("train.en", "train.xx", "valid.en", "valid.xx"):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    text = prepare_text(configure(tmp_path, text=TextConfig(vocab_size=300, placeholders=0.1)), keep_all)
    written = text.vocabulary.target.encode([mask_pair(pair)[1] for pair in text.valid_pairs["en", "xx"]])
    validator = Validator(text, 100, False, lambda model, bf16: SCORED, Processes())
    perfect = Validation({"loss": 1.0}, {}, list(zip(lines, written, strict=True)))
    validator.examine(perfect, Progress(), 0, Mock())
    assert validator.observations[0].health.length_ratio == 1.0
