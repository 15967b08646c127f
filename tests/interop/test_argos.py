from __future__ import annotations

import json
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from small_models import small_model

from dragoman.checkpoint import IMPORTED_FACT, Direction
from dragoman.config import DragomanError
from dragoman.interop import argos, ctranslate2

pytest.importorskip("ctranslate2", reason="needs ctranslate2: pip install 'dragoman[argos]'")
pytest.importorskip("babel", reason="needs babel: pip install 'dragoman[argos]'")


def package(folder: Path, source: str = "en", target: str = "pt-BR", version: str = "1.2") -> Path:
    loaded = replace(small_model(), direction=Direction(source, target))
    model, path = folder / "model", folder / "x.argosmodel"
    model.mkdir()
    ctranslate2.write_model(loaded, model, "int8")
    argos.write_package(loaded, model, path, version, "# card")
    return path


def test_a_package_holds_what_argos_looks_for(tmp_path: Path) -> None:
    with zipfile.ZipFile(package(tmp_path)) as content:
        names = content.namelist()
        (folder,) = {name.split("/")[0] for name in names}
        metadata = json.loads(content.read(f"{folder}/metadata.json"))
        assert content.read(f"{folder}/sentencepiece.model") == small_model().vocabulary.source.serialized
    assert folder == "translate-en_pt-BR-1_2"
    inside = {name.removeprefix(f"{folder}/") for name in names}
    assert {"README.md", "model/model.bin", "model/config.json"} <= inside
    assert any(name.startswith("model/") and name.endswith("vocabulary.json") for name in inside)
    assert (metadata["from_code"], metadata["from_name"]) == ("en", "English")
    assert (metadata["to_code"], metadata["to_name"]) == ("pt-BR", "Portuguese (Brazil)")
    assert metadata["package_version"] == "1.2"
    assert metadata["argos_version"] == "1.10"


def test_a_language_without_a_name_is_its_code(tmp_path: Path) -> None:
    with zipfile.ZipFile(package(tmp_path, target="xx")) as content:
        metadata = json.loads(content.read("translate-en_xx-1_2/metadata.json"))
    assert metadata["to_name"] == "xx"


def test_two_subword_models_are_refused() -> None:
    with pytest.raises(DragomanError, match="--to ctranslate2"):
        argos.require_packable(small_model(joint=False))
    with pytest.raises(DragomanError) as refusal:
        argos.require_packable(small_model(joint=False).with_facts({IMPORTED_FACT: "opus-mt-en-fr"}))
    assert "train" not in str(refusal.value), "how it was trained is past changing"
