"""What the fuzz tests are made of: running a command, judging how it ended, and strategies that damage bytes and files.

Anything but a clear refusal or a correct result is an AssertionError.
"""

import io
import json
import math
import os
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, Protocol, TypeVar

from hypothesis import strategies as st

from dragoman.cli.main import main

_T = TypeVar("_T")

SECONDS = 60.0
"""A command that takes longer hangs."""


class Draw(Protocol):
    """Takes a value from a strategy."""

    def __call__(self, strategy: st.SearchStrategy[_T]) -> _T:
        """The value."""


# ---- running a command


class Hang(BaseException):
    """A command did not come to an end."""


@dataclass(frozen=True)
class Outcome:
    """How a command ended."""

    code: int
    out: str
    err: str
    crash: str = ""
    """The traceback of an exception that came through."""


def command(*arguments: object, stdin: bytes = b"") -> Outcome:
    """Run the command line in this process; all that it writes, also from C++, is caught."""
    streams, copies = (sys.stdin, sys.stdout, sys.stderr), [os.dup(1), os.dup(2)]
    code, crash = -1, ""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            sys.stdin = io.TextIOWrapper(io.BytesIO(stdin))
            sys.stdout, sys.stderr = (open(fd, "w", encoding="utf-8", closefd=False) for fd in (1, 2))  # noqa: SIM115
            with _time_limit():
                code = main([str(argument) for argument in arguments])
        except SystemExit as leave:
            code = leave.code if isinstance(leave.code, int) else 99
        except (Exception, Hang):
            crash = traceback.format_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            sys.stdin, sys.stdout, sys.stderr = streams
            for number, copy in enumerate(copies, start=1):
                os.dup2(copy, number)
                os.close(copy)
        out.seek(0)
        err.seek(0)
        return Outcome(code, out.read().decode(errors="replace"), err.read().decode(errors="replace"), crash)


@contextmanager
def _time_limit() -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> NoReturn:
        raise Hang(f"still running after {SECONDS:.0f} seconds")

    handler = signal.signal(signal.SIGALRM, stop)
    remaining, _ = signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, remaining)
        signal.signal(signal.SIGALRM, handler)


@contextmanager
def fresh_folder() -> Iterator[Path]:
    """An empty folder, in memory where that is possible; the working directory while the case runs."""
    memory = "/dev/shm"
    folder = Path(tempfile.mkdtemp(prefix="dragoman-fuzz-", dir=memory if os.access(memory, os.W_OK) else None))
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield folder
    finally:
        os.chdir(before)
        shutil.rmtree(folder, ignore_errors=True)


# ---- judging


def refused(outcome: Outcome, *names: str, talks: bool = False) -> bool:
    """Whether a command refused its work as it should; False where it did it.

    Args:
        outcome: of the command.
        names: files and settings, one of which a refusal must name; none: any will do.
        talks: whether the command also tells on stderr what it is doing.

    Raises:
        AssertionError: it crashed, hung, complained unclearly or not at all.
    """
    assert not outcome.crash, outcome.crash
    assert "Traceback" not in outcome.err + outcome.out, outcome.err
    lines = outcome.err.split("\n")
    if outcome.code == 0:
        assert not any(line.startswith("dragoman") for line in lines), outcome
        return False
    assert outcome.code in (1, 2), outcome
    assert lines.pop() == "", outcome
    assert lines, outcome
    assert lines[-1].startswith("dragoman"), outcome
    assert sum(line.startswith("dragoman") for line in lines) == 1, outcome
    assert talks or len(lines) == 1, outcome
    assert len(lines[-1]) > 25, outcome
    assert not any(noise in lines[-1] for noise in ("<class", "object at 0x", "[Errno", "dragoman: :")), outcome
    assert not names or any(name in lines[-1] for name in names), (names, outcome)
    return True


def assert_nothing_half_written(folder: Path) -> None:
    """No temporary file or folder is left."""
    left = [str(path) for path in folder.rglob("*.partial")]
    assert not left, left


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, by its path in it."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


# ---- damaged bytes

TEXTS = st.text(
    st.one_of(
        st.sampled_from("aeiou nrst.,ÄäßéèАя日本語한🙂"),
        st.sampled_from("\t\r\x00\x07\x0b\x0c\x1b\x1c\x85\xa0\xad\u0301\u200b\u2028\u2029\u202e\ufeff\ufffd▁"),
        st.characters(exclude_categories=("Cs",), exclude_characters="\n"),
    ),
    max_size=30,
)
"""Lines of text with everything that is not a line feed."""

# fmt: off
NOISE = st.sampled_from([
    b"\r", b"\r\n", b"\n", b"\n\n\n", b"\x00", b"\xff", b"\xfe\xff", b"\xed\xa0\x80", b"\xc3", b"\xef\xbb\xbf", b"\t",
    b"\t\t\t", b"\xe2\x80\xa8", b"\xc2\x85", b'"', b"\\", b"\\ud800", b"{", b"}", b"[[[", b"null", b"\x1f\x8b",
    "ſﬀ".encode(), b" " * 3000, b"word " * 3000, b"a" * 20000, b"[" * 50000,
])
# fmt: on
"""Bytes to put where they do not belong."""


def _at(data: bytes, share: float) -> int:
    return min(int(share * (len(data) + 1)), len(data))


SHARES = st.floats(0, 1, exclude_max=True)


@st.composite
def damaged_bytes(draw: Callable[..., Any], data: bytes) -> bytes:
    """The bytes with one thing wrong."""
    how = draw(st.sampled_from(["flip", "cut", "insert", "zero", "swap", "append", "drop", "random", "empty"]))
    first, second = sorted((_at(data, draw(SHARES)), _at(data, draw(SHARES))))
    if how == "flip" and data:
        place = min(first, len(data) - 1)
        return data[:place] + bytes([data[place] ^ 1 << draw(st.integers(0, 7))]) + data[place + 1 :]
    if how == "cut":
        return data[:first]
    if how == "insert":
        return data[:first] + draw(NOISE) + data[first:]
    if how == "zero":
        return data[:first] + bytes(second - first) + data[second:]
    if how == "swap":
        middle = (first + second) // 2
        return data[:first] + data[middle:second] + data[first:middle] + data[second:]
    if how == "append":
        return data + draw(NOISE)
    if how == "drop":
        return data[:first] + data[second:]
    return draw(st.binary(max_size=200)) if how == "random" else b""


def damage_bytes(draw: Draw, data: bytes, most: int = 3) -> bytes:
    """The bytes with some things wrong, perhaps none."""
    for _ in range(draw(st.integers(0, most))):
        data = draw(damaged_bytes(data))
    return data


# ---- damaged values

# fmt: off
_ODD = st.sampled_from([
    None, True, False, -1, 0, 1, 2, 3, 7, 10**6, 10**30, -(10**18), 0.5, -0.0, 1e-300, 1e300, math.nan, math.inf,
    -math.inf, "", " ", "x", "nan", "1", "-1", "true", "null", "[1, 2]", "…", "a\x00b", "../..", "\u2028", "\ud800",
    "a" * 5000, "1" * 5000, [], {}, [[]], [None], {"": None}, {"x": {"y": []}}, ["a", 1],
])
# fmt: on
NASTY = st.one_of(_ODD, st.integers(), st.floats(), TEXTS)
"""Values that a setting should not have, most of the time."""


def damage_value(draw: Draw, value: Any) -> Any:
    """A nested value with one thing in it wrong: another value, another name, one more or one less."""
    if isinstance(value, dict) and value and draw(st.integers(0, 3)):
        name = draw(st.sampled_from(sorted(value, key=str)))
        how = draw(st.sampled_from(["into", "into", "into", "drop", "rename", "add"]))
        others = {key: inner for key, inner in value.items() if key != name}
        if how == "into":
            return others | {name: damage_value(draw, value[name])}
        if how == "drop":
            return others
        new = draw(st.sampled_from([f"{name}_", str(name).upper(), "x", "", "é", "a.b", "__class__"]))
        return (others if how == "rename" else value) | {new: value[name]}
    if isinstance(value, list) and value and draw(st.booleans()):
        place = draw(st.integers(0, len(value) - 1))
        return [*value[:place], damage_value(draw, value[place]), *value[place + 1 :]]
    return draw(NASTY)


def damage_json(draw: Draw, data: bytes) -> bytes:
    """A JSON file with one value wrong, or nested too deeply."""
    if not draw(st.integers(0, 9)):
        return b"[" * 100_000 + b"]" * draw(st.sampled_from([0, 100_000]))
    return json.dumps(damage_value(draw, json.loads(data)), ensure_ascii=draw(st.booleans())).encode(
        errors="surrogatepass"
    )


# ---- damaged files


def damage_file(draw: Draw, path: Path, others: list[Path]) -> str:
    """Do something to a file; returns what.

    Args:
        draw: chooses.
        path: the file.
        others: files to swap it with.
    """
    kinds = ["bytes"] * 5 + ["remove", "folder", "swap", "copy", "dangling", "loop"]
    kinds += ["json"] * 4 if path.suffix == ".json" else []
    how = draw(st.sampled_from(kinds))
    other = draw(st.sampled_from(others)) if others else path
    if how == "bytes":
        path.write_bytes(draw(damaged_bytes(path.read_bytes())))
    elif how == "json":
        with suppress(ValueError):
            path.write_bytes(damage_json(draw, path.read_bytes()))
    elif how == "swap":
        mine, its = path.read_bytes(), other.read_bytes()
        path.write_bytes(its)
        other.write_bytes(mine)
    elif how == "copy":
        path.write_bytes(other.read_bytes())
    else:
        path.unlink()
        if how == "folder":
            path.mkdir()
        elif how == "dangling":
            path.symlink_to("nowhere")
        elif how == "loop":
            path.symlink_to(path.name)
    return how
