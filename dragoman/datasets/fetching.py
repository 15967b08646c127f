"""Fetching a file over HTTP: continued where it broke off, checked, and there whole or not at all."""

from __future__ import annotations

import http.client
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import filelock

from dragoman.config import DragomanError
from dragoman.runtime.console import Report
from dragoman.runtime.files import checksum, make_folder, not_saved, settle

_BLOCK = 1 << 16
_PATIENCE = 60.0  # seconds without a byte
_NOTABLE = 5_000_000  # bytes; what is smaller needs no reports
_AGAIN = "run the same command again to continue"
ELSEWHERE = "name another place: dragoman download … --mirror"
"""What else to do where an address is of no use."""


def fetch(url: str, path: Path, sha256: str = "", say: Report = lambda line: None) -> None:
    """Fetch a file, unless it is there.

    What arrived before a connection broke stays in PATH.partial, and the next call asks for the rest. A server that
    has another version by then sends all of it (RFC 9110, If-Range).

    Args:
        url: where it is.
        path: where to put it.
        sha256: of the whole file; empty where nobody knows.
        say: told what goes on, in lines for people.

    Raises:
        DragomanError: the server can't be reached or has no such file, the connection broke, what came or what is
            there is another file, or it can't be written.
    """
    if _is_there(url, path, sha256, say):
        return
    make_folder(path.parent)
    with _alone(path, say):
        if not _is_there(url, path, sha256, say):  # another process may have fetched it meanwhile
            _fetch(url, path, sha256, say)


def _is_there(url: str, path: Path, sha256: str, say: Report) -> bool:
    if path.exists():
        if sha256 and checksum(path) != sha256:
            raise DragomanError(f"{path}: not the file that {url} should be (its SHA-256 differs); move it away")
        say(f"{path}: already there")
    return path.exists()


@contextmanager
def _alone(path: Path, say: Report) -> Iterator[None]:
    """Wait until no other process fetches this file, and let none begin."""
    lock = filelock.FileLock(path.with_name(path.name + ".lock"))
    try:
        try:
            lock.acquire(timeout=0)
        except filelock.Timeout:
            say(f"{path}: another process is fetching it; waiting for that")
            lock.acquire()
    except OSError as error:
        raise not_saved(path, error) from None
    try:
        yield
    finally:
        with suppress(OSError):
            Path(lock.lock_file).unlink()  # whoever waits looks for the name anew
        lock.release()


def _fetch(url: str, path: Path, sha256: str, say: Report) -> None:
    partial, version = (path.with_name(path.name + end) for end in (".partial", ".partial.version"))
    try:
        _receive(url, partial, version, bool(sha256), say)
        if sha256 and checksum(partial) != sha256:
            for left in (partial, version):
                left.unlink(missing_ok=True)
            raise DragomanError(f"{url}: what came is another file (its SHA-256 differs); try again, or {ELSEWHERE}")
        with partial.open("rb+") as file:
            settle(file, partial, path)
        version.unlink(missing_ok=True)
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError, ssl.SSLError) as error:
        raise _unreachable(url, error, partial) from None
    except OSError as error:
        raise not_saved(path, error) from None
    except ValueError as error:
        raise DragomanError(f"{url}: not an address ({error}); {ELSEWHERE}") from None
    say(f"{path}: {path.stat().st_size:,} bytes")


class _KeepingEncryption(urllib.request.HTTPRedirectHandler):
    """Follows a server to another address, but from https to nothing else."""

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        """The request for the address that a server names; raises DragomanError where that is not encrypted."""
        if req.type == "https" and not newurl.lower().startswith("https://"):
            raise DragomanError(
                f"{req.full_url}: the server names another address, {newurl}, which is not https; {ELSEWHERE}"
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


_OPENER = urllib.request.build_opener(_KeepingEncryption)


def _receive(url: str, partial: Path, version: Path, checked: bool, say: Report) -> None:
    """Let the partial file become whole."""
    known = version.read_text(encoding="utf-8") if version.is_file() else ""
    have = partial.stat().st_size if partial.is_file() and (known or checked) else 0
    request = urllib.request.Request(url, headers={"User-Agent": "dragoman", "Accept-Encoding": "identity"})
    if have:
        request.add_header("Range", f"bytes={have}-")
        if known:
            request.add_header("If-Range", known)
    try:
        response = _OPENER.open(request, timeout=_PATIENCE)
    except urllib.error.HTTPError as error:
        if error.code != http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise
        partial.unlink()  # there is nothing beyond: whole, or of another version
        response = _OPENER.open(_without_range(request), timeout=_PATIENCE)
    with response:
        if response.status != http.client.PARTIAL_CONTENT:
            have = 0
            known = response.headers.get("ETag") or response.headers.get("Last-Modified") or ""
            version.write_text(known, encoding="utf-8")
        rest = response.headers.get("Content-Length")
        total = have + int(rest) if rest else None
        if have:
            say(f"{partial.name}: going on after {have:,} bytes")
        with partial.open("ab" if have else "wb") as file:
            while block := response.read(_BLOCK):
                file.write(block)
                _tell(partial, have, len(block), total, say)
                have += len(block)
    if partial.stat().st_size != have:
        partial.unlink()
        raise DragomanError(f"{partial}: something else wrote into it; run the same command again")
    if total is not None and have != total:
        raise DragomanError(f"{url}: the connection ended after {have:,} of {total:,} bytes; {_AGAIN}")


def _without_range(request: urllib.request.Request) -> urllib.request.Request:
    for name in ("Range", "If-range"):
        request.remove_header(name)
    return request


def _tell(partial: Path, before: int, more: int, total: int | None, say: Report) -> None:
    """Report each tenth of a large file."""
    if total and total > _NOTABLE and 10 * (before + more) // total > 10 * before // total:
        say(f"{partial.name}: {(before + more) / 1e6:,.0f} of {total / 1e6:,.0f} MB")


def _unreachable(url: str, error: Exception, partial: Path) -> DragomanError:
    if isinstance(error, urllib.error.HTTPError):
        return DragomanError(f"{url}: the server says {error.code} {error.reason}; {ELSEWHERE}")
    reason = getattr(error, "reason", None) or error
    reason = getattr(reason, "strerror", None) or reason
    if partial.is_file() and partial.stat().st_size:
        return DragomanError(f"{url}: the connection broke ({reason}); {_AGAIN}")
    return DragomanError(f"{url}: can't be reached ({reason}); try again, or {ELSEWHERE}")
