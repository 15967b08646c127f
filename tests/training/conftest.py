"""A text to learn, and signals that stay as they were."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from .small_runs import write_corpus


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a corpus."""
    write_corpus(tmp_path)
    return tmp_path


@pytest.fixture(autouse=True)
def _leave_signals_alone() -> Iterator[None]:
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    yield
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers
