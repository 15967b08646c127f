"""What stands at the place of an export: what is replaced, what never is, and what a failure leaves."""

import errno
import json
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from dragoman.checkpoint import ModelFolder
from dragoman.cli.convert import _staging
from dragoman.cli.main import main
from dragoman.config import DragomanError
from dragoman.folder import Direction
from dragoman.interop import huggingface
from tests.small_models import small_model

from .exports import arguments, export


def test_exporting_again_replaces_an_export_with_all_its_files(model: Path) -> None:
    out = export(model, "ctranslate2")
    described = json.loads((out / "dragoman.json").read_text())
    described["checksums"]["source_vocabulary.json"] = "of a model with two vocabularies"
    (out / "dragoman.json").write_text(json.dumps(described))
    (out / "source_vocabulary.json").write_text("[]")
    (out / "parity.json").write_text("old")
    export(model, "ctranslate2")
    assert not (out / "source_vocabulary.json").exists()
    assert (out / "parity.json").read_text() != "old"


def test_nothing_else_is_replaced_as_is_said_at_once(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, strange, other = export(model, "ctranslate2"), model.parent / "strange", model.parent / "other"
    (out / "mine.txt").write_text("mine")
    strange.mkdir()
    (strange / "thesis.txt").write_text("years of work")
    replace(small_model(), direction=Direction("ne", "en")).save(other)
    capsys.readouterr()
    for folder, to, place, named in (
        (model, "ctranslate2", out, "mine.txt"),
        (model, "ctranslate2", strange, "thesis.txt"),
        (model, "ctranslate2", model, "config.json"),
        (model, "onnx", out, "config.json"),
        (other, "ctranslate2", out, "config.json"),
    ):
        before = {path.name: path.read_bytes() for path in place.iterdir()}
        assert main(arguments(folder, to, place)) == 1
        said = capsys.readouterr().err
        assert named in said
        assert "choose another --out" in said
        assert "comparing" not in said
        assert {path.name: path.read_bytes() for path in place.iterdir()} == before


def test_an_import_replaces_an_import_of_the_same_model(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("transformers", reason="needs transformers")
    marian, imported = model.parent / "marian", model.parent / "imported"
    marian.mkdir()
    huggingface.write_model(small_model(), marian)
    words = ["import", str(marian), "--sentences", "2", "--out"]
    assert main([*words, str(imported)]) == 0
    assert main([*words, str(imported)]) == 0
    for more in ([str(imported), "--target", "fr"], [str(model)]):
        assert main([*words, *more]) == 1
        assert "choose another --out" in capsys.readouterr().err


def test_a_full_disk_is_said_of_the_place_asked_for(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out, back = export(model, "huggingface"), model.parent / "back"

    def full(folder: Path) -> None:
        raise DragomanError(f"{folder / 'model.safetensors'}: can't be written (No space left on device)")

    monkeypatch.setattr(ModelFolder, "save", lambda self, folder: full(folder))
    assert main(["import", str(out), "--out", str(back), "--sentences", "2"]) == 1
    assert f"{back}/model.safetensors: can't be written" in capsys.readouterr().err


def test_an_export_that_is_told_to_end_leaves_nothing_behind(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.cli.convert.prove", lambda *_: signal.raise_signal(signal.SIGTERM))
    before = sorted(model.parent.iterdir())
    with pytest.raises(SystemExit) as ended:
        main(arguments(model, "ctranslate2", model.parent / "out"))
    assert ended.value.code == 143
    assert sorted(model.parent.iterdir()) == before


@pytest.mark.parametrize("ending", [KeyboardInterrupt, SystemExit(143), OSError(errno.EBUSY, "busy")], ids=repr)
@pytest.mark.parametrize("moved", ["out", "new"])
def test_an_interruption_leaves_the_earlier_export_or_the_new_one(
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
        with _staging(out, {"parity.json"}) as folder:
            (folder / "parity.json").write_text("new")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", interrupted)
        with pytest.raises((KeyboardInterrupt, SystemExit, DragomanError)):
            write()
    assert (out / "parity.json").read_text() == ("old" if moved == "out" else "new")
    assert list(tmp_path.iterdir()) == [out]


def test_a_file_that_comes_meanwhile_is_not_lost(tmp_path: Path) -> None:
    def write() -> None:
        with _staging(tmp_path / "out", ()):
            (tmp_path / "out").mkdir()
            (tmp_path / "out" / "mine.txt").write_text("mine")

    with pytest.raises(DragomanError, match=r"mine\.txt"):
        write()
    assert (tmp_path / "out" / "mine.txt").read_text() == "mine"


def test_links_and_the_working_folder_are_good_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place, link = tmp_path / "disk" / "place", tmp_path / "link"
    place.mkdir(parents=True)
    link.symlink_to(place)
    for out in (link, link, Path(".")):
        with monkeypatch.context() as patch:
            patch.chdir(place)
            with _staging(out, {"new.txt"}) as folder:
                (folder / "new.txt").write_text("new")
        assert link.is_symlink()
        assert (place / "new.txt").is_file()
