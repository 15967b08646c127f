"""The mean of checkpoints, and where it may be written."""

from pathlib import Path

import pytest
import torch

from dragoman.checkpoint import ModelFolder, average_weights, read_weights, save_weights
from dragoman.folder import (
    AVERAGE_FACT,
    checkpoint_path,
    learned_checkpoints,
    list_checkpoints,
    refuse_folder_for_average,
)
from tests.fuzz.faults import complaint


def random_weights(path: Path, seed: int) -> Path:
    generator = torch.Generator().manual_seed(seed)
    weights = {name: torch.randn(shape, generator=generator) for name, shape in (("a", (3, 4)), ("b", (5,)))}
    save_weights(weights, path)
    return path


@pytest.fixture
def checkpoints(tmp_path: Path) -> list[Path]:
    return [random_weights(checkpoint_path(tmp_path, step), step) for step in (5, 10, 15)]


def test_the_average_is_the_arithmetic_mean(checkpoints: list[Path]) -> None:
    each = [read_weights(path) for path in checkpoints]
    average = average_weights(checkpoints)
    assert average.keys() == each[0].keys()
    for name, weight in average.items():
        torch.testing.assert_close(weight, torch.stack([weights[name] for weights in each]).mean(dim=0))


def test_checkpoints_of_different_models_have_no_average(checkpoints: list[Path]) -> None:
    for weights in ({"a": torch.zeros(3, 4)}, {"a": torch.zeros(4, 3), "b": torch.zeros(5)}):
        save_weights(weights, checkpoints[1])
        assert str(checkpoints[1]) in complaint(lambda: average_weights(checkpoints))


@pytest.mark.parametrize("name", ["train.yaml", ".lock", "checkpoints", "sentencepiece.model", "source.spm"])
def test_an_average_is_not_written_into_the_folder_of_a_run(name: str, tmp_path: Path) -> None:
    refuse_folder_for_average(tmp_path)
    (tmp_path / name).touch()
    assert f"already contains {name}, which would be lost" in complaint(lambda: refuse_folder_for_average(tmp_path))


def test_an_average_replaces_only_an_earlier_average(saved: Path) -> None:
    assert "already contains README.md and config.json" in complaint(lambda: refuse_folder_for_average(saved))
    ModelFolder.load(saved).with_facts({AVERAGE_FACT: "step-00000010"}).save(saved)
    refuse_folder_for_average(saved)
    (saved / "model.safetensors").unlink()
    refuse_folder_for_average(saved)  # its saving was interrupted


def test_checkpoints_are_listed_oldest_first(tmp_path: Path) -> None:
    steps = [30, 4, 0, 1000, 99_999_999]
    paths = {step: random_weights(checkpoint_path(tmp_path, step), 1) for step in steps}
    for name in ("step-0000007.safetensors.partial", "step-x.safetensors", "state-000001-0123456789abcdef.pt"):
        (tmp_path / "checkpoints" / name).touch()
    assert list_checkpoints(tmp_path) == [paths[step] for step in sorted(steps)]
    assert list_checkpoints(tmp_path / "nowhere") == []
    assert learned_checkpoints(tmp_path) == [paths[step] for step in sorted(steps)[1:]], (
        "0 is what fine-tuning began with"
    )
