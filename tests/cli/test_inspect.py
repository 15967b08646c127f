"""inspect and figures, as a user calls them."""

import json
from pathlib import Path

import numpy as np
import pytest

from dragoman.figures import gallery
from tests.cli.conftest import small_folder
from tests.command_calls import run

BLOCKS = {"encoder.0.self_attention", "decoder.0.self_attention", "decoder.0.cross_attention"}
PNG = b"\x89PNG\r\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder with random weights."""
    out = tmp_path_factory.mktemp("model")
    small_folder(max_length=40).save(out)
    return out


def test_by_default_the_page_is_written_here(folder: Path, tmp_path: Path) -> None:
    result = run("inspect", folder, "word1 and <i7>", "--max-length", 5)
    page = (tmp_path / "inspection.html").read_text(encoding="utf-8")
    assert (result.code, result.out, result.err) == (0, "", "wrote inspection.html; open it in a browser\n")
    assert page.lstrip().lower().startswith("<!doctype html>")
    assert "word1 and \\u003ci7" in page
    assert "<i7>" not in page


def test_every_form_on_request_and_nothing_else(folder: Path, tmp_path: Path) -> None:
    assert "word1 and" in run("inspect", folder, "word1 and", "--max-length", 5, "--text").out
    assert list(tmp_path.iterdir()) == []
    wishes = ["--npz", "new/arrays.npz", "--png", "pictures", "--out", "deep/er/page.html", "--json", "all.json"]
    assert run("inspect", folder, "word1 and", "--max-length", 5, *wishes).code == 0
    with np.load(tmp_path / "new" / "arrays.npz") as arrays:
        assert set(arrays.files) >= BLOCKS
        words = {side: int(arrays[f"{side}_words"].max()) for side in ("source", "target")}
        assert len(arrays["source_words"]) == len(arrays["source_pieces"])
        assert all(s <= words["source"] and t <= words["target"] for s, t in arrays["alignment"])
        steps = len(arrays["outputs"])
        assert len(arrays["ranks"]) == len(arrays["probabilities"]) == len(arrays["target_words"]) == steps
    record = json.loads((tmp_path / "all.json").read_text(encoding="utf-8"))
    assert record["source"] == "word1 and"
    assert len(record["predictions"]) == steps
    assert len(record["candidates"]) == record["facts"]["search"]["beam"] == 4
    assert record["facts"]["search"]["max_length"] == 5
    assert "maps" not in record
    pictures = {path.stem: path.read_bytes()[:6] for path in (tmp_path / "pictures").iterdir()}
    assert pictures == dict.fromkeys([*BLOCKS, "overview"], PNG)
    assert (tmp_path / "deep" / "er" / "page.html").is_file()


def test_the_search_is_computed_as_in_translate_and_what_is_shown_in_fp32(folder: Path, tmp_path: Path) -> None:
    for precision in ("fp32", "bf16"):
        made = tmp_path / precision
        options = ["--max-length", 5, "--precision", precision, "--json", f"{made}.json", "--npz", f"{made}.npz"]
        assert run("inspect", folder, "word1 and", *options).code == 0
        facts = json.loads(made.with_suffix(".json").read_text(encoding="utf-8"))["facts"]
        assert facts["search"]["precision"] == precision
        with np.load(f"{made}.npz") as arrays:
            for block in BLOCKS:
                np.testing.assert_allclose(arrays[block].sum(axis=-1), 1.0, atol=1e-5)


@pytest.mark.parametrize(("translation", "shown"), [("", "1  </s>"), ("more word7", "more word7"), ("null", "null")])
def test_a_given_translation_is_shown(translation: str, shown: str, folder: Path) -> None:
    assert shown in run("inspect", folder, "word1 and", "--text", "--translation", translation).out


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        (["  "], 1, "the sentence is empty"),
        (["word1", "--alignment-layer", "-1"], 2, "alignment_layer is -1, but the model has"),
        (["word1 " * 50], 1, "at most 40"),
        (["word1", "--text", "--translation", "word1 " * 50], 1, "the translation has"),
        (["word1", "--out", "folder/"], 2, "--out folder/: this is a folder; name a file"),
        (["word1", "--json", "x", "--npz", "./x"], 2, "--npz ./x: would replace the file of --json"),
        (["word1", "--out", "file/page.html"], 1, "can't be written"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(words: list[str], code: int, complaint: str, folder: Path) -> None:
    Path("file").touch()
    result = run("inspect", folder, *words)
    assert result.code == code
    assert complaint in result.err
    assert len(result.err.splitlines()) == 1


def test_figures_of_a_translator_are_added(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gallery, "GALLERY", {"causal-mask": gallery.GALLERY["causal-mask"]})
    assert run("figures", "all", "--dpi", 30, "--model", folder, "--sentence", "word1 and").code == 0
    drawn = {path.stem: path.read_bytes()[:6] for path in (tmp_path / "all").iterdir()}
    assert set(drawn) > {"causal-mask"}
    assert set(drawn.values()) == {PNG}
    assert "--model and --sentence" in run("figures", "pictures", "--model", folder).err
