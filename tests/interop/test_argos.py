from __future__ import annotations

import json
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from dragoman.checkpoint import IMPORTED_FACT, Direction
from dragoman.config import DragomanError
from dragoman.interop import argos, ctranslate2
from tests.small_models import small_model

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
    assert folder == "translate-en_pb-1_2"
    inside = {name.removeprefix(f"{folder}/") for name in names}
    assert {"README.md", "model/model.bin", "model/config.json"} <= inside
    assert any(name.startswith("model/") and name.endswith("vocabulary.json") for name in inside)
    assert (metadata["from_code"], metadata["from_name"]) == ("en", "English")
    assert (metadata["to_code"], metadata["to_name"]) == ("pb", "Portuguese (Brazil)")
    assert metadata["package_version"] == "1.2"
    assert metadata["argos_version"] == "1.10"


@pytest.mark.parametrize(
    ("code", "named"),
    [
        ("eng", ("en", "English")), ("en_US", ("en", "English")), ("fra", ("fr", "French")), ("fre", ("fr", "French")),
        ("jpn", ("ja", "Japanese")), ("por", ("pt", "Portuguese")), ("pt_PT", ("pt", "Portuguese")),
        ("pt-BR", ("pb", "Portuguese (Brazil)")), ("zho", ("zh", "Chinese")), ("zh-CN", ("zh", "Chinese")),
        ("zh-Hant", ("zt", "Chinese (traditional)")), ("zh-TW", ("zt", "Chinese (traditional)")),
        ("no", ("nb", "Norwegian Bokmål")), ("nob", ("nb", "Norwegian Bokmål")), ("tl", ("tl", "Tagalog")),
        ("sr-Latn", ("sr", "Serbian")), ("apc", ("apc", "apc")), ("skr", ("skr", "skr")), ("xx", ("xx", "xx")),
    ],
)  # fmt: skip
def test_languages_are_called_as_argos_calls_them(code: str, named: tuple[str, str], tmp_path: Path) -> None:
    """Packages only join where their codes are the same; where a language has no name, its code has to do."""
    with zipfile.ZipFile(package(tmp_path, source="xh", target=code)) as content:
        metadata = content.read(f"translate-xh_{named[0]}-1_2/metadata.json").decode("ascii")
    found = json.loads(metadata)
    assert (found["to_code"], found["to_name"]) == named


def test_two_subword_models_are_refused() -> None:
    with pytest.raises(DragomanError, match="--to ctranslate2"):
        argos.require_packable(small_model(joint=False))
    with pytest.raises(DragomanError) as refusal:
        argos.require_packable(small_model(joint=False).with_facts({IMPORTED_FACT: "opus-mt-en-fr"}))
    assert "train" not in str(refusal.value), "how it was trained is past changing"
