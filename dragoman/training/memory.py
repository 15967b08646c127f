"""Keeping freed memory for the next step."""

from __future__ import annotations

import ctypes
import sys

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # glibc's malloc.h


def keep_freed_memory() -> None:
    """Ask glibc not to give freed memory back to the system.

    A training step frees and asks for the same large tensors over and over; getting each one as fresh pages costs
    more than many of the operations on them. No effect where the C library is another.
    """
    if not sys.platform.startswith("linux"):
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mallopt(_MMAP_THRESHOLD, 2**30)
    mallopt(_TRIM_THRESHOLD, 2**31 - 1)
    mallopt(_ARENA_MAX, 1)  # the backward pass runs in a thread of its own, which would not find that memory
