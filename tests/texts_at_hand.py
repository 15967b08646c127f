"""Real texts, where this machine has them, and the phrasebook, read once."""

import functools
import os
from pathlib import Path

import pytest

from dragoman.datasets.phrasebook import Phrasebook, read_phrasebook

DATA = Path(os.environ.get("DRAGOMAN_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))


def data_at_hand(name: str) -> Path:
    """A file or folder of real text; skips the test where there is none."""
    path = DATA / name
    if not path.exists():
        pytest.skip(f"needs {path}; the environment variable DRAGOMAN_DATA names another folder")
    return path


@functools.cache
def phrasebook() -> Phrasebook:
    """The phrasebook, read once."""
    return read_phrasebook()
