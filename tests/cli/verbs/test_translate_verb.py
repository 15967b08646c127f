"""Lines in, translations out, whatever comes in and whoever reads."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
import torch

from dragoman.checkpoint import ModelFolder
from tests.command_calls import INPUT, SHORT, Result, complaint, python, run


@pytest.fixture(scope="module")
def answers(trained: Path) -> list[str]:
    return run("translate", trained, *SHORT, stdin=INPUT).out.split("\n")


def test_every_line_has_its_translation_and_empty_lines_are_empty(answers: list[str]) -> None:
    assert len(answers) == 5 + 1
    assert [bool(line) for line in answers] == [True, False, True, False, True, False]


def test_a_file_is_translated_as_stdin_is(trained: Path, answers: list[str], tmp_path: Path) -> None:
    (tmp_path / "input.txt").write_bytes(INPUT)
    assert run("translate", trained, tmp_path / "input.txt", *SHORT).out.split("\n") == answers


def test_windows_line_ends_and_a_missing_last_one_change_nothing(trained: Path, answers: list[str]) -> None:
    windows = INPUT.replace(b"\n", b"\r\n").removesuffix(b"\r\n")
    assert run("translate", trained, *SHORT, stdin=windows).out.split("\n") == answers


def test_nothing_translates_to_nothing(trained: Path) -> None:
    assert run("translate", trained, *SHORT) == Result(0, "", "")


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


def test_a_line_longer_than_the_model_takes_is_an_error(trained: Path) -> None:
    message = complaint(1, "translate", trained, *SHORT, "--long", "error", stdin=b"the cat " * 300)
    assert "64" in message
    assert "line 1" in message


@pytest.mark.parametrize(
    "ending",
    [
        "closes",
        "stays open",
    ],
)
def test_a_reader_that_had_enough_is_no_failure(ending: str, trained: Path) -> None:
    process = python("-m", "dragoman", "translate", trained, *SHORT)
    assert process.stdin
    assert process.stdout
    process.stdin.write(b"the cat\n")
    process.stdin.flush()
    assert process.stdout.readline().endswith(b"\n")  # it comes before the input ends
    process.stdout.close()
    process.stdin.write(b"the dog\n")
    if ending == "closes":
        process.stdin.close()
    else:
        process.stdin.flush()
    code = process.wait(30)
    assert process.stderr
    assert (process.stderr.read(), code) == (b"", 0)


def test_translations_are_utf8_whatever_the_terminal_says(trained: Path) -> None:
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    process = python("-m", "dragoman", "translate", trained, *SHORT, env=environment)
    out, err = process.communicate(INPUT)
    assert (process.returncode, err) == (0, b"")
    assert len(out.decode("utf-8").split("\n")) == 6


def test_a_closed_stdin_is_an_error_not_a_crash(trained: Path) -> None:
    complaint(1, "translate", trained, *SHORT, stdin=None)


@pytest.mark.parametrize("unbuffered", [False, True])
def test_a_reader_of_results_may_leave_but_not_one_of_what_went_wrong(unbuffered: bool, tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONUNBUFFERED": "1" if unbuffered else ""}
    for words, both, code in ((["download"], False, 0), (["download"], True, 1), (["translate", tmp_path], True, 1)):
        reader, writer = os.pipe()
        os.close(reader)
        kept = writer if both else subprocess.PIPE
        process = python("-m", "dragoman", *words, stdout=writer, stderr=kept, env=environment)
        os.close(writer)
        _, told = process.communicate()
        assert (process.returncode, told) == (code, None if both else b"")
