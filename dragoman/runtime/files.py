"""Writing files: whatever happens, a file has its earlier content or its new one, whole, and no other file is lost."""

import errno
import hashlib
import json
import os
import secrets
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from dragoman.config import ConfigError, DragomanError

_BLOCK = 1 << 20
_REPORT_STARTS = (b"{\n", b"| ", b"<!doctype html", b"PK\3\4")  # JSON, a table, a page; arrays and packages are zips


def checksum(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal digits."""
    digest = hashlib.sha256()
    with open_to_read(path) as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file; empty if the file is missing, damaged, or holds something else."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def write_json(path: Path, content: Any) -> None:
    """Write JSON that people can read; it begins as prepare_reports expects of a report."""
    write_atomically(path, (json.dumps(content, ensure_ascii=False, indent=1) + "\n").encode())


@contextmanager
def open_to_read(path: Path) -> Iterator[IO[bytes]]:
    """Open a file; an OSError of reading it then has the file's name, as one of opening it has."""
    try:
        with path.open("rb") as file:
            yield file
    except OSError as error:
        error.filename = str(path)
        raise


def make_folder(folder: Path) -> None:
    """Make a folder that can be written to, and its parents."""
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
    """
    found = {path.name for path in folder.iterdir()} if folder.exists() else set()
    if lost := sorted((found if written is None else found.intersection(written)).difference(ours)):
        names = " and ".join(lost[:2])
        raise DragomanError(f"{folder}: already contains {names}, which would be lost; choose another --out")


def prepare_reports(reports: Mapping[str, str], read: Iterable[Path] = ()) -> None:
    """Check, before the work, that the files that options name can be written; make their folders.

    An earlier report is replaced, and no other file: neither one that this command reads, nor one that does not begin
    as reports do, as it is somebody's text. Reports are named by their options; an empty name is no file.
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
        if path.exists() and not _begins_as_report(path):
            raise ConfigError(f"{option} {name}: already exists and is no earlier report; name another file")
        taken[place] = f"of {option}"
        make_folder(path.parent)


def _begins_as_report(path: Path) -> bool:
    with open_to_read(path) as file:
        start = file.read(16)
    return not start or start.startswith(_REPORT_STARTS)


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file's content, or leave it as it was; pipes and devices take the bytes as they come."""
    if not os.path.exists(path) or os.path.isfile(path):
        write_together({path: content})
        return
    try:
        path.write_bytes(content)
    except BrokenPipeError:
        raise  # the reader has gone, which is no failure of the file
    except OSError as error:
        raise not_saved(path, error) from None


def write_together(contents: Mapping[Path, bytes]) -> None:
    """Replace the content of several files, or of none if one of them can't be written."""
    with appearing(*contents) as files:
        for file, content in zip(files, contents.values(), strict=True):
            file.write(content)


@contextmanager
def appearing(*paths: Path) -> Iterator[list[IO[bytes]]]:
    """Open new files that take these names when the block ends, or leave nothing if it fails.

    They take their names one after the other, in the order given, when all of them are on the disk: a process that is
    killed in that moment leaves some of the earlier ones, each whole. A link stays a link to the file that is replaced.
    """
    finals = [Path(os.path.realpath(path)) for path in paths]
    current = finals[0]
    try:
        with ExitStack() as stack:
            opened = [stack.enter_context(_beside(path)) for path in finals]
            yield [file for file, _ in opened]
            for final, (file, _) in zip(finals, opened, strict=True):
                current = final
                _flush(file)
            for current, (_, partial) in zip(finals, opened, strict=True):
                partial.replace(current)
    except OSError as error:
        raise not_saved(current, error) from None
    for folder in {path.parent for path in finals}:
        _flush_names(folder)


def settle(file: IO[bytes], partial: Path, final: Path) -> None:
    """Rename a file that was just written, after its content has reached the disk."""
    _flush(file)
    partial.replace(final)
    _flush_names(final.parent)


def _flush(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())
    file.close()  # Windows renames no open file


@contextmanager
def _beside(path: Path) -> Iterator[tuple[IO[bytes], Path]]:
    """A new file beside a path, with a name of its own; removed in the end unless it was renamed."""
    partial = path.with_name(f"{path.name}.{secrets.token_hex(4)}.partial")
    try:
        with partial.open("xb") as file:
            yield file, partial
    finally:
        with suppress(OSError):
            partial.unlink()


def remove_leftovers(folder: Path) -> None:
    """Remove what killed processes left half written below a folder that no other process writes to."""
    for partial in folder.rglob(f"*.{8 * '[0-9a-f]'}.partial"):
        partial.unlink(missing_ok=True)


def _flush_names(folder: Path) -> None:
    """Let the names of a folder's files reach the disk, on file systems that can do that."""
    with suppress(OSError):  # the files are there already
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def not_saved(path: Path, error: OSError | RuntimeError, comfort: str = "") -> DragomanError:
    """An error that says which file could not be saved, why, what is left and what to do."""
    full = not isinstance(error, OSError) or error.errno in (errno.ENOSPC, errno.EDQUOT)
    reason = error.strerror if isinstance(error, OSError) else "the disk may be full"
    before = f"; {comfort or 'what was there before is intact'}" if comfort or os.path.isfile(path) else ""
    cure = "make room and run the same command again" if full else "name another place"
    return DragomanError(f"{path}: could not be saved ({reason}){before}; {cure}")
