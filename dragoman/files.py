"""Writing files so that whatever happens, what was there before or what should be there now is there, whole."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

from dragoman.config import DragomanError

_BLOCK = 1 << 20


def checksum(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal digits.

    Raises:
        DragomanError: it can't be read.
    """
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
    except OSError as error:
        raise DragomanError(f"{path}: {error.strerror or error}") from None
    return digest.hexdigest()


def make_folder(folder: Path) -> None:
    """Make a folder and its parents.

    Raises:
        DragomanError: it can't be made or written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DragomanError(f"{folder}: can't be written ({error.strerror}); choose another place") from None
    if not os.access(folder, os.W_OK):
        raise DragomanError(f"{folder}: can't be written (read-only); choose another place")


def require_place(path: Path) -> None:
    """Raise DragomanError where a file could not be written: better before the work than after."""
    folder = path.parent
    if path.exists() and not (path.is_file() or path.is_dir()):
        return  # a pipe or a device
    if path.is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK):
        reason = "a folder is there" if path.is_dir() else "no such folder" if not folder.is_dir() else "read-only"
        raise DragomanError(f"{path}: can't be written ({reason}); name another place")


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file's content, or leave it as it was.

    Raises:
        DragomanError: it can't be written, for example because the disk is full.
    """
    if path.exists() and not path.is_file():  # a pipe or a device takes bytes, but can't be replaced
        _write_into(path, content)
        return
    path = Path(os.path.realpath(path))  # a link stays one, unless it leads to itself
    partial = path.with_name(path.name + ".partial")
    try:
        with partial.open("wb") as file:
            file.write(content)
            settle(file, partial, path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise not_saved(path, error) from None


def write_together(contents: Mapping[Path, bytes]) -> None:
    """Replace the content of several files of one folder, or, where one of them can't be written, of none.

    They take their names one after the other, in the order given, when all of them are on the disk: whoever is killed
    in that moment leaves some of the earlier ones, each whole.

    Raises:
        DragomanError: one can't be written, for example because the disk is full.
    """
    files = {Path(os.path.realpath(path)): content for path, content in contents.items()}
    partials = {path: path.with_name(path.name + ".partial") for path in files}
    try:
        for path, partial in partials.items():
            with partial.open("wb") as file:
                file.write(files[path])
                file.flush()
                os.fsync(file.fileno())
        for path, partial in partials.items():
            partial.replace(path)
    except OSError as error:
        for partial in partials.values():
            partial.unlink(missing_ok=True)
        raise not_saved(path, error) from None
    _flush_names(path.parent)


@contextmanager
def appearing(*paths: Path) -> Iterator[list[IO[bytes]]]:
    """Files to write that all appear when the block ends well, and none if it does not.

    Raises:
        DragomanError: they can't be written, for example because the disk is full.
    """
    partials = [path.with_name(path.name + ".partial") for path in paths]
    try:
        with ExitStack() as stack:
            files = [stack.enter_context(partial.open("wb")) for partial in partials]
            yield list(files)
            for file, partial, path in zip(files, partials, paths, strict=True):
                settle(file, partial, path)
    except OSError as error:
        raise not_saved(paths[0], error) from None
    finally:
        for partial in partials:
            partial.unlink(missing_ok=True)


def settle(file: IO[bytes], partial: Path, final: Path) -> None:
    """Let a file just written take its final name, after its content has reached the disk; the name follows it.

    Raises:
        OSError: the content did not reach the disk, or could not take its name.
    """
    file.flush()
    os.fsync(file.fileno())
    file.close()  # Windows renames no open file
    partial.replace(final)
    _flush_names(final.parent)


def _flush_names(folder: Path) -> None:
    """Let the names of a folder's files reach the disk, as far as its file system can do that."""
    with suppress(OSError):  # the files are there by now
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _write_into(path: Path, content: bytes) -> None:
    try:
        with path.open("wb") as file:
            file.write(content)
    except BrokenPipeError:
        raise  # the reader had enough: no failure of ours
    except OSError as error:
        raise not_saved(path, error) from None


def not_saved(path: Path, error: OSError | RuntimeError, comfort: str = "") -> DragomanError:
    """The error that says that a file could not be saved, why, what is left and what helps."""
    full = not isinstance(error, OSError) or error.errno in (errno.ENOSPC, errno.EDQUOT)
    reason = error.strerror if isinstance(error, OSError) else "the disk may be full"
    before = f"; {comfort or 'what was there before is intact'}" if comfort or path.is_file() else ""
    cure = "make room and run the same command again" if full else "name another place"
    return DragomanError(f"{path}: could not be saved ({reason}){before}; {cure}")
