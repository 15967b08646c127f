"""Packages as Argos Translate installs them."""

import json
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
import sentencepiece

from dragoman.folder import Direction
from dragoman.interop import argos, ctranslate2
from tests.small_models import LINES, small_model

pytest.importorskip("babel", reason="needs babel: pip install 'dragoman[argos]'")


def test_a_package_holds_what_argos_looks_for(tmp_path: Path) -> None:
    loaded, model = replace(small_model(), direction=Direction("en", "pt-BR")), tmp_path / "model"
    model.mkdir()
    ctranslate2.write_model(loaded, model, "int8")
    package = argos.plan_package(loaded, "1.2")
    assert package.file == "translate-en_pb-1_2.argosmodel"
    argos.write_package(package, loaded, model, tmp_path, "# card")
    with zipfile.ZipFile(tmp_path / package.file) as content:
        names = content.namelist()
        (folder,) = {name.split("/")[0] for name in names}
        metadata = json.loads(content.read(f"{folder}/metadata.json").decode("ascii"))
        assert content.read(f"{folder}/sentencepiece.model") == loaded.vocabulary.source.serialized
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
        ("eng", ("en", "English")), ("en_US", ("en", "English")), ("fre", ("fr", "French")),
        ("pt_PT", ("pt", "Portuguese")), ("pt-BR", ("pb", "Portuguese (Brazil)")),
        ("zho", ("zh", "Chinese")), ("zh-CN", ("zh", "Chinese")), ("zh-TW", ("zt", "Chinese (traditional)")),
        ("zh-Hant", ("zt", "Chinese (traditional)")), ("no", ("nb", "Norwegian Bokmål")), ("tl", ("tl", "Tagalog")),
        ("sr-Latn", ("sr", "Serbian")), ("apc", ("apc", "apc")), ("xx", ("xx", "xx")),
    ],
)  # fmt: skip
def test_languages_are_called_as_argos_calls_them(code: str, named: tuple[str, str]) -> None:
    """Packages only join if their codes are the same; a language without a name goes by its code."""
    package = argos.plan_package(replace(small_model(), direction=Direction("xh", code)), "1.2")
    assert (package.target, argos._english_name(package.target)) == named


def test_the_model_of_the_source_joins_subwords_of_the_target_that_it_does_not_know() -> None:
    vocabulary = small_model(joint=False).vocabulary
    reader = sentencepiece.SentencePieceProcessor(model_proto=vocabulary.source.serialized)
    lines = [line[::-1] for line in LINES]
    pieces = [vocabulary.target.pieces(ids) for ids in vocabulary.target.encode(lines)]
    assert any(piece not in vocabulary.source.listed for found in pieces for piece in found)
    assert [reader.decode_pieces(found).replace("▁", " ").strip() for found in pieces] == lines
