"""A model with a text to prove its exports on."""

from pathlib import Path

import pytest

from tests.small_models import LINES, TARGETS, small_model


@pytest.fixture
def model(tmp_path: Path) -> Path:
    small_model().save(tmp_path / "model")
    (tmp_path / "valid.en").write_text("".join(f"{line}\n" for line in LINES))
    (tmp_path / "valid.ne").write_text("".join(f"{line}\n" for line in TARGETS))
    return tmp_path / "model"
