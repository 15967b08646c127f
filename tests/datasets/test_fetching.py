"""Fetching: whatever breaks, what arrives in the end is the file, and nothing is fetched twice."""

from __future__ import annotations

import hashlib
import random
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from email.message import Message
from pathlib import Path

import filelock
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman.config import DragomanError
from dragoman.datasets import fetching
from dragoman.datasets.fetching import checksum, fetch
from tests.local_server import LocalServer, serving

CONTENT = random.Random(1).randbytes(300_000)
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def server() -> Iterator[LocalServer]:
    with serving({"/file": CONTENT}) as server:
        yield server


def url(server: LocalServer, name: str = "file") -> str:
    return f"{server.address}/{name}"


def test_a_file_arrives_and_is_not_fetched_again(server: LocalServer, tmp_path: Path) -> None:
    path, said = tmp_path / "folder" / "file", list[str]()
    for _ in range(2):
        fetch(url(server), path, SHA256, said.append)
    assert path.read_bytes() == CONTENT
    assert checksum(path) == SHA256
    assert server.asked == [("/file", None)]
    assert said == [f"{path}: 300,000 bytes", f"{path}: already there"]
    assert [p.name for p in path.parent.iterdir()] == ["file"]


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    cuts=st.lists(st.integers(0, 200_000), max_size=4),
    known=st.booleans(),
    versions=st.booleans(),
    ranges=st.booleans(),
)
def test_however_often_it_breaks_the_file_is_whole(
    cuts: list[int], known: bool, versions: bool, ranges: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("broken") / "file"
    with serving({"/file": CONTENT}) as server:
        server.versions, server.ranges = versions, ranges
        have = 0
        for cut in cuts:
            server.cut_after = cut
            can_continue = ranges and (known or versions)
            if (have if can_continue else 0) + cut >= len(CONTENT):
                continue
            with pytest.raises(DragomanError, match=r"run the same command again to continue"):
                fetch(url(server), path, SHA256 if known else "")
            assert not path.exists()
            have = (have if can_continue else 0) + cut
            assert path.with_name("file.partial").stat().st_size == have
        server.cut_after = None
        server.asked.clear()
        fetch(url(server), path, SHA256 if known else "")
        expected = f"bytes={have}-" if have and (known or versions) else None
        assert server.asked == [("/file", expected)]
    assert path.read_bytes() == CONTENT
    assert [p.name for p in path.parent.iterdir()] == ["file"]


def break_off(server: LocalServer, path: Path, sha256: str = "") -> None:
    server.cut_after = 100_000
    with pytest.raises(DragomanError, match=r"ended after 100,000 of 300,000 bytes"):
        fetch(url(server), path, sha256)
    server.cut_after = None


def test_a_file_that_changed_in_between_is_fetched_anew(server: LocalServer, tmp_path: Path) -> None:
    break_off(server, tmp_path / "file")
    server.files["/file"] = CONTENT[::-1]
    fetch(url(server), tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT[::-1]


def test_a_shorter_file_takes_the_place_of_what_came_of_a_longer_one(server: LocalServer, tmp_path: Path) -> None:
    server.versions, sha256 = False, hashlib.sha256(b"short").hexdigest()
    break_off(server, tmp_path / "file", sha256)
    server.files["/file"] = b"short"
    fetch(url(server), tmp_path / "file", sha256)
    assert server.asked[-2:] == [("/file", "bytes=100000-"), ("/file", None)]
    assert (tmp_path / "file").read_bytes() == b"short"


def test_what_was_damaged_on_the_way_is_thrown_away(server: LocalServer, tmp_path: Path) -> None:
    server.files["/file"] = CONTENT[:-1] + b"x"
    with pytest.raises(DragomanError, match=r"what came is another file \(its SHA-256 differs\)"):
        fetch(url(server), tmp_path / "file", SHA256)
    server.files["/file"] = CONTENT
    fetch(url(server), tmp_path / "file", SHA256)
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_what_was_damaged_while_it_lay_there_is_found_out(server: LocalServer, tmp_path: Path) -> None:
    break_off(server, tmp_path / "file", SHA256)
    (tmp_path / "file.partial").write_bytes(b"x" * 100_000)
    with pytest.raises(DragomanError, match="another file"):
        fetch(url(server), tmp_path / "file", SHA256)
    fetch(url(server), tmp_path / "file", SHA256)
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_another_file_in_its_place_is_left_alone(server: LocalServer, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"my own")
    with pytest.raises(DragomanError, match="move it away"):
        fetch(url(server), tmp_path / "file", SHA256)
    assert (tmp_path / "file").read_bytes() == b"my own"
    fetch(url(server), tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b"my own"
    assert server.asked == []


def test_servers_that_are_not_there_or_have_no_such_file(server: LocalServer, tmp_path: Path) -> None:
    with pytest.raises(DragomanError, match=r"nothing: the server says 404 Not Found; name another place"):
        fetch(url(server, "nothing"), tmp_path / "file")
    with pytest.raises(DragomanError, match=r"127\.0\.0\.1:1/file: can't be reached \(Connection refused\)"):
        fetch("http://127.0.0.1:1/file", tmp_path / "file")
    assert list(tmp_path.iterdir()) == []


def test_large_files_tell_how_far_they_are(
    server: LocalServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "_NOTABLE", 1000)
    said = list[str]()
    fetch(url(server), tmp_path / "file", say=said.append)
    assert len(said) in (5, 6)  # blocks are a fifth of the file
    assert said[-2] == "file.partial: 0 of 0 MB"


def test_a_folder_that_cannot_be_written_is_named(server: LocalServer, tmp_path: Path) -> None:
    (tmp_path / "a file").write_text("")
    with pytest.raises(DragomanError, match="choose another place"):
        fetch(url(server), tmp_path / "a file" / "file")


def test_a_full_disk_keeps_what_came(server: LocalServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(fetching, "_tell", full)
        with pytest.raises(DragomanError, match=r"file: could not be saved \(No space left on device\)"):
            fetch(url(server), tmp_path / "file")
    fetch(url(server), tmp_path / "file")
    assert server.asked[-1] == ("/file", "bytes=65536-")
    assert (tmp_path / "file").read_bytes() == CONTENT


FETCHING = """
import sys
from pathlib import Path
from dragoman.datasets.fetching import fetch
fetch(sys.argv[1], Path(sys.argv[2]), say=print)
"""


def test_two_processes_that_fetch_the_same_file_fetch_it_once(server: LocalServer, tmp_path: Path) -> None:
    server.files["/file"] = CONTENT * 20
    command = [sys.executable, "-c", FETCHING, url(server), str(tmp_path / "file")]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    for process in processes:
        said, failed = process.communicate(timeout=60)
        assert process.returncode == 0, failed
        assert said.endswith((f"{tmp_path / 'file'}: 6,000,000 bytes\n", f"{tmp_path / 'file'}: already there\n"))
    assert server.asked == [("/file", None)]
    assert (tmp_path / "file").read_bytes() == CONTENT * 20
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_while_another_process_fetches_it_a_file_is_waited_for(server: LocalServer, tmp_path: Path) -> None:
    lock, said = filelock.FileLock(tmp_path / "file.lock"), list[str]()
    lock.acquire()
    waiting = threading.Thread(target=lambda: fetch(url(server), tmp_path / "file", SHA256, said.append))
    waiting.start()
    while not said:
        time.sleep(0.01)
    assert said == [f"{tmp_path / 'file'}: another process is fetching it; waiting for that"]
    (tmp_path / "file").write_bytes(CONTENT)
    lock.release()
    waiting.join()
    assert said[1:] == [f"{tmp_path / 'file'}: already there"]
    assert server.asked == []


def test_what_others_wrote_into_a_file_is_no_success(
    server: LocalServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_into(partial: Path, *arguments: object) -> None:
        with partial.open("ab") as file:
            file.write(b"x" * 400_000)

    with monkeypatch.context() as patch:
        patch.setattr(fetching, "_tell", write_into)
        with pytest.raises(DragomanError, match="something else wrote into it"):
            fetch(url(server), tmp_path / "file")
    fetch(url(server), tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_a_server_leads_from_https_to_nothing_else() -> None:
    handler, headers = fetching._KeepingEncryption(), Message()
    request = urllib.request.Request("https://example.org/a")
    for address in ("http://example.org/a", "HTTP://example.org/a", "ftp://example.org/a"):
        with pytest.raises(DragomanError, match=r"https://example\.org/a: .*which is not https; name another place"):
            handler.redirect_request(request, None, 302, "Found", headers, address)
    for begin in ("https", "http"):
        request = urllib.request.Request(f"{begin}://example.org/a")
        following = handler.redirect_request(request, None, 302, "Found", headers, "https://example.org/b")
        assert following is not None
        assert following.full_url == "https://example.org/b"
