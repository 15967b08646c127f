from __future__ import annotations

from pathlib import Path

import pytest
from small_models import small_model

from dragoman.checkpoint import EXPORT_FILE
from dragoman.config import DragomanError
from dragoman.exported import describe, read_description


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
