"""What an exported folder says about itself."""

from dataclasses import replace
from pathlib import Path

import pytest

from dragoman.checkpoint import ModelFolder
from dragoman.config import DragomanError
from dragoman.folder import (
    EXPORT_FILE,
    IMPORTED_FACT,
    MODEL_FILES,
    PARITY_FILE,
    Direction,
    describe,
    files_of_earlier_result,
    files_of_model,
    read_exported,
)
from tests.small_models import small_model


def described(loaded: ModelFolder, target: str, folder: Path) -> bytes:
    return describe(loaded.direction, loaded.model.config, target, folder)


def earlier(folder: Path, loaded: ModelFolder, target: str = "") -> set[str]:
    return files_of_earlier_result(folder, loaded.direction, loaded.model.config, target)


def test_a_description_comes_back(tmp_path: Path) -> None:
    loaded = small_model()
    (tmp_path / EXPORT_FILE).write_bytes(described(loaded, "onnx", tmp_path))
    found = read_exported(tmp_path)
    assert (found.target, found.direction, found.config) == ("onnx", loaded.direction, loaded.model.config)


@pytest.mark.parametrize(
    "content", [b"", b"[]", b'{"source": "en"}', b"\xff", b'{"source":"a","target":"b","facts":{},"model":{"x":1}}']
)
def test_a_damaged_description_is_one_sentence(content: bytes, tmp_path: Path) -> None:
    with pytest.raises(DragomanError, match=r"dragoman\.json: missing"):
        read_exported(tmp_path)
    (tmp_path / EXPORT_FILE).write_bytes(content)
    with pytest.raises(DragomanError, match=r"dragoman\.json: .*damaged"):
        read_exported(tmp_path)
    (tmp_path / PARITY_FILE).touch()
    assert earlier(tmp_path, small_model(), "onnx") == set()
    assert tmp_path / "config.json" in files_of_model(tmp_path)


def test_files_are_compared_with_their_checksums_on_request(tmp_path: Path) -> None:
    file = tmp_path / "model.bin"
    file.write_bytes(b"weights")
    (tmp_path / EXPORT_FILE).write_bytes(described(small_model(), "ctranslate2", tmp_path))
    read_exported(tmp_path, verify=True)
    file.write_bytes(b"weighty")
    read_exported(tmp_path)
    for _ in range(2):
        with pytest.raises(DragomanError, match=r"model\.bin: missing, damaged, or of another model; export"):
            read_exported(tmp_path, verify=True)
        file.unlink(missing_ok=True)


def test_only_a_result_of_the_same_model_and_target_may_be_replaced(tmp_path: Path) -> None:
    export, imported, model = tmp_path / "export", tmp_path / "imported", small_model()
    export.mkdir()
    (export / "model.bin").write_bytes(b"weights")
    (export / EXPORT_FILE).write_bytes(described(model, "ctranslate2", export))
    model.save(imported)
    assert earlier(imported, model) == set(), "trained, as it has no proof"
    for folder in (export, imported):
        (folder / PARITY_FILE).touch()
    of_export = {"model.bin", "README.md", EXPORT_FILE, PARITY_FILE}
    for same in (model, model.with_facts({"steps": 12})):
        assert earlier(export, same, "ctranslate2") == of_export
        assert {*MODEL_FILES, PARITY_FILE} <= earlier(imported, same)
    smaller = small_model()
    smaller.model.config = replace(smaller.model.config, num_encoder_layers=1)
    others = [replace(model, direction=Direction("en", "fr")), model.with_facts({IMPORTED_FACT: "opus"}), smaller]
    for other in others:
        assert earlier(export, other, "ctranslate2") == set()
        assert earlier(imported, other) == set()
    assert earlier(export, model, "onnx") == set()
    assert earlier(export, model) == set()
    assert earlier(tmp_path / "nothing", model, "onnx") == set()
