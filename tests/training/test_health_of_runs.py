"""What small real runs report: a healthy one nothing, one on misaligned text the cause."""

import random
from pathlib import Path

import pytest

from dragoman.config import ModelConfig, OptimizerConfig, TextConfig, ValidationConfig
from dragoman.train import run_training

from .small_runs import configure

SLOTS = ("the a this that my your his her", "red blue big old new wet sad odd", "cat dog cow hen pig fox rat bee")
VERBS = "sees hears bites finds hugs likes fears chases"


def write_language(folder: Path, shift: int) -> None:
    """Write sentences, and their translations into other words in the same order, shifted by some lines in training."""
    generator = random.Random(1)
    sources = [" ".join(generator.choice(s.split()) for s in (*SLOTS, VERBS, *SLOTS)) for _ in range(1360)]
    targets = [" ".join(f"{word[::-1]}o".upper() for word in source.split()) for source in sources]
    train = [*targets[200 + shift :], *targets[200 : 200 + shift]]
    parts = {"valid.en": sources[:200], "valid.xx": targets[:200], "train.en": sources[200:], "train.xx": train}
    for name, lines in parts.items():
        (folder / name).write_text("".join(line + "\n" for line in lines))


@pytest.mark.parametrize("shift", [0, 1], ids=["healthy", "misaligned"])
def test_small_real_runs(shift: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_language(tmp_path, shift)
    config = configure(
        tmp_path,
        max_steps=200,
        model=ModelConfig(64, 128, 4, 1, 1, 0.0, max_length=32),
        text=TextConfig(vocab_size=400, max_length=31),
        optimizer=OptimizerConfig(batch_tokens=480, schedule="inverse-sqrt", peak_lr=3e-3, warmup_steps=50),
        validation=ValidationConfig(every=40, metric="loss", keep_last=1, patience=0),
    )
    scores = run_training(config).scores
    warnings = [line for line in capsys.readouterr().err.split("\n") if "    warning: " in line]
    if shift:
        assert warnings
        assert all("ignores the source" in warning for warning in warnings)
    else:
        assert warnings == []
        assert scores["bleu"] > 50  # it has learned the language
