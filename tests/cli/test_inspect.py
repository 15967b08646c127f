"""`dragoman check`, `inspect` and `figures`, as a user calls them."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dragoman.checkpoint import LONGEST_FACT, Direction, ModelFolder
from dragoman.cli.main import main
from dragoman.config import ModelConfig, TextConfig
from dragoman.figures import gallery
from dragoman.model.transformer import Transformer
from dragoman.text.subwords import Vocabulary

BLOCKS = {"encoder.0.self_attention", "decoder.0.self_attention", "decoder.0.cross_attention"}
PNG = b"\x89PNG\r\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder with random weights."""
    lines = [f"word{i} and {i * 7} more" for i in range(200)]
    vocabulary = Vocabulary.learn((lines, lines), TextConfig(vocab_size=300))
    size = len(vocabulary.source)
    shape = ModelConfig(
        d_model=16,
        d_ff=32,
        num_heads=2,
        num_encoder_layers=1,
        num_decoder_layers=1,
        max_length=40,
        source_vocab_size=size,
        target_vocab_size=size,
    )
    out = tmp_path_factory.mktemp("model")
    ModelFolder(Transformer(shape), vocabulary, Direction("en", "xx")).save(out)
    return out


def call(*arguments: object) -> int:
    try:
        return main([str(argument) for argument in arguments])
    except SystemExit as leave:
        return int(leave.code or 0)


def test_without_a_wish_the_page_is_written_here(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call("inspect", folder, "word1 and <i7>", "--max-length", 5) == 0
    page = (tmp_path / "inspection.html").read_text(encoding="utf-8")
    assert page.lstrip().lower().startswith("<!doctype html>")
    assert "word1 and \\u003ci7" in page
    assert "<i7>" not in page
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "wrote inspection.html\n"


def test_every_form_on_request_and_nothing_else(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call("inspect", folder, "word1 and", "--max-length", 5, "--text") == 0
    assert "word1 and" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []
    wishes = ["--npz", "new/arrays.npz", "--png", "pictures", "--out", "deep/er/page.html", "--text", "true"]
    assert call("inspect", folder, "word1 and", "--max-length", 5, "--json", "all.json", *wishes) == 0
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


def test_a_sentence_that_translate_would_split_is_said_to_be_one(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trained = ModelFolder.load(folder)
    direction = replace(trained.direction, facts={LONGEST_FACT: 4})
    ModelFolder(trained.model, trained.vocabulary, direction).save(tmp_path / "short")
    sentence = "word1 and word2 and word3"
    assert call("inspect", tmp_path / "short", sentence, "--max-length", 5, "--text") == 0
    assert "more than any in training (4): translate would split it" in capsys.readouterr().err
    assert call("inspect", folder, sentence, "--max-length", 5, "--text") == 0
    assert "split" not in capsys.readouterr().err


def test_the_search_is_computed_in_the_precision_of_translate_and_what_is_shown_in_fp32(
    folder: Path, tmp_path: Path
) -> None:
    for precision in ("fp32", "bf16"):
        made = tmp_path / precision
        arguments = ["--max-length", 5, "--precision", precision, "--json", f"{made}.json", "--npz", f"{made}.npz"]
        assert call("inspect", folder, "word1 and", *arguments) == 0
        facts = json.loads(made.with_suffix(".json").read_text(encoding="utf-8"))["facts"]
        assert facts["search"]["precision"] == precision
        with np.load(f"{made}.npz") as arrays:
            for block in BLOCKS:
                np.testing.assert_allclose(arrays[block].sum(axis=-1), 1.0, atol=1e-5)


def test_an_empty_translation_is_one_too(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("inspect", folder, "word1 and", "--translation", "", "--text") == 0
    assert "1  </s>" in capsys.readouterr().out


def test_a_translation_of_ones_own_is_looked_at(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("inspect", folder, "word1 and", "--text", "--translation", "more word7") == 0
    assert "more word7" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (["  "], 1, "the sentence is empty"),
        (["word1", "--alignment-layer", "2"], 2, "the model has 1 decoder layer"),
        (["word1", "--alignment-layer", "-1"], 2, "alignment_layer must be between 0 and"),
        (["word1 " * 50], 1, "at most 40"),
        (["word1", "--n-best", "2"], 2, "unknown option --n-best"),
        ([], 2, "required: sentence"),
        (["word1", "--text", "--translation", "word1 " * 50], 1, "the translation has"),
        (["word1", "--out", "folder/"], 2, "--out folder/: this is a folder; name a file"),
        (["word1", "--json", "x", "--npz", "./x"], 2, "--npz ./x: would replace the file of --json"),
        (["caf\udce9"], 2, "sentence is not text"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(
    folder: Path, arguments: list[str], code: int, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("inspect", folder, *arguments) == code
    error = capsys.readouterr().err
    assert complaint in error
    assert len(error.splitlines()) == 1


def test_options_that_stand_alone_may_stand_anywhere(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call("inspect", "--text", folder, "word1", "--max-length", 2) == 0
    assert call("inspect", folder, "--text", "word1", "--max-length", 2) == 0
    (tmp_path / "lines").write_text("word1\n")
    capsys.readouterr()
    assert call("translate", folder, "--alignments", "lines", "--max-length", 2) == 0
    assert " ||| " in capsys.readouterr().out


def test_what_follows_two_dashes_is_left_as_it_is(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("inspect", folder, "--text", "--max_length", 2, "--", "--an_odd sentence") == 0
    assert "--an_odd sentence" in capsys.readouterr().out


def test_devices_and_links_are_written_to_and_not_replaced(folder: Path, tmp_path: Path) -> None:
    link, target = tmp_path / "link.html", tmp_path / "target.html"
    target.write_text("<!doctype html>")
    link.symlink_to(target)
    assert call("inspect", folder, "word1", "--max-length", 2, "--out", link) == 0
    assert link.is_symlink()
    assert target.read_text(encoding="utf-8").startswith("<!doctype html>")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE)
    assert call("inspect", folder, "word1", "--max-length", 2, "--out", pipe) == 0
    page, _ = reader.communicate(timeout=30)
    assert page == target.read_bytes()
    assert pipe.is_fifo()


def test_a_page_that_cannot_be_written(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert call("inspect", folder, "word1", "--max-length", 2, "--out", tmp_path / "file" / "page.html") == 1
    assert "can't be written" in capsys.readouterr().err


def test_figures_are_drawn_with_and_without_a_translator(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gallery, "GALLERY", {name: gallery.GALLERY[name] for name in ("padding-mask", "causal-mask")})
    assert call("figures", tmp_path / "plain", "--dpi", 30) == 0
    plain = {path.stem for path in (tmp_path / "plain").iterdir()}
    assert plain == set(gallery.GALLERY)
    assert call("figures", tmp_path / "all", "--dpi", 30, "--model", folder, "--sentence", "word1 and") == 0
    drawn = {path.stem: path.read_bytes()[:6] for path in (tmp_path / "all").iterdir()}
    assert set(drawn) > plain
    assert set(drawn.values()) == {PNG}
    capsys.readouterr()
    assert call("figures", tmp_path / "half", "--model", folder) == 2
    assert "--model and --sentence" in capsys.readouterr().err


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """Two files; the fourth line has a NUL, the second is empty on one side."""
    (tmp_path / "t.en").write_bytes(b"A cat sleeps.\n\nA dog barks.\nA \0 bird sings.\n")
    (tmp_path / "t.de").write_bytes("Eine Katze schläft.\nLeer.\nEin Hund bellt.\nEin Vogel singt.\n".encode())
    return tmp_path / "t"


LANGUAGES = ("--source", "en", "--target", "de")


def test_check_reports_what_is_wrong_and_where(text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = text.parent / "made" / "report.json"
    assert call("check", *LANGUAGES, "--train", text, "--json", report) == 1
    captured = capsys.readouterr()
    assert f"{text}.en:4" in captured.out
    assert "A <U+0000> bird sings." in captured.out
    assert "\x1b" not in captured.out
    assert captured.err == f"wrote {report}\n"
    content = json.loads(report.read_text(encoding="utf-8"))
    lines = {found["reason"]: [example["line"] for example in found["examples"]] for found in content["findings"]}
    assert lines == {"NUL": [4], "empty side": [2]}
    assert call("check", *LANGUAGES, "--train", text, "--examples", 0) == 1
    assert ".en:4" not in capsys.readouterr().out


def test_check_passes_text_without_errors(text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in text.parent.iterdir():
        path.write_bytes((path.read_bytes().replace(b"\0", b"") + b"\n") * 20 + b"A tab\t\n")
    assert call("check", *LANGUAGES, "--train", text) == 0
    assert "NOTE  tab" in capsys.readouterr().out


def test_check_looks_for_held_out_text(text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("check", *LANGUAGES, "--train", text, "--valid", text, "--test", text) == 1
    shown = capsys.readouterr().out
    assert "also in held-out text: training 3 pairs" in shown
    assert "in the validation and test text" in shown


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda data: data + b"one more\n", "line counts differ"),
        (lambda data: data.replace(b"dog", b"d\xf6g"), "not UTF-8"),
        (lambda data: data.decode().encode("utf-16"), "not UTF-8"),
    ],
)
def test_check_fails_where_training_could_not_read(
    damage: Callable[[bytes], bytes], said: str, text: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(f"{text}.en")
    path.write_bytes(damage(path.read_bytes()))
    assert call("check", *LANGUAGES, "--train", text) == 1
    captured = capsys.readouterr()
    assert f"ERROR  {said}" in captured.out
    assert "Traceback" not in captured.out + captured.err


def test_check_of_empty_and_of_missing_text_fails(text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for language in ("en", "de"):
        Path(f"{text}.{language}").write_text("")
    assert call("check", *LANGUAGES, "--train", text) == 1
    assert "ERROR  no pairs" in capsys.readouterr().out
    assert call("check", *LANGUAGES, "--train", text.parent / "nothing") == 1
    error = capsys.readouterr().err
    assert "no such file" in error
    assert len(error.splitlines()) == 1
    assert call("check", *LANGUAGES) == 2


def test_check_uses_colours_on_a_terminal_alone(text: Path) -> None:
    command = [sys.executable, "-m", "dragoman", "check", *LANGUAGES, "--train", str(text)]
    ours, theirs = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"} | {"TERM": "xterm-256color"}
    process = subprocess.Popen(command, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    shown = b""
    while True:
        try:
            data = os.read(ours, 65536)
        except OSError:  # the other side is closed
            break
        if not data:
            break
        shown += data
    os.close(ours)
    assert process.wait(timeout=60) == 1
    assert b"\x1b[1;33mWARNING" in shown
    assert b"A <U+0000> bird sings." in shown
