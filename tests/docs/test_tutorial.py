"""The pages that teach: what they tell the reader to type works, and prints what they say it prints."""

import csv
import io
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from dragoman.cli.main import VERBS, main
from dragoman.text.corpus import read_pairs
from tools.phrasebook.frames import frames, sentences

from .commands import DOCS, blocks, commands, shell

TUTORIAL, SEARCH, FIRST, GLOSSARY = (
    DOCS / f"{name}.md" for name in ("tutorial", "search", "first-translator", "glossary")
)
TRAINING = "## Training"  # from this heading on the tutorial takes longer
ABOUT = re.compile(r"([≈~])((?:\s+-?[\d.]*\d)+)")
"""Numbers from training, which amplifies rounding: after ≈ they may differ a little, after ~ they may be any."""


# ---------------------------------------------------------------------------------------------- the code of a page


@dataclass(frozen=True)
class Snippet:
    """One piece of Python on a page, and what the page says it prints."""

    line: int
    code: str
    printed_at: int
    printed: str


def snippets(text: str) -> Iterator[Snippet]:
    """The ```python fences of a page; a ```text fence right after one is its output."""
    pattern = r"^```python\n(?P<code>.*?)^```\n(?:\n```text\n(?P<printed>.*?)^```\n)?"
    for found in re.finditer(pattern, text, re.S | re.M):
        code_line, output_line = (text.count("\n", 0, found.start(group)) + 1 for group in ("code", "printed"))
        yield Snippet(code_line, found["code"], output_line, found["printed"] or "")


def difference(expected: str, actual: str) -> tuple[int, str] | None:
    """The first line, from 0, at which an output is not the expected one, and how; None where it is."""
    wanted, got = expected.rstrip("\n").split("\n"), [line.rstrip() for line in actual.rstrip("\n").split("\n")]
    for number in range(max(len(wanted), len(got))):
        left, right = (lines[number] if number < len(lines) else "nothing" for lines in (wanted, got))
        if left != right and not alike(left, right):
            return number, f"the page says\n    {left}\nbut it prints\n    {right}"
    return None


def alike(left: str, right: str) -> bool:
    """Whether two lines are equal but for the numbers after ≈ and ~, and those after ≈ are close."""
    if ABOUT.sub(r"\1", left) != ABOUT.sub(r"\1", right):
        return False
    for (sign, wanted), (_, got) in zip(ABOUT.findall(left), ABOUT.findall(right), strict=True):
        numbers = [[float(number) for number in run.split()] for run in (wanted, got)]
        if len(numbers[0]) != len(numbers[1]):
            return False
        if sign == "≈" and numbers[1] != pytest.approx(numbers[0], rel=0.25, abs=0.1):
            return False
    return True


def run(page: Path, until: str = "") -> None:
    """Execute a page from top to bottom, as a reader would, and compare what it prints with what it says.

    Args:
        page: the page.
        until: stop at this text.
    """
    text = page.read_text(encoding="utf-8")
    text = text[: text.index(until)] if until else text
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for snippet in snippets(text):
        code = compile("\n" * (snippet.line - 1) + snippet.code, str(page), "exec", dont_inherit=True)
        printed = io.StringIO()
        try:
            with redirect_stdout(printed):
                exec(code, namespace)
        except Exception as error:
            raise AssertionError(f"{page.name}, line {snippet.line}: {type(error).__name__}: {error}") from error
        if found := difference(snippet.printed, printed.getvalue()):
            line, how = found
            pytest.fail(f"{page.name}, line {(snippet.printed_at if snippet.printed else snippet.line) + line}: {how}")


@pytest.fixture(autouse=True)
def a_reader_s_desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty folder to work in; PyTorch's random numbers as they were afterwards."""
    monkeypatch.chdir(tmp_path)
    with torch.random.fork_rng(devices=[]):
        yield


def test_the_tutorial_up_to_its_training() -> None:
    run(TUTORIAL, until=TRAINING)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_tutorial_from_top_to_bottom() -> None:
    # In a process of its own, as a reader's: what it prints of a trained model must not depend on other tests. It does
    # depend on the number of threads, which add up sums in another order.
    program = "import sys; sys.path.insert(0, sys.argv[1]); import tests.docs.test_tutorial as t; t.run(t.TUTORIAL)"
    command = [sys.executable, "-c", program, str(Path(__file__).resolve().parents[2])]
    two = os.environ | {"OMP_NUM_THREADS": "2"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=two)
    assert done.returncode == 0, done.stderr
    picture = Path("soixante-douze.png").read_bytes()
    assert picture.startswith(b"\x89PNG")


def test_the_page_about_search() -> None:
    run(SEARCH)


@pytest.mark.parametrize("page", [TUTORIAL, SEARCH], ids=lambda page: page.stem)
def test_every_output_on_a_page_is_that_of_a_snippet(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    checked = [snippet for snippet in snippets(text) if snippet.printed]
    assert len(checked) == len(re.findall(r"^```text$", text, re.M)) > 5


# ---------------------------------------------------------------------------------------- the first translator


@pytest.fixture(scope="module")
def pairs() -> list[tuple[str, str]]:
    """Some sentences of every kind that the phrasebook has, in both languages, in random order."""
    some = [(s.english, s.french) for frame in frames() for s in islice(sentences(frame, seed=1), 30)]
    Random(1).shuffle(some)
    return some


@pytest.mark.parametrize("page", [FIRST, SEARCH], ids=lambda page: page.stem)
def test_every_command_is_one_that_the_command_line_takes(
    page: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    called: list[object] = []
    verbs = SimpleNamespace(
        **{each.function or verb: lambda config: called.append(config) or 0 for verb, each in VERBS.items()}
    )
    monkeypatch.setattr("dragoman.cli.main.importlib", SimpleNamespace(import_module=lambda name: verbs))
    calls = [c.partition("dragoman ")[2].partition(" >")[0] for c in commands(page) if "dragoman " in c]
    for call in calls:
        try:
            assert main(shlex.split(call)) == 0, capsys.readouterr().err
        except SystemExit:
            pytest.fail(f"{page.name}: dragoman {call}\n{capsys.readouterr().err}")
    assert len(called) == len(calls) > 0


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_first_translator_in_the_page_s_own_words(pairs: list[tuple[str, str]]) -> None:
    for language, side in (("en", 0), ("fr", 1)):
        Path(f"all.{language}").write_text("".join(pair[side] + "\n" for pair in pairs), encoding="utf-8")
    Path("letter.en").write_text("Where is the station, please?\n\nHello!\n", encoding="utf-8")
    lines = commands(FIRST)
    split = lines[: next(i for i, line in enumerate(lines) if line.startswith("make"))]
    for command in split:
        shell(command, Path())
    test, valid, train = (list(read_pairs([name], "en", "fr")) for name in ("test", "valid", "train"))
    assert all(300 < len(part) < 500 for part in (test, valid))  # a tenth of so short a text
    left_out = set(pairs).difference(test, valid, train)
    assert len(left_out) < 10
    assert {target for _, target in left_out} <= {target for _, target in test + valid}
    for language in ("en", "fr"):  # an untrained model takes its time
        shell(f"head -n 20 test.{language} > few.{language} && mv few.{language} test.{language}", Path())
    small = " --max-steps 2 --validation.every 2 --validation.max-lines 5 --model.d-model 32 --model.d-ff 64"
    printed = [
        shell(command + small * ("dragoman train" in command), Path())
        for command in lines[len(split) :]
        if "dragoman " in command
    ]
    _, echoed, _, three, as_json, kept, scores, _, aligned, _, _ = printed
    assert echoed.count("\n") == 1
    letter = Path("letter.fr").read_text(encoding="utf-8")
    assert letter.count("\n") == 3
    assert letter.split("\n")[1] == ""
    assert [line.partition(" ||| ")[0] for line in three.splitlines()] == [*"000", "1", *"222"]
    assert [set(json.loads(line)) >= {"text", "score"} for line in as_json.splitlines()] == [True] * 3
    assert [kept.count(one) for one in ("{name}", "<b>", "%d", "</b>")] == [1, 1, 1, 1]
    shapes = [re.sub(r"[\d.]+(?=  nrefs)", "#", line) for line in scores.splitlines()]
    quoted = [re.sub(r"[\d.]+(?=  nrefs)", "#", line) for line in blocks(FIRST, "text")[-1].splitlines()]
    assert shapes == quoted
    assert len(json.loads(Path("scores.json").read_text(encoding="utf-8"))["lines"]) == 20
    assert Path("page.html").read_text(encoding="utf-8").startswith("<!")
    assert aligned.splitlines()[1].strip() == "|||"
    assert {path.name for path in Path("models").iterdir()} == {"en-fr", "en-fr-dropout"}
    assert Path("en-fr.ct2", "model.bin").is_file()


def test_failures_are_told_in_these_words(pairs: list[tuple[str, str]], capsys: pytest.CaptureFixture[str]) -> None:
    english, french = ([pair[side] + "\n" for pair in pairs[:100]] for side in (0, 1))
    Path("bad.en").write_text("".join(english), encoding="utf-8")
    Path("bad.fr").write_text("".join(french[:40] + french[41:]), encoding="utf-8")
    Path("latin.en").write_text("".join(english), encoding="utf-8")
    Path("latin.fr").write_bytes("".join(french).encode("latin1", errors="replace"))
    Path("words.tsv").write_text("no tab here\n", encoding="utf-8")
    page = FIRST.read_text(encoding="utf-8")
    for text in ("bad", "latin", "words.tsv"):
        assert main(["train", "--source", "en", "--target", "fr", "--train", text, "--out", "model"]) == 1
        said = capsys.readouterr().err.splitlines()[-1]
        assert f"`{said.removeprefix('dragoman: ')}`" in page, said


def test_a_spreadsheet_becomes_the_text_that_was_typed_into_it() -> None:
    typed = [('She said: "No."', "Elle a dit : « Non. »"), ("one\ntwo\tthree", "l’été\u202f!"), ("plain", "simple")]
    with Path("table.txt").open("w", encoding="utf-16", newline="") as table:
        csv.writer(table, "excel-tab").writerows(typed)
    snippet, _ = snippets(FIRST.read_text(encoding="utf-8"))
    exec(snippet.code, {})
    expected = [tuple(re.sub(r"[\n\t]", " ", cell) for cell in row) for row in typed]
    assert list(read_pairs(["all.tsv"], "en", "fr")) == expected


def test_a_translation_memory_becomes_its_sentences_in_two_languages() -> None:
    english = '<tuv xml:lang="en-GB"><seg>Press <bpt i="1">&lt;b&gt;</bpt>Start<ept i="1"/>\n now.</seg></tuv>'
    french = '<tuv xml:lang="FR"><prop type="x">y</prop><seg>Appuyez sur « Démarrer » &amp; attendez.</seg></tuv>'
    german = '<tuv xml:lang="de-DE"><seg>Jetzt starten.</seg></tuv>'
    units = "".join(f"<tu>{unit}</tu>" for unit in (german + french + english, german + french, english + french))
    page = f'<!DOCTYPE tmx SYSTEM "tmx14.dtd"><tmx version="1.4"><header/><body>{units}</body></tmx>'
    Path("memory.tmx").write_text(page, encoding="utf-16")
    _, snippet = snippets(FIRST.read_text(encoding="utf-8"))
    exec(snippet.code, {})
    expected = ("Press Start now.", "Appuyez sur « Démarrer » & attendez.")
    assert list(read_pairs(["all.tsv"], "en", "fr")) == [expected, expected]


# ------------------------------------------------------------------------------------------------- the glossary


def test_the_glossary_is_in_the_order_of_the_alphabet_and_explains_everything_once() -> None:
    terms = re.findall(r"^### (.*)", GLOSSARY.read_text(encoding="utf-8"), re.M)
    plain = [re.sub(r"[^\w ]", "", term).casefold() for term in terms]
    assert len(plain) > 60
    assert plain == sorted(set(plain))
