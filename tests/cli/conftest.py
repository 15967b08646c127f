"""Models for the tests of the verbs, which leave the folder they are called in and signals as they were."""

import shutil
import signal
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import torch

from dragoman.checkpoint import ModelFolder
from dragoman.config import ModelConfig, TextConfig
from dragoman.folder import Direction
from dragoman.model.transformer import Transformer
from dragoman.text.subwords import Vocabulary
from tests.command_calls import run, train, write_text

LONG = "The cat sees a dog. A cat sees the dog. The dog sees."
"""Longer than the small translator takes."""


@cache
def small_folder(max_length: int = 14) -> ModelFolder:
    """A model folder with random weights."""
    torch.manual_seed(3)
    english, french = ["the cat sees a dog."] * 9, ["le chat voit un chien."] * 9
    vocabulary = Vocabulary.learn((english, french), TextConfig(placeholders=0.0, vocab_size=320))
    shape = ModelConfig(
        d_model=16,
        d_ff=16,
        num_heads=2,
        num_encoder_layers=1,
        num_decoder_layers=1,
        max_length=max_length,
        source_vocab_size=len(vocabulary.source),
        target_vocab_size=len(vocabulary.target),
    )
    return ModelFolder(Transformer(shape).eval(), vocabulary, Direction("en", "fr"))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """The small model folder on disk."""
    small_folder().save(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture(scope="session")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("text")
    write_text(folder / "train", 60)
    write_text(folder / "valid", 6, seed=2)
    write_text(folder / "test", 7, seed=3)
    return folder


@pytest.fixture(scope="session")
def trained(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run; tests that change it take a copy."""
    out = tmp_path_factory.mktemp("run") / "model"
    result = run(*train(text, out))
    assert result.code == 0, result.err
    return out


@pytest.fixture
def copy(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "copy"))


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test writes to a relative path does not land in the repository."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(autouse=True)
def _leave_signals_and_threads_alone() -> Iterator[None]:
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    yield
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers
