"""A text, a way to train on it in this process, and a model that has learned something."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dragoman.cli.main import main
from tests.training.small_runs import write_corpus

from .running import Ended, arguments


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("text")
    write_corpus(folder, train=320, valid=30)  # 25 batches: the last steps of an epoch have fewer than the others
    return folder


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    """Train in this process."""

    def run(*given: Any, **settings: Any) -> Ended:
        capfd.readouterr()
        try:
            code = main(arguments(*given, **settings))
        except SystemExit as leave:
            code = int(leave.code or 0)
        said = capfd.readouterr()
        assert said.out == ""
        assert "Traceback" not in said.err
        return Ended(code, said.err)

    return run


@pytest.fixture(scope="module")
def parent(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that has learned something."""
    out = tmp_path_factory.mktemp("parent") / "model"
    assert main(arguments(text, out, "--max-steps", 60, "--optimizer.lr-scale", 0.5)) == 0
    return out
