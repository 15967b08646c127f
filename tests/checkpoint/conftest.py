"""A saved model."""

from pathlib import Path

import pytest

from .small_folders import model_folder


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    model_folder().save(folder)
    return folder
