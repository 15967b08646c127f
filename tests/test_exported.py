from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from dragoman.checkpoint import EXPORT_FILE, IMPORTED_FACT, Direction, ModelFolder
from dragoman.config import DragomanError
from dragoman.exported import describe, own_files, read_description, refuse_to_replace
from tests.small_models import small_model


def test_a_description_comes_back(tmp_path: Path) -> None:
    loaded = small_model(norm="pre", softmax_bias=True)
    (tmp_path / EXPORT_FILE).write_bytes(describe(loaded, "onnx"))
    direction, config = read_description(tmp_path)
    assert direction == loaded.direction
    assert config == loaded.model.config


@pytest.mark.parametrize(
    "content", [b"", b"[]", b'{"source": "en"}', b"\xff", b'{"source":"a","target":"b","facts":{},"model":{"x":1}}']
)
def test_a_damaged_description_is_one_sentence(content: bytes, tmp_path: Path) -> None:
    (tmp_path / EXPORT_FILE).write_bytes(content)
    with pytest.raises(DragomanError, match=r"dragoman\.json: damaged"):
        read_description(tmp_path)


def test_a_missing_description_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(DragomanError, match=r"has no dragoman\.json"):
        read_description(tmp_path)


def test_files_are_compared_with_their_checksums_where_that_is_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "model.bin"
    file.write_bytes(b"weights")
    (tmp_path / EXPORT_FILE).write_bytes(describe(small_model(), "ctranslate2", [file]))
    read_description(tmp_path, verify=True)
    file.write_bytes(b"weighty")
    read_description(tmp_path)
    with pytest.raises(DragomanError, match=r"model\.bin: damaged, or of another model; export the model again"):
        read_description(tmp_path, verify=True)
    file.unlink()
    with pytest.raises(DragomanError, match=r"model\.bin: no such file; export the model again"):
        read_description(tmp_path, verify=True)


def test_an_export_names_its_own_files(tmp_path: Path) -> None:
    assert own_files(tmp_path) == set()
    (tmp_path / "model.bin").write_bytes(b"weights")
    (tmp_path / EXPORT_FILE).write_bytes(describe(small_model(), "ctranslate2", [tmp_path / "model.bin"]))
    assert own_files(tmp_path) == {"model.bin", "README.md", "dragoman.json"}
    (tmp_path / EXPORT_FILE).write_text("{}")
    assert own_files(tmp_path) == set()


def other_models() -> list[ModelFolder]:
    model = small_model()
    return [
        replace(model, direction=Direction("en", "fr")),
        model.with_facts({IMPORTED_FACT: "opus"}),
        small_model(num_encoder_layers=1),
    ]


def test_another_model_is_not_replaced(tmp_path: Path) -> None:
    export, arrived, model = tmp_path / "export", tmp_path / "arrived", small_model()
    export.mkdir()
    (export / EXPORT_FILE).write_bytes(describe(model, "onnx"))
    model.save(arrived)
    for folder, target in ((export, "onnx"), (arrived, ""), (tmp_path / "nothing", "onnx")):
        refuse_to_replace(folder, model, target)
        refuse_to_replace(folder, model.with_facts({"steps": 12}), target)
    for other in other_models():
        for folder, target in ((export, "onnx"), (arrived, "")):
            with pytest.raises(DragomanError, match=r"another model is there \(en → ne\); choose another --out"):
                refuse_to_replace(folder, other, target)


def test_nothing_is_refused_for_a_description_that_can_not_be_read(tmp_path: Path) -> None:
    for content in ("{", "[]", json.dumps({"source": "en"})):
        (tmp_path / EXPORT_FILE).write_text(content)
        refuse_to_replace(tmp_path, small_model(), "onnx")
