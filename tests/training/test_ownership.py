"""A run writes over what runs have written, and over nothing else."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from dragoman import checkpoint
from dragoman.config import DragomanError
from dragoman.corpus_check.cleaning import clean_text
from dragoman.text.preprocess import prepare_text
from dragoman.train import rehearse_training, run_training
from dragoman.training import ownership
from dragoman.training.ownership import refuse_strangers
from dragoman.training.run_state import list_states
from tests.fuzz.faults import contents
from tests.training.small_runs import configure, write_corpus

OF_A_USER = {
    "README.md": "# My project\n",
    "config.json": '{"mine": true}',
    "train.yaml": "source: en\ntarget: xx\ntrain: [train]\nvalid: [valid]\nout: .\nmodel: {d_model: 16}\n",
    "metrics.jsonl": '{"mine": 1}\n',
    "check.json": '{"mine": true}',
    "model.safetensors": "weights",
    "source.spm": "pieces",
    "data/letters.txt": "text",
    "data/train/letters.txt": "text",
    "tensorboard/notes": "text",
    "checkpoints/notes": "text",
}


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """A text in a folder of its own."""
    folder = tmp_path / "text"
    folder.mkdir()
    write_corpus(folder)
    return folder


@pytest.mark.parametrize("marked", [False, True])
@pytest.mark.parametrize("name", OF_A_USER)
def test_a_user_s_files_are_refused_and_nothing_is_written(name: str, marked: bool, text: Path) -> None:
    config = configure(text, max_steps=1)
    path = Path(config.out, name)
    path.parent.mkdir(parents=True)
    path.write_text(OF_A_USER[name])
    if marked:  # .lock and train.yaml may be anybody's
        Path(config.out, ".lock").touch()
        Path(config.out, "train.yaml").write_text(OF_A_USER["train.yaml"])
    before = contents(text)
    for changed in (config, replace(config, restart=True)):
        with pytest.raises(DragomanError, match=r"choose another --out"):
            run_training(changed)
    with pytest.raises(DragomanError, match=r"choose another --out"):
        rehearse_training(config)
    assert contents(text) == before


def test_held_out_text_takes_no_place_that_is_a_user_s(text: Path) -> None:
    config = configure(text, max_steps=1)
    Path(config.out).mkdir()
    Path(config.out, "heldout.xx").write_text("my own")
    refuse_strangers(config)  # there is a validation text
    with pytest.raises(DragomanError, match=r"heldout\.xx"):
        run_training(replace(config, valid=[]))
    assert [path.name for path in Path(config.out).iterdir()] == ["heldout.xx"]


@pytest.mark.parametrize("valid", [True, False])
def test_what_a_run_left_before_its_first_step_is_its_own(valid: bool, text: Path) -> None:
    config = configure(text, max_steps=1)
    config = config if valid else replace(config, valid=[])
    rehearse_training(config)
    left = {path.name for path in Path(config.out).iterdir()}
    assert {".lock", "check.json", "data"} <= left
    Path(config.out, "data", "train.partial").mkdir()
    (Path(config.out) / "data" / "train" / "store.json").unlink()
    run_training(config)
    assert list_states(Path(config.out))


def test_a_run_that_failed_on_its_text_can_begin_again(text: Path) -> None:
    config = configure(text, max_steps=1)
    with pytest.raises(DragomanError, match="no such file"):
        run_training(replace(config, train=[str(text / "nothing")]))
    assert Path(config.out, ".lock").exists()
    run_training(config)


def test_folders_of_runs_are_taken_up_and_begun_anew(text: Path) -> None:
    config = configure(text, max_steps=1)
    run_training(config)
    out = Path(config.out)
    (out / "README.md").write_text("I wrote more about this model.")
    run_training(replace(config, max_steps=2))
    run_training(replace(config, max_steps=1, restart=True))
    (out / "train.yaml").write_text("damaged: [")
    run_training(replace(config, max_steps=3))
    for path in list_states(out):  # then it is train.yaml that tells
        path.unlink()
    with pytest.raises(DragomanError, match="no state to continue from"):
        run_training(config)
    run_training(replace(config, restart=True))


def test_restart_removes_no_text_that_the_run_needs(text: Path) -> None:
    config = replace(configure(text, max_steps=1), valid=[])
    run_training(config)
    before = contents(text)
    with pytest.raises(DragomanError, match=r"heldout\.en: --restart would remove this text"):
        run_training(replace(config, valid=[str(Path(config.out, "heldout"))], restart=True))
    assert contents(text) == before


def test_every_file_that_restart_removes_is_looked_at() -> None:
    looked_at = {*ownership._FROM_THE_FIRST_STEP_ON, *ownership._OWN}
    assert looked_at == {*checkpoint.RUN_FILES, *checkpoint.RUN_FOLDERS}


def test_prepared_text_is_known_by_its_files(text: Path) -> None:
    config = configure(text)
    prepare_text(config, clean_text)
    assert ownership._is_prepared(Path(config.out, "data"))
    assert ownership._is_report(Path(config.out, "check.json"))
    assert json.loads(Path(config.out, "check.json").read_text())["usable"]
