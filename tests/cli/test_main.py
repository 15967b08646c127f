"""Help, exit codes, streams and signals: what all verbs have in common."""

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from dragoman.cli.main import VERBS
from dragoman.config import DragomanError
from tests.command_calls import Result, complaint, python, run


@pytest.mark.parametrize("words", [[], *([verb] for verb in VERBS)], ids=" ".join)
def test_help_fits_80_columns_and_explains_every_option(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    result = run(*words, "--help")
    assert (result.code, result.err) == (0, "")
    assert max(map(len, result.out.splitlines())) <= 80
    shown = dict(re.findall(r"^  (--[\w.-]+)[^\n]*?(?:\n {24}|  +)(\S.*)", result.out, flags=re.MULTILINE))
    options = VERBS[words[0]].options if words else []
    positionals = VERBS[words[0]].positionals if words else ()
    assert {option.flag for option in options if option.name not in positionals} <= shown.keys()
    assert not [flag for flag, text in shown.items() if text.startswith("(")]


def test_the_overview_names_every_verb() -> None:
    shown = run("--help").out
    assert re.findall(r"^  (\w+) +\S", shown, flags=re.MULTILINE) == [*VERBS]
    assert run() == Result(2, shown, "")


def test_an_unknown_verb_names_the_nearest() -> None:
    assert "did you mean translate?" in complaint(2, "translat", "model")


def test_help_imports_nothing_heavy() -> None:
    code = "import sys\nfrom dragoman.cli.main import main\ntry: main(['train', '--help'])\nexcept SystemExit: pass\n"
    code += "sys.exit(sorted({'torch', 'sentencepiece', 'sacrebleu', 'numpy', 'rich'} & sys.modules.keys()) or 0)"
    process = python("-c", code)
    assert (process.communicate()[1], process.returncode) == (b"", 0)


def test_names_with_control_characters_are_told_on_one_line(tmp_path: Path) -> None:
    assert "line\\nbreak\\x1b[2J" in complaint(1, "translate", tmp_path / "line\nbreak\x1b[2J")


def test_bytes_that_are_no_text_are_refused() -> None:
    assert "folder is not text" in complaint(2, "translate", "caf\udce9")


def failing(error: BaseException) -> Callable[..., NoReturn]:
    def fail(*arguments: object) -> NoReturn:
        raise error

    return fail


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (DragomanError("no"), 1, "dragoman: no"),
        (MemoryError(), 1, "not enough memory"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), 1, "not enough memory"),
        (OSError(28, "No space left on device"), 1, "standard output: No space left"),
        (PermissionError(13, "Permission denied", "file"), 1, "file: Permission denied"),
    ],
)
def test_a_failure_is_one_sentence(error: Exception, code: int, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.cli.convert.average", failing(error))
    assert said in complaint(code, "average", "run", "--out", "model")


def test_ctrl_c_has_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.cli.convert.average", failing(KeyboardInterrupt()))
    assert run("average", "run", "--out", "model") == Result(130, "", "")


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="no terminal hangs up here")
@pytest.mark.parametrize("ignored", [True, False])
def test_a_verb_stops_with_its_terminal_unless_under_nohup(ignored: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN if ignored else signal.SIG_DFL)
    monkeypatch.setattr("dragoman.cli.convert.average", lambda config: signal.raise_signal(signal.SIGHUP) or 0)
    try:
        assert run("average", "run", "--out", "model").code == (0 if ignored else 129)
        assert signal.getsignal(signal.SIGHUP) is (signal.SIG_IGN if ignored else signal.SIG_DFL)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_closed_output_is_no_traceback() -> None:
    close = "import os, sys; os.close(1); os.execv(sys.executable, [sys.executable, '-m', 'dragoman', '--version'])"
    process = python("-c", close)
    assert process.communicate(timeout=60) == (b"", b"")
    assert process.returncode == 0


@pytest.mark.parametrize("words", [["train", "--help"], ["--version"]], ids=" ".join)
def test_the_reader_of_stdout_may_leave(words: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    process = python("-m", "dragoman", *words, stdout=writer)
    os.close(writer)
    assert (process.communicate()[1], process.returncode) == (b"", 0)
