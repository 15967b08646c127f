"""Messages on stderr: how they are wrapped, and how often progress is reported."""

import io
from pathlib import Path

import pytest

from dragoman.runtime.console import NowAndThen, command, say


def test_lines_are_reported_at_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, said = [100.0], list[str]()
    monkeypatch.setattr("dragoman.runtime.console.time.monotonic", lambda: clock[0])
    tell = NowAndThen(said.append, seconds=5.0)
    for now in (101.0, 104.9, 105.0, 106.0, 109.9, 117.0, 121.0, 122.0):
        clock[0] = now
        tell(f"{now:g}")
    assert said == ["105", "117", "122"]


class Terminal(io.StringIO):
    """A terminal of 30 columns."""

    def isatty(self) -> bool:
        return True


def said(line: str, patch: pytest.MonkeyPatch) -> str:
    """What a narrow terminal shows of it."""
    patch.setenv("COLUMNS", "30")
    terminal = Terminal()
    with patch.context() as here:
        here.setattr("sys.stderr", terminal)
        say(line)
    return terminal.getvalue()


def test_on_a_terminal_lines_are_wrapped_between_words_and_stay_indented(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = said("    one two three four five six seven eight nine\n  ten", monkeypatch).splitlines()
    assert max(map(len, lines)) <= 30
    assert " ".join(lines).split() == ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
    assert [len(line) - len(line.lstrip()) for line in lines] == [4, 4, 2]


@pytest.mark.parametrize(
    "line",
    [
        "/a/path/that-is-far/longer-than/the_terminal.txt",
        "dragoman: x: a marian model; first: dragoman import x --out MODEL",
    ],
)
def test_paths_and_commands_are_not_wrapped(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert said(line, monkeypatch) == line + "\n"


def test_a_command_names_the_program_as_it_was_called(monkeypatch: pytest.MonkeyPatch) -> None:
    for called, program in {"/x/bin/dragoman": "/x/bin/dragoman", "/x/bin/pytest": "dragoman"}.items():
        monkeypatch.setattr("sys.argv", [called])
        assert command("check", Path("a b")) == f"{program} check 'a b'"


def test_lines_in_files_are_not_wrapped(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    say("word " * 30)
    assert capsys.readouterr().err == "word " * 30 + "\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device here that is always full")
def test_a_full_stderr_does_not_stop_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    with Path("/dev/full").open("w") as full, monkeypatch.context() as patch:
        patch.setattr("sys.stderr", full)
        say("lost")
        say("lost, too")
