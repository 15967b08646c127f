"""translate: lines in, translations out, whatever comes in and whoever reads."""

import io
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from dragoman.checkpoint import ModelFolder
from dragoman.cli import translate as commands
from dragoman.cli.main import main
from dragoman.cli.options import TranslateConfig
from dragoman.config import SearchConfig
from dragoman.inference.alignment import Alignment
from dragoman.inference.results import Translation
from dragoman.inference.translator import Translator
from dragoman.runtime.console import NowAndThen
from tests.cli.conftest import LONG, small_folder
from tests.command_calls import INPUT, SHORT, Result, complaint, python, run

# ---- lines in, lines out


@pytest.fixture(scope="module")
def answers(trained: Path) -> list[str]:
    return run("translate", trained, *SHORT, stdin=INPUT).out.split("\n")


def test_every_line_has_its_translation_and_empty_lines_are_empty(answers: list[str]) -> None:
    assert len(answers) == 5 + 1
    assert [bool(line) for line in answers] == [True, False, True, False, True, False]


def test_a_file_is_translated_as_stdin_is(trained: Path, answers: list[str], tmp_path: Path) -> None:
    (tmp_path / "input.txt").write_bytes(INPUT)
    assert run("translate", trained, tmp_path / "input.txt", *SHORT).out.split("\n") == answers


def test_shards_are_whole_or_missing_and_those_that_are_there_are_not_made_again(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, counts = tmp_path / "input.txt", list[int]()
    text.write_text("".join(f"{'a cat sees ' * (number % 3)}dog\n" for number in range(23)))
    words = ("translate", trained, text, *SHORT, "--engine", "torch")
    expected = run(*words).out

    def translate(self: Translator, lines: list[str], *rest: object) -> object:
        counts.append(len(lines))
        if len(counts) == 4:
            raise KeyboardInterrupt
        return whole(self, lines, *rest)  # type: ignore[arg-type]

    whole = Translator.translate
    monkeypatch.setattr(commands, "LINES_AT_ONCE", 5)
    monkeypatch.setattr(Translator, "translate", translate)
    to_shards = (*words, "--out", tmp_path / "made", "--shard-lines", 10)
    assert run(*to_shards).code == 130
    assert [path.name for path in sorted(tmp_path.glob("made*"))] == ["made.00001", "made.json"]
    assert "made.00003: translated to line 23" in run(*to_shards).err
    assert "".join(path.read_text() for path in sorted(tmp_path.glob("made.0*"))) == expected
    assert sum(counts) == 23 + 10
    assert run(*to_shards) == Result(0, "", "")
    text.write_text("another")
    assert "made.json: of another text, model or settings" in complaint(1, *to_shards)
    (tmp_path / "mine.00002").write_text("mine")
    assert "already contains mine.00002" in complaint(1, *words, "--out", tmp_path / "mine")
    assert "--out needs a file" in complaint(2, "translate", trained, "--out", tmp_path / "x")


def test_a_glossary_is_a_table_of_terms(trained: Path, answers: list[str], tmp_path: Path) -> None:
    terms = tmp_path / "terms.tsv"
    terms.write_text("never there\tnowhere\n")
    words = ("translate", trained, *SHORT, "--glossary", terms)
    assert run(*words, stdin=INPUT).out.split("\n") == answers
    terms.write_text("cat\t \n")
    assert f"dragoman: {terms}: a term or its translation is empty" in complaint(2, *words)
    terms.write_text("cat\n")
    assert f"dragoman: {terms}, line 1: no tab" in complaint(1, *words)


def test_nothing_translates_to_nothing(trained: Path) -> None:
    assert run("translate", trained, *SHORT) == Result(0, "", "")


def write_newlines_only(folder: Path) -> None:
    """Make a model say the byte of a line feed and nothing else."""
    loaded = ModelFolder.load(folder)
    subwords = loaded.vocabulary.target
    (newline,) = (i for i in range(len(subwords)) if subwords.pieces([i]) == ["<0x0A>"])
    with torch.no_grad():
        norm = loaded.model.decoder.layers[-1].feed_forward_connection.layer_norm  # type: ignore[union-attr]
        norm.weight.zero_()  # type: ignore[operator, union-attr]
        norm.bias.fill_(1.0)  # type: ignore[operator, union-attr]
        loaded.model.softmax.weight[newline] = 10.0
    loaded.save(folder)


@pytest.mark.parametrize("options", [[], ["--format", "moses"]])
def test_a_translation_is_one_line_whatever_the_model_says(options: list[str], copy: Path) -> None:
    write_newlines_only(copy)
    out = run("translate", copy, *SHORT, *options, stdin=b"one\ntwo\nthree\n").out
    assert out.count("\n") == 3


def test_a_line_that_is_not_utf8_is_named_after_the_lines_before_are_translated(trained: Path) -> None:
    result = run("translate", trained, *SHORT, stdin=b"the cat\n\xff\n")
    assert result.code == 1
    assert result.out.count("\n") <= 1
    assert "stdin, line 2, byte 1" in result.err


def test_a_reader_that_had_enough_is_no_failure_though_more_could_come(trained: Path) -> None:
    process = python("-m", "dragoman", "translate", trained, *SHORT)
    assert process.stdin
    assert process.stdout
    process.stdin.write(b"the cat\n")
    process.stdin.flush()
    assert process.stdout.readline().endswith(b"\n")  # it comes before the input ends
    process.stdout.close()
    process.stdin.write(b"the dog\n")
    process.stdin.flush()
    code = process.wait(30)
    assert process.stderr
    assert (process.stderr.read(), code) == (b"", 0)


def test_translations_are_utf8_whatever_the_terminal_says(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(INPUT)))
    monkeypatch.setattr("sys.stdout", terminal := io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    assert main(["translate", str(trained), *SHORT, "--format", "json"]) == 0
    assert terminal.encoding == "utf-8"


def test_a_closed_stdin_is_an_error_not_a_crash(trained: Path) -> None:
    complaint(1, "translate", trained, *SHORT, stdin=None)


def test_a_sentence_in_place_of_a_file_is_told_what_to_do(model: Path) -> None:
    message = complaint(1, "translate", model, "Where is the station?")
    assert message.endswith(f"no such file; to translate a sentence: echo '…' | dragoman translate {model}")


@pytest.mark.parametrize("watched", [True, False])
def test_who_translates_a_file_from_a_terminal_sees_how_far_it_is(
    watched: bool, tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "text").write_text(f"the cat\n{LONG}\n")  # two lines, however many their parts
    monkeypatch.setattr(commands, "NowAndThen", lambda report: NowAndThen(report, 0.0))
    monkeypatch.setattr("sys.stderr", terminal := io.StringIO())
    monkeypatch.setattr(terminal, "isatty", lambda: watched)
    assert main(["translate", str(model), str(tmp_path / "text"), "--device", "cpu", "--workers", "1"]) == 0
    assert terminal.getvalue().count("2 lines translated") == watched


# ---- formats


CANDIDATES = [Translation("eins", -1.0, -0.5, [7]), Translation("zwei", -2.0, -1.0, [8])]
ALIGNMENTS = [Alignment([(1, 0)], ["a", "one"], ["eins"]), Alignment([(0, 0)], ["a", "one"], ["zwei"])]


def shown(aligned: bool = False, **settings: object) -> str:
    config = TranslateConfig(folder="x", **settings)  # type: ignore[arg-type]
    number = 2 if config.n_best > 1 or config.format == "moses" else 1
    alignments = ALIGNMENTS if aligned else [None, None]
    return commands._format(3, CANDIDATES[:number], alignments[:number], config)


def test_alignments_follow_the_translation() -> None:
    assert shown(aligned=True) == "eins ||| 1-0"
    first, second = shown(aligned=True, n_best=2).split("\n")
    assert first == "3 ||| eins ||| -1.0000 ||| -0.5000 ||| 1-0"
    assert second == "3 ||| zwei ||| -2.0000 ||| -1.0000 ||| 0-0"
    best = json.loads(shown(aligned=True, format="json", n_best=2))
    assert best["alternatives"][0]["alignment"] == [[0, 0]]
    assert (best["alignment"], best["source_tokens"], best["target_tokens"]) == ([[1, 0]], ["a", "one"], ["eins"])


def test_moses_format_numbers_the_lines_and_ranks_their_translations(trained: Path, answers: list[str]) -> None:
    result = run("translate", trained, *SHORT, "--n_best", 2, "--format", "moses", stdin=INPUT)
    rows = [line.split(" ||| ") for line in result.out.splitlines()]
    assert [int(number) for number, *_ in rows] == [0, 0, 1, 2, 2, 3, 4, 4]
    assert all(float(log_prob) <= 0 for _, _, log_prob, _ in rows)
    for number in (0, 2, 4):
        candidates = [row for row in rows if row[0] == str(number)]
        assert candidates[0][1] == answers[number]
        assert float(candidates[0][3]) >= float(candidates[1][3])
    assert run("translate", trained, *SHORT, "--n_best", 2, stdin=INPUT).out == result.out


def test_json_format_is_an_object_a_line_with_its_alternatives(trained: Path, answers: list[str]) -> None:
    result = run("translate", trained, *SHORT, "--n_best", 2, "--format", "json", stdin=INPUT)
    objects = [json.loads(line) for line in result.out.splitlines()]
    assert [entry["text"] for entry in objects] == answers[:-1]
    for entry in objects:
        assert len(entry["alternatives"]) == (1 if entry["text"] else 0)
        assert all(other["score"] <= entry["score"] for other in entry["alternatives"])
    plain = run("translate", trained, *SHORT, "--format", "json", stdin=INPUT).out
    assert [set(json.loads(line)) for line in plain.splitlines()] == [{"text", "log_prob", "score"}] * 5


# ---- long lines


def test_long_lines_are_split_and_lines_stay_in_order(tmp_path: Path, model: Path) -> None:
    (tmp_path / "text").write_text(f"a cat\n\n{LONG}\na dog\n")
    result = run("translate", model, tmp_path / "text", "--beam", 2, "--device", "cpu", "--precision", "fp32")
    expected = Translator(small_folder()).translate(["a cat", "", LONG, "a dog"], SearchConfig(beam=2))
    assert (result.code, result.out) == (0, "".join(f"{translation.text}\n" for translation in expected))
    assert len(expected[2].parts) >= 3


def test_lines_with_characters_that_are_new_to_the_model_get_a_warning(tmp_path: Path, model: Path) -> None:
    (tmp_path / "text").write_text("the cat\nthe {cat}\nthe {dog\n")
    result = run("translate", model, tmp_path / "text", "--device", "cpu")
    warning = "text, line 2 and 1 more: check the translation, because the training text hardly had { }\n"
    assert result.err.endswith(warning)
    assert result.err.count("check the translation") == 1
    assert result.out.count("\n") == 3


# ---- reading


def test_a_file_is_translated_in_the_same_batches_however_slowly_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slowly(path: Path) -> Iterator[str]:
        for line in path.read_text().splitlines():
            time.sleep(0.001)
            yield line

    monkeypatch.setattr(commands, "read_lines", slowly)
    monkeypatch.setattr(commands, "LINES_AT_ONCE", 4)
    (tmp_path / "text").write_text("a\nb\nc\nd\ne\n")
    assert list(commands._incoming(str(tmp_path / "text"), 0)) == [["a", "b", "c", "d"], ["e"]]


# ---- settings


def test_a_layer_that_is_not_there_is_told_before_anything_is_translated(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "text").write_text("a cat\n")
    monkeypatch.setattr(Translator, "translate", lambda *arguments: pytest.fail("translated"))
    message = complaint(2, "translate", model, tmp_path / "text", "--alignments", "--alignment-layer", 9)
    assert "the model has 1 decoder layer" in message


def test_each_translation_begins_as_the_file_of_prefixes_says(trained: Path, tmp_path: Path) -> None:
    (tmp_path / "prefixes").write_text("le \n\nune ch\n\n\n")
    lines = run("translate", trained, *SHORT, "--prefix", tmp_path / "prefixes", stdin=INPUT).out.split("\n")
    assert [line[:2] for line in lines[:3]] == ["le", "", "un"]
    assert lines[2].startswith("une ch")
    (tmp_path / "prefixes").write_text("le\n")
    message = complaint(1, "translate", trained, *SHORT, "--prefix", tmp_path / "prefixes", stdin=INPUT)
    assert message.endswith("prefixes: ends at line 1, before stdin")


def test_a_model_with_itself_as_ensemble_translates_as_it_does_alone(trained: Path) -> None:
    exact = (*SHORT, "--precision", "fp32")
    alone, both = (run("translate", trained, *exact, *more, stdin=INPUT) for more in ((), ("--ensemble", trained)))
    assert alone == both
    refused = complaint(2, "translate", trained, "--ensemble", trained, "--engine", "ctranslate2")
    assert "CTranslate2 computes no ensembles" in refused
