"""Writing files so that whatever happens, what was there before or what should be there now is there, whole."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

from dragoman.config import ConfigError, DragomanError

if sys.platform != "win32":
    import fcntl

_BLOCK = 1 << 20
_LONG_NAME = 200  # bytes, of the 255 that most file systems allow; the name of a partial file is longer
_RENAMES_OPEN_FILES = sys.platform != "win32"


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


def refuse_to_overwrite(folder: Path, ours: Collection[str] = (), written: Collection[str] | None = None) -> None:
    """Refuse an output folder in which a file would be lost that no earlier result wrote.

    Args:
        folder: where a result is to be written; it need not exist.
        ours: names that an earlier result wrote into it, as its marker says; empty if there is no marker.
        written: names that the new result writes or removes; None if it takes the place of the whole folder.

    Raises:
        DragomanError: the folder is a file or can't be read, or contains something to be written that is not ours.
    """
    try:
        found = {path.name for path in folder.iterdir()}
    except FileNotFoundError:
        return
    except OSError as error:
        raise DragomanError(f"{folder}: {error.strerror or error}; choose another --out") from None
    if lost := sorted((found if written is None else found.intersection(written)).difference(ours)):
        raise DragomanError(
            f"{folder}: already contains {' and '.join(lost[:2])}, which would be lost; choose another --out"
        )


def prepare_reports(reports: Mapping[str, str], read: Iterable[Path] = ()) -> None:
    """See that files can be written, and make their folders: better before the work than after.

    Args:
        reports: the name of each file, by the option that gives it; an empty one is none.
        read: files that are no place for a report, for they are read.

    Raises:
        ConfigError: a report would replace what is read, or another report.
        DragomanError: one can't be written.
    """
    taken = {os.path.realpath(path): "which is read here" for path in read}
    for option, name in reports.items():
        if not name:
            continue
        path = Path(name)
        if name.endswith(os.sep) or path.is_dir() or name == "-":
            raise ConfigError(f"{option} {name}: this is {'no file' if name == '-' else 'a folder'}; name a file")
        if path.exists() and not path.is_file():
            continue  # a pipe or a device
        place = os.path.realpath(path)
        if place in taken:
            raise ConfigError(f"{option} {name}: would replace the file {taken[place]}; name another one")
        taken[place] = f"of {option}"
        make_folder(path.parent)


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file's content, or leave it as it was.

    Raises:
        DragomanError: it can't be written, for example because the disk is full.
    """
    if os.path.exists(path) and not os.path.isfile(path):  # a pipe or a device takes bytes, but can't be replaced
        _write_into(path, content)
        return
    path = Path(os.path.realpath(path))  # a link stays one, unless it leads to itself
    try:
        with _beside(path) as (file, partial):
            file.write(content)
            settle(file, partial, path)
    except OSError as error:
        raise not_saved(path, error) from None


def write_together(contents: Mapping[Path, bytes]) -> None:
    """Replace the content of several files of one folder, or, where one of them can't be written, of none.

    They take their names one after the other, in the order given, when all of them are on the disk: whoever is killed
    in that moment leaves some of the earlier ones, each whole.

    Raises:
        DragomanError: one can't be written, for example because the disk is full.
    """
    files = {Path(os.path.realpath(path)): content for path, content in contents.items()}
    try:
        with ExitStack() as stack:
            partials = {}
            for path, content in files.items():
                file, partials[path] = stack.enter_context(_beside(path))
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
                if not _RENAMES_OPEN_FILES:
                    file.close()
            for path, partial in partials.items():
                partial.replace(path)
    except OSError as error:
        raise not_saved(path, error) from None
    _flush_names(path.parent)


@contextmanager
def appearing(*paths: Path) -> Iterator[list[IO[bytes]]]:
    """Files to write that all appear when the block ends well, and none if it does not.

    Raises:
        DragomanError: they can't be written, for example because the disk is full.
    """
    try:
        with ExitStack() as stack:
            opened = [stack.enter_context(_beside(path)) for path in paths]
            yield [file for file, _ in opened]
            for (file, partial), path in zip(opened, paths, strict=True):
                settle(file, partial, path)
    except OSError as error:
        raise not_saved(paths[0], error) from None


def settle(file: IO[bytes], partial: Path, final: Path) -> None:
    """Let a file just written take its final name, after its content has reached the disk; the name follows it.

    Raises:
        OSError: the content did not reach the disk, or could not take its name.
    """
    file.flush()
    os.fsync(file.fileno())
    if not _RENAMES_OPEN_FILES:
        file.close()
    partial.replace(final)
    file.close()
    _flush_names(final.parent)


@contextmanager
def _beside(path: Path) -> Iterator[tuple[IO[bytes], Path]]:
    """A new file beside a place, under a name that nobody else has; gone in the end unless it took another name.

    Raises:
        OSError: it can't be made.
    """
    name = os.fsencode(path.name)
    stem = path.name if len(name) <= _LONG_NAME else hashlib.sha256(name).hexdigest()
    _remove_remains(path.parent, stem)
    file, partial = _open_new(path.parent, stem)
    try:
        with file:
            yield file, partial
    finally:
        with suppress(OSError):
            partial.unlink()


def _open_new(folder: Path, stem: str) -> tuple[IO[bytes], Path]:
    while True:
        partial = folder / f"{stem}.{secrets.token_hex(4)}.partial"
        file = partial.open("xb")
        if _lock(file) is not False and partial.exists():
            return file, partial
        file.close()  # another process took it for remains before it was locked


def _remove_remains(folder: Path, stem: str) -> None:
    """Remove what processes that were killed left beside a file; those that are at work keep theirs."""
    pattern = re.compile(re.escape(stem) + r"\.[0-9a-f]{8}\.partial")
    with suppress(OSError):
        for partial in [path for path in folder.iterdir() if pattern.fullmatch(path.name)]:
            with suppress(OSError):
                _remove_unless_locked(partial)


def _remove_unless_locked(partial: Path) -> None:
    if sys.platform == "win32":  # which removes no open file
        partial.unlink()
        return
    with partial.open("rb+") as file:
        if _lock(file):
            partial.unlink()


def _lock(file: IO[bytes]) -> bool | None:
    """Lock a file until it is closed; False where another process has done so, None where the system can't."""
    if sys.platform != "win32":
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            return None
        return True
    return None


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
    before = f"; {comfort or 'what was there before is intact'}" if comfort or os.path.isfile(path) else ""
    cure = "make room and run the same command again" if full else "name another place"
    return DragomanError(f"{path}: could not be saved ({reason}){before}; {cure}")
