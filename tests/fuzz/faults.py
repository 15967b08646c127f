"""Disks that fill up, files that break: what happens to those who save things."""

import errno
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import pytest

from dragoman.config import DragomanError


@contextmanager
def full_disk(room: int) -> Iterator[None]:
    """No file can grow beyond so many bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def no_space(descriptor: int) -> NoReturn:
    """What a full disk says to os.fsync."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def complaint(action: Callable[[], object]) -> str:
    """The one sentence with which an action fails."""
    with pytest.raises(DragomanError) as error:
        action()
    assert "\n" not in str(error.value)
    return str(error.value)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def cut(data: bytes) -> bytes:
    """Without the last third."""
    return data[: len(data) * 2 // 3]


def cut_header(data: bytes) -> bytes:
    """Next to nothing."""
    return data[:20]


def empty(data: bytes) -> bytes:
    """Nothing."""
    return b""


def zero(data: bytes) -> bytes:
    """As after a crash of the system: the right length, but never written."""
    return bytes(len(data))


def grow(data: bytes) -> bytes:
    """With something after the end."""
    return data + b"more"


def flip(data: bytes) -> bytes:
    """One bit in the middle is another."""
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 0x10]) + data[middle + 1 :]


def refuse(*args: object, **kwargs: object) -> NoReturn:
    """What a place says that may not be touched."""
    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
