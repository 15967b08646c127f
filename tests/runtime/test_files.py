"""Writing files: the earlier file survives any failure, and files are always whole."""

import errno
import os
import re
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import NoReturn

import pytest

from dragoman.config import ConfigError, DragomanError
from dragoman.runtime.files import make_folder, prepare_reports, remove_leftovers, write_atomically, write_together
from tests.fuzz.faults import complaint, contents, full_disk, no_space


class Crash(BaseException):
    """The process is gone: nobody tidies up."""


# ---- replacing a file


def test_a_file_gets_its_content_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for content in (b"before", b"after", b""):
        write_atomically(path, content)
        assert contents(tmp_path) == {str(path): content}


@pytest.mark.parametrize("room", [0, 100])
def test_a_disk_that_fills_up_leaves_the_earlier_file_and_nothing_else(room: int, tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"before")
    with full_disk(room):
        message = complaint(lambda: write_atomically(path, b"x" * 100_000))
    assert str(path) in message
    assert "what was there before is intact" in message
    assert contents(tmp_path) == {str(path): b"before"}


@pytest.mark.skipif(os.name != "posix", reason="elsewhere folders can't be flushed")
def test_content_is_on_the_disk_before_it_takes_its_place_and_the_name_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    flushed: list[tuple[str, bool]] = []

    def fsync(descriptor: int) -> None:
        state = os.fstat(descriptor)
        what = "folder" if os.path.samestat(state, tmp_path.stat()) else f"{state.st_size} bytes"
        flushed.append((what, path.exists()))

    monkeypatch.setattr(os, "fsync", fsync)
    write_atomically(path, b"12345")
    assert flushed == [("5 bytes", False), ("folder", True)]
    assert path.read_bytes() == b"12345"


def test_a_folder_that_can_not_be_flushed_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def files_alone(descriptor: int) -> None:
        if os.path.samestat(os.fstat(descriptor), tmp_path.stat()):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    monkeypatch.setattr(os, "fsync", files_alone)
    write_atomically(tmp_path / "file", b"content")
    assert contents(tmp_path) == {str(tmp_path / "file"): b"content"}


@pytest.mark.parametrize("moment", ["fsync", "replace"])
def test_a_crash_leaves_the_earlier_file_and_the_next_attempt_succeeds(
    moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"before")

    def crash(*arguments: object) -> NoReturn:
        raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(*{"fsync": (os, "fsync", crash), "replace": (Path, "replace", crash)}[moment])
        with pytest.raises(Crash):
            write_atomically(path, b"much longer than what comes after")
    assert path.read_bytes() == b"before"
    write_atomically(path, b"after")
    assert contents(tmp_path) == {str(path): b"after"}


def test_a_link_stays_one_and_what_it_points_to_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    target, link = tmp_path / "elsewhere" / "file", tmp_path / "link"
    target.write_bytes(b"before")
    link.symlink_to(target)
    write_atomically(link, b"after")
    assert link.is_symlink()
    assert target.read_bytes() == b"after"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_a_pipe_takes_the_bytes_and_stays_a_pipe(tmp_path: Path) -> None:
    pipe, received = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()))
    reader.start()
    write_atomically(pipe, b"through")
    reader.join()
    assert received == [b"through"]
    assert pipe.is_fifo()


# ---- names of files that are being written


WRITING = """
import sys
from pathlib import Path
from dragoman.runtime.files import appearing, write_atomically, write_together
folder, content = Path(sys.argv[1]), sys.argv[2].encode() * 100_000
for _ in range(20):
    write_atomically(folder / "one", content)
    write_together({folder / "two": content, folder / "three": content})
    with appearing(folder / "four", folder / "five") as files:
        for file in files:
            file.write(content)
"""


def test_processes_that_write_the_same_files_leave_one_or_the_other(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITING, str(tmp_path)]
    processes = [subprocess.Popen([*command, mark], stderr=subprocess.PIPE, text=True) for mark in "ab"]
    for process in processes:
        said = process.communicate(timeout=120)[1]
        assert process.returncode == 0, said
    found = {Path(path).name: content for path, content in contents(tmp_path).items()}
    assert found.keys() == {"one", "two", "three", "four", "five"}
    assert all(content in {mark.encode() * 100_000 for mark in "ab"} for content in found.values())


def test_leftovers_of_killed_processes_are_removed_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").mkdir()
    gone = [tmp_path / "file.0123abcd.partial", tmp_path / "checkpoints" / "step.pt.ffffffff.partial"]
    kept = [tmp_path / "file", tmp_path / "file.partial", tmp_path / "my.download.partial"]
    for path in (*gone, *kept):
        path.touch()
    remove_leftovers(tmp_path)
    assert {*contents(tmp_path)} == {str(path) for path in kept}


@pytest.mark.skipif(os.name != "posix", reason="no such modes elsewhere")
def test_new_files_have_the_mode_of_the_umask(tmp_path: Path) -> None:
    for mask, mode in ((0o022, 0o644), (0o077, 0o600), (0o002, 0o664)):
        before = os.umask(mask)
        try:
            write_atomically(tmp_path / "file", b"x")
            write_together({tmp_path / "another": b"x"})
        finally:
            os.umask(before)
        assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {mode}


# ---- folders


def test_a_folder_that_cannot_be_made_or_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        assert str(folder) in complaint(lambda folder=folder: make_folder(folder))  # type: ignore[misc]
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert "read-only" in complaint(lambda: make_folder(tmp_path / "folder"))


# ---- several files, and reports


def test_several_files_are_replaced_all_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [tmp_path / name for name in "abc"]
    write_together(dict.fromkeys(paths, b"before"))
    before = contents(tmp_path)
    assert list(before.values()) == [b"before"] * 3
    for number in range(3):
        calls: list[int] = []

        def fail(descriptor: int, number: int = number, calls: list[int] = calls) -> None:
            calls.append(descriptor)
            if len(calls) > number:
                no_space(descriptor)

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", fail)
            assert str(paths[number]) in complaint(lambda: write_together(dict.fromkeys(paths, b"after")))
        assert contents(tmp_path) == before
    write_together(dict.fromkeys(paths, b"after"))
    assert set(contents(tmp_path).values()) == {b"after"}


def test_a_place_for_a_report_is_checked_before_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "old").write_text("{\n}")
    new = {"--a": str(tmp_path / "new"), "--b": str(tmp_path / "old"), "--c": str(tmp_path / "deep" / "er" / "new")}
    prepare_reports(new | {"--d": "", "--e": os.devnull, "--f": os.devnull})
    assert contents(tmp_path) == {str(tmp_path / "old"): b"{\n}"}
    assert (tmp_path / "deep" / "er").is_dir()
    monkeypatch.setattr(os, "access", lambda *asked: False)
    with pytest.raises(DragomanError, match="read-only"):
        prepare_reports({"--a": str(tmp_path / "new")})


def test_a_report_replaces_neither_what_is_read_nor_another_report(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("x")
    (tmp_path / "link").symlink_to("text")
    for name in ("text", "link", "../" + tmp_path.name + "/text"):
        with pytest.raises(ConfigError, match=r"^--json .* would replace the file which is read here;"):
            prepare_reports({"--json": str(tmp_path / name)}, [tmp_path / "other", tmp_path / "text"])
    twice = {"--json": str(tmp_path / "report"), "--markdown": f"{tmp_path}/./report"}
    with pytest.raises(ConfigError, match=r"^--markdown .* would replace the file of --json; name another one$"):
        prepare_reports(twice)
    assert contents(tmp_path) == {str(tmp_path / "text"): b"x", str(tmp_path / "link"): b"x"}


def test_a_report_replaces_only_an_earlier_report(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for content in ("", '{\n "scores": 1}', "| en → de | |\n", "<!doctype html>"):
        path.write_text(content)
        prepare_reports({"--json": str(path)})
    for content in ("a thesis", '{"source": "a line of JSONL"}\n', "source\ttarget\n"):
        path.write_text(content)
        with pytest.raises(ConfigError, match=r"^--json .*file: already exists and is no earlier report; name another"):
            prepare_reports({"--json": str(path)})
        assert path.read_text() == content


@pytest.mark.parametrize(("name", "said"), [("-", "no file"), (".", "a folder"), (f"new{os.sep}", "a folder")])
def test_a_report_must_be_a_file(name: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=f"^--json {re.escape(name)}: this is {said}; name a file$"):
        prepare_reports({"--json": name})
    assert not contents(tmp_path)
