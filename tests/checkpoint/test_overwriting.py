"""Writing a result replaces files of an earlier result of the same kind, and nothing else."""

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from dragoman.config import DragomanError, TrainConfig
from dragoman.folder import RUN_FILES, RUN_FOLDERS, refuse_folder_for_run, remove_run
from dragoman.runtime.files import refuse_to_overwrite
from tests.fuzz.faults import contents


def test_only_files_of_an_earlier_result_are_replaced(tmp_path: Path) -> None:
    out = tmp_path / "out"
    refuse_to_overwrite(out)
    out.mkdir()
    refuse_to_overwrite(out)
    for name in ("config.json", "notes"):
        (out / name).touch()
    refuse_to_overwrite(out, written={"model"})
    refuse_to_overwrite(out, ours={"config.json"}, written={"config.json", "model"})
    refuse_to_overwrite(out, ours={"config.json", "notes", "gone"})
    with pytest.raises(DragomanError, match=r"out: already contains config\.json and notes, which would be lost"):
        refuse_to_overwrite(out)
    with pytest.raises(DragomanError, match=r"out: already contains notes, which"):
        refuse_to_overwrite(out, ours={"config.json"})
    with pytest.raises(NotADirectoryError):
        refuse_to_overwrite(out / "notes")


@pytest.fixture
def config(tmp_path: Path) -> TrainConfig:
    return TrainConfig("en", "de", ["train"], str(tmp_path), valid=["valid"])


def mark(config: TrainConfig) -> None:
    """Write a train.yaml as a run does."""
    Path(config.out, "train.yaml").write_text(yaml.safe_dump(config.lasting()))


@pytest.mark.parametrize("name", [*RUN_FILES, *RUN_FOLDERS])
def test_a_run_replaces_only_what_a_run_wrote(name: str, config: TrainConfig) -> None:
    path = Path(config.out, name)
    path.write_text("source: en\ntarget: de\n")
    Path(config.out, ".lock").touch()
    with pytest.raises(DragomanError, match=rf"already contains {name}, .*; choose another --out"):
        refuse_folder_for_run(config)
    mark(config)
    refuse_folder_for_run(config)


def test_a_state_marks_the_folder_of_a_run(config: TrainConfig) -> None:
    states = Path(config.out, "checkpoints")
    states.mkdir()
    with pytest.raises(DragomanError, match="already contains checkpoints"):
        refuse_folder_for_run(config)
    (states / "state-000001-0123456789abcdef.pt").touch()
    Path(config.out, "train.yaml").write_text("damaged: [")
    refuse_folder_for_run(config)


def test_held_out_text_matters_only_without_validation_text(config: TrainConfig) -> None:
    Path(config.out, "heldout.de").write_text("meins")
    refuse_folder_for_run(config)
    with pytest.raises(DragomanError, match=r"already contains heldout\.de"):
        refuse_folder_for_run(replace(config, valid=[]))


def test_restart_removes_what_a_run_wrote_and_nothing_else(config: TrainConfig) -> None:
    folder = Path(config.out)
    mine = [folder / "notes.txt", folder / "train.en"]
    for name in (*RUN_FILES, "heldout.en", "heldout.de", "checkpoints/state", "data/train/store", "tensorboard/x"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    for path in mine:
        path.touch()
    remove_run(folder, mine)
    assert sorted(folder.iterdir()) == mine


@pytest.mark.parametrize("name", ["heldout.en", "data/mine/text.en"])
def test_restart_removes_no_text_that_the_run_needs(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    path = folder / name
    path.parent.mkdir(parents=True)
    path.write_text("text")
    (tmp_path / "link").symlink_to(path)
    (folder / "heldout.de").symlink_to(tmp_path / "elsewhere.de")
    before = contents(tmp_path)
    for kept in (path, tmp_path / "link", folder / "heldout.de"):
        with pytest.raises(DragomanError, match=r": --restart would remove this text; move it to another folder first"):
            remove_run(folder, [kept])
    assert contents(tmp_path) == before
    remove_run(folder, [tmp_path / "elsewhere.de"])
