"""Disks that fill up and break: nothing is half-written, and the next attempt succeeds.

Here at moments chosen once; `benchmarks/fuzz.py` tries every moment.
"""

import builtins
import errno
import io
import json
import os
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest

from dragoman.checkpoint import ModelFolder, read_weights
from dragoman.folder import MODEL_FILES, WEIGHTS_FILE
from tests.fuzz.cases import prepared
from tests.fuzz.faults import full_disk
from tests.fuzz.running import Outcome, assert_nothing_half_written, command, contents, fresh_folder, refused
from tests.sample_run import run_folder, same_weights, training

FAILURES = {
    "open": errno.EACCES,
    "create": errno.ENOSPC,
    "read": errno.EIO,
    "write": errno.ENOSPC,
    "fsync": errno.EIO,
    "rename": errno.EACCES,
    "mkdir": errno.ENOSPC,
}
LASTING = ("create", "write", "fsync")
"""Failures that may last: of a disk that is full, or broken."""


class Disk:
    """Counts what Python asks of the disk below a folder, and fails at one call, or from that one on."""

    def __init__(self, folder: Path, kind: str = "", number: int = 0, lasting: bool = False) -> None:
        self.counts: Counter[str] = Counter()
        self._folder, self._kind, self._number, self._lasting = str(folder), kind, number, lasting

    def ask(self, kind: str, path: object) -> None:
        """Count a call, or let it fail; like the system, name the file only where a name was given."""
        if not (path is None or str(path).startswith(self._folder)):
            return
        self.counts[kind] += 1
        at = self.counts[kind]
        if kind == self._kind and (at == self._number or (self._lasting and at > self._number)):
            code = FAILURES[kind]
            names = () if kind in ("read", "write", "fsync") else (str(path),)
            raise OSError(code, os.strerror(code), *names)


class FaultyFile(io.FileIO):
    """A file on a Disk."""

    disk: ClassVar[Disk]

    def write(self, data: Any) -> int:
        self.disk.ask("write", self.name)
        return super().write(data)

    def readinto(self, buffer: Any) -> int:
        self.disk.ask("read", self.name)
        return super().readinto(buffer)

    def readall(self) -> bytes:
        self.disk.ask("read", self.name)
        return super().readall()


@contextmanager
def faulty(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whatever Python opens, makes or renames is on that disk."""
    real_open, real_path_open = io.open, Path.open

    def opened(file: Any, mode: str = "r", buffering: int = -1, *rest: Any, **more: Any) -> Any:
        if isinstance(file, int) or more.get("opener") or not str(os.fspath(file)).startswith(disk._folder):
            return real_open(file, mode, buffering, *rest, **more)
        disk.ask("open" if "r" in mode else "create", os.fspath(file))
        raw = FaultyFile(os.fspath(file), mode.replace("b", "").replace("t", ""))
        writes = raw.writable()
        buffered: Any = io.BufferedRandom(raw) if writes and raw.readable() else None
        buffered = buffered or (io.BufferedWriter(raw) if writes else io.BufferedReader(raw))
        if "b" in mode:
            return raw if buffering == 0 else buffered
        encoding = rest[0] if rest else more.get("encoding")
        errors = rest[1] if len(rest) > 1 else more.get("errors")
        return io.TextIOWrapper(buffered, encoding or "utf-8", errors)

    def asked(kind: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def ask(path: Any, *rest: Any, **more: Any) -> Any:
            disk.ask(kind, None if isinstance(path, int) else os.fspath(path))
            return call(path, *rest, **more)

        return ask

    FaultyFile.disk = disk
    with monkeypatch.context() as patch:
        for module in (io, builtins):
            patch.setattr(module, "open", opened)
        patch.setattr(Path, "open", lambda path, *rest, **more: opened(path, *rest, **more))
        for name, kind in (("fsync", "fsync"), ("replace", "rename"), ("rename", "rename"), ("mkdir", "mkdir")):
            patch.setattr(os, name, asked(kind, getattr(os, name)))
        yield
    assert (io.open, Path.open) == (real_open, real_path_open)


# ---- the commands that are disturbed


def prepare(folder: Path) -> None:
    """A text, a run in the middle, and a report, a page and a model from before."""
    shutil.copytree(run_folder(), folder, dirs_exist_ok=True)
    shutil.copytree(folder / "run", folder / "mean", ignore=lambda _, names: {*names} - {*MODEL_FILES})
    settings = json.loads((folder / "mean" / "config.json").read_text())
    settings["facts"]["average_of"] = "others"  # only an earlier average may be replaced
    (folder / "mean" / "config.json").write_text(json.dumps(settings))
    for name, content in (("report.json", "{\n}"), ("page.html", "<!doctype html>")):
        (folder / name).write_text(content)


COMMANDS: dict[str, Callable[[Path], list[object]]] = {
    "train from the beginning": lambda folder: training(folder, "new", 3),
    "train on": lambda folder: training(folder, "run", 3),
    "average": lambda folder: ["average", folder / "done", "--out", folder / "mean", "--last", 2],
    "evaluate": lambda folder: (
        ["evaluate", folder / "run", "--test", folder / "valid", "--json", folder / "report.json", "--max-length", 3]
    ),
    "inspect": lambda folder: ["inspect", folder / "run", "The house", "--out", folder / "page.html"],
    "check": lambda folder: (
        ["check", "--source", "en", "--target", "de", "--train", folder / "train", "--json", folder / "report.json"]
    ),
    "translate": lambda folder: ["translate", folder / "run", folder / "valid.en", "--max-length", 3],
}
WRITTEN = {
    "train from the beginning": "new",
    "train on": "run",
    "average": "mean",
    "evaluate": "report.json",
    "inspect": "page.html",
    "check": "report.json",
    "translate": "nothing",
}


def result(name: str, folder: Path, outcome: Outcome) -> object:
    """What a command has achieved, to be compared."""
    place = folder / WRITTEN[name]
    if not place.is_dir():
        return (place.read_text() if place.exists() else outcome.out).replace(str(folder), "")
    weights = [place / WEIGHTS_FILE, *sorted(place.glob("checkpoints/step-*.safetensors"))]
    return {path.name: read_weights(path) for path in weights}


def equal(first: object, second: object) -> bool:
    """Whether two results are the same."""
    if not (isinstance(first, dict) and isinstance(second, dict)):
        return first == second
    return first.keys() == second.keys() and all(same_weights(first[key], second[key]) for key in first)


@pytest.fixture(scope="module", autouse=True)
def _run_to_disturb() -> Iterator[None]:
    with prepared():
        run_folder()
        yield


def undisturbed(name: str, monkeypatch: pytest.MonkeyPatch) -> tuple[object, Counter[str]]:
    """The result of a command, and what it asks of the disk."""
    with fresh_folder() as folder:
        prepare(folder)
        disk = Disk(folder)
        with faulty(disk, monkeypatch):
            outcome = command(*COMMANDS[name](folder))
        assert outcome.code == 0, outcome
        return result(name, folder, outcome), disk.counts


def disturb(name: str, kind: str, number: int, lasting: bool, wanted: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let one call fail; what was there is intact, and the same command succeeds when the disk is well again."""
    what = (name, kind, number, lasting)
    with fresh_folder() as folder:
        prepare(folder)
        before = contents(folder)
        with faulty(Disk(folder, kind, number, lasting), monkeypatch):
            outcome = command(*COMMANDS[name](folder))
        if refused(outcome, folder.name, talks=True):
            assert_intact(name, folder, before)
        else:
            assert equal(result(name, folder, outcome), wanted), what
        assert_nothing_half_written(folder)
        outcome = command(*COMMANDS[name](folder))
        assert outcome.code == 0, (what, outcome)
        assert equal(result(name, folder, outcome), wanted), what


def assert_intact(name: str, folder: Path, before: dict[str, bytes]) -> None:
    """What a command does not write is as before; what it writes is as before, or whole."""
    after, place = contents(folder), WRITTEN[name]
    for path, content in before.items():
        if path == place or not path.startswith(f"{place}/"):
            assert after.get(path) == content, path
    if (folder / place / WEIGHTS_FILE).exists():
        ModelFolder.load(folder / place)


def test_the_disk_of_these_tests_is_asked_and_can_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in (1, 2):
        with faulty(disk := Disk(tmp_path, "write", 1), monkeypatch):
            if number == 1:
                with pytest.raises(OSError, match="No space left"):
                    (tmp_path / "a").write_text("x")
            else:
                (tmp_path / "b").touch()
        assert disk.counts["create"] == 2 - number


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("lasting", [False, True])
def test_one_failure_in_many_places(name: str, lasting: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted, counts = undisturbed(name, monkeypatch)
    moments = [(kind, number + 1) for kind in FAILURES for number in range(counts[kind])]
    assert len(moments) >= 5, counts
    for kind, number in random.Random(7).sample(moments, min(len(moments), 5)):
        disturb(name, kind, number, lasting, wanted, monkeypatch)


# ---- disks that are really full


@pytest.mark.parametrize("name", ["train from the beginning", "train on", "average", "evaluate", "inspect", "check"])
def test_where_no_file_may_grow(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted, _ = undisturbed(name, monkeypatch)
    for room in (10_000, 20_000, 100_000):  # more than what the commands say
        with fresh_folder() as folder:
            prepare(folder)
            before = contents(folder)
            with full_disk(room):
                outcome = command(*COMMANDS[name](folder))
            if refused(outcome, folder.name, talks=True):
                assert_intact(name, folder, before)
            else:
                assert equal(result(name, folder, outcome), wanted), room
            assert_nothing_half_written(folder)
            outcome = command(*COMMANDS[name](folder))
            assert equal(result(name, folder, outcome), wanted), room
