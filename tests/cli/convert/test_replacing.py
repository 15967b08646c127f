"""Whatever stands at the place of an export: what is replaced, what never is, and what a failure leaves."""

from __future__ import annotations

import errno
import json
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from dragoman.checkpoint import Direction, ModelFolder
from dragoman.cli.convert import _staging
from dragoman.cli.main import main
from dragoman.config import DragomanError
from dragoman.interop import huggingface
from tests.small_models import small_model

from .exports import export


def test_exporting_again_replaces_an_export_and_nothing_else(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = export(model, "ctranslate2")
    (out / "parity.json").write_text("old")
    export(model, "ctranslate2")
    assert (out / "parity.json").read_text() != "old"
    (out / "mine.txt").write_text("mine")
    again = ["export", str(model), "--to", "ctranslate2", "--out", str(out), "--sentences", "2"]
    assert main(again) == 1
    assert "mine.txt, which would be lost" in capsys.readouterr().err
    assert (out / "mine.txt").read_text() == "mine"
    strange = model.parent / "strange"
    strange.mkdir()
    (strange / "thesis.txt").write_text("years of work")
    assert main(["export", str(model), "--to", "ctranslate2", "--out", str(strange)]) == 1
    assert "choose another --out" in capsys.readouterr().err
    assert (strange / "thesis.txt").read_text() == "years of work"
    assert main(["export", str(model), "--to", "ctranslate2", "--out", str(model)]) == 1


def test_a_disk_that_is_full_is_said_of_the_place_asked_for(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out, back = export(model, "huggingface"), model.parent / "back"

    def full(folder: Path) -> None:
        raise DragomanError(f"{folder / 'model.safetensors'}: can't be written (No space left on device)")

    monkeypatch.setattr(ModelFolder, "save", lambda self, folder: full(folder))
    assert main(["import", str(out), "--out", str(back), "--sentences", "2"]) == 1
    assert f"{back}/model.safetensors: can't be written" in capsys.readouterr().err


def test_an_export_that_is_told_to_end_leaves_nothing_behind(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ctranslate2", reason="needs ctranslate2")
    monkeypatch.setattr("dragoman.cli.convert.prove", lambda *_: signal.raise_signal(signal.SIGTERM))
    before = sorted(model.parent.iterdir())
    with pytest.raises(SystemExit) as ended:
        main(["export", str(model), "--to", "ctranslate2", "--out", str(model.parent / "out"), "--sentences", "2"])
    assert ended.value.code == 143
    assert sorted(model.parent.iterdir()) == before


def test_a_folder_comes_back_where_the_new_one_can_not_take_its_place(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = export(model, "ctranslate2")
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    rename = Path.rename

    def refuse(self: Path, target: Path) -> Path:
        if self.name == "new":
            raise OSError(errno.EBUSY, "Device or resource busy")
        return rename(self, target)

    again = ["export", str(model), "--to", "ctranslate2", "--out", str(out), "--sentences", "2"]
    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", refuse)
        assert main(again) == 1
    assert "can't be written (Device or resource busy)" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    assert sorted(path.name for path in model.parent.iterdir() if path.name.startswith(".")) == []


@pytest.mark.parametrize("ending", [KeyboardInterrupt, SystemExit(143), OSError(errno.EBUSY, "busy")], ids=repr)
@pytest.mark.parametrize("moved", ["out", "new"])
def test_whoever_interrupts_has_the_earlier_export_or_the_new_one(
    ending: BaseException, moved: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal can arrive when one folder has gone and the other has not come."""
    out = tmp_path / "out"
    out.mkdir()
    (out / "parity.json").write_text("old")
    rename = Path.rename

    def interrupted(self: Path, target: Path) -> Path:
        found = rename(self, target)
        if self.name == moved:
            raise ending
        return found

    def write() -> None:
        with _staging(out, "parity.json", ()) as folder:
            (folder / "parity.json").write_text("new")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", interrupted)
        with pytest.raises((KeyboardInterrupt, SystemExit, DragomanError)):
            write()
    assert (out / "parity.json").read_text() == ("old" if moved == "out" else "new")
    assert list(tmp_path.iterdir()) == [out]


def test_a_disk_is_not_replaced_and_that_is_said_before_the_work(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = model.parent / "disk"
    out.mkdir()
    monkeypatch.setattr(os.path, "ismount", lambda path: Path(path).name == "disk")
    assert main(["export", str(model), "--to", "ctranslate2", "--out", str(out), "--sentences", "2"]) == 1
    told = capsys.readouterr().err
    assert "disk: is where a disk is mounted, and can't be replaced; name a folder in it" in told
    assert "comparing" not in told
    assert not list(out.iterdir())


def test_files_of_an_earlier_export_go_and_strangers_are_told_before_the_work(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = export(model, "ctranslate2")
    described = json.loads((out / "dragoman.json").read_text())
    described["checksums"]["source_vocabulary.json"] = "of a model with two vocabularies"
    (out / "dragoman.json").write_text(json.dumps(described))
    (out / "source_vocabulary.json").write_text("[]")
    export(model, "ctranslate2")
    assert not (out / "source_vocabulary.json").exists()
    (out / "mine.txt").write_text("mine")
    capsys.readouterr()
    assert main(["export", str(model), "--to", "ctranslate2", "--out", str(out), "--sentences", "2"]) == 1
    told = capsys.readouterr().err
    assert "mine.txt, which would be lost" in told
    assert "comparing" not in told


def test_another_model_and_an_edited_card_are_not_replaced(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("transformers", reason="needs transformers")
    marian, arrived, other = (model.parent / name for name in ("marian", "arrived", "other"))
    marian.mkdir()
    huggingface.write_model(small_model(), marian)
    first = ["import", str(marian), "--out", str(arrived), "--sentences", "2"]
    assert main(first) == 0
    assert main(first) == 0, "the same again"
    capsys.readouterr()
    assert main([*first, "--target", "fr"]) == 1
    assert "another model is there (en → ne imported from marian); choose another --out" in capsys.readouterr().err
    replace(small_model(), direction=Direction("ne", "en")).save(other)
    out = export(model, "ctranslate2")
    assert main(["export", str(other), "--to", "ctranslate2", "--out", str(out), "--sentences", "2"]) == 1
    assert "another model is there (en → ne); choose another --out" in capsys.readouterr().err


def test_a_link_stays_a_link(model: Path) -> None:
    pytest.importorskip("ctranslate2", reason="needs ctranslate2")
    place, link = model.parent / "disk" / "place", model.parent / "link"
    place.mkdir(parents=True)
    link.symlink_to(place)
    for _ in range(2):
        assert main(["export", str(model), "--to", "ctranslate2", "--out", str(link), "--sentences", "2"]) == 0
        assert link.is_symlink()
        assert (place / "parity.json").is_file()


def test_the_folder_in_which_one_is_will_do(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ctranslate2", reason="needs ctranslate2")
    here = model.parent / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    assert main(["export", str(model), "--to", "ctranslate2", "--out", ".", "--sentences", "2"]) == 0
    assert (here / "parity.json").is_file()
