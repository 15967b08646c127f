"""A trained model for the tests of the verbs, which leave the folder they are called in and signals as they were."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.command_calls import run, train, write_text


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
    return Path(shutil.copytree(trained, tmp_path / "model"))


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test writes to a relative path does not land in the repository."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(autouse=True)
def _leave_signals_and_threads_alone() -> Iterator[None]:
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    yield
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers
