"""Memory: keeping what was freed, giving it back, and telling that there is too little."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from contextlib import suppress

import torch

_ALLOCATORS = ["can't allocate memory", "not enough memory", "out of memory", "failed to allocate", "bad_alloc"]
# oneDNN, which multiplies on CPUs, does not say why it could not; short memory is the usual reason.
_ALLOCATORS += ["could not create a primitive", "could not create a memory"]
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # glibc's malloc.h
_MADV_HUGEPAGE, _LARGE_PAGE = 14, 2**21
_HEAP_ROOM = 2**30 - 2**20  # less than the threshold, so that it is at the end of the heap
_MOST_ROOMS = 16
_PRODUCTS = 64  # training is as fast with so few; translating in the same process is slower by a fifth


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means that memory ran out: PyTorch says so in several ways, by device."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error).lower() for sign in _ALLOCATORS)


def keep_freed_memory() -> None:
    """Ask glibc not to give freed memory back to the system, and the system for large pages.

    A training step frees and asks for the same large tensors over and over; getting each one as fresh pages costs
    more than many of the operations on them, and so does finding each of many small pages, above all on a virtual
    machine. No effect where the C library is another.
    """
    mallopt = _glibc("mallopt")
    # Older ones take no more than 32 MiB. Without any, the next line would make every tensor fresh pages.
    if mallopt(_MMAP_THRESHOLD, 2**30) or mallopt(_MMAP_THRESHOLD, 2**25):
        mallopt(_TRIM_THRESHOLD, -1)
    mallopt(_ARENA_MAX, 1)  # the backward pass runs in a thread of its own, which would not find that memory
    _take_large_pages()


def _take_large_pages() -> None:
    """Make room for the heap to grow, in addresses only, and let the system fill it with large pages."""
    if not sys.platform.startswith("linux"):
        return
    with suppress(OSError, AttributeError, ValueError):
        library = ctypes.CDLL(None)
        library.malloc.restype = ctypes.c_size_t
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        count = min(_MOST_ROOMS, max(1, memory // _HEAP_ROOM // 2))
        rooms = [library.malloc(ctypes.c_size_t(_HEAP_ROOM)) for _ in range(count)]
        for room in filter(None, rooms):
            start, end = -(-room // _LARGE_PAGE) * _LARGE_PAGE, (room + _HEAP_ROOM) // _LARGE_PAGE * _LARGE_PAGE
            library.madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), _MADV_HUGEPAGE)
        for room in filter(None, rooms):
            library.free(ctypes.c_void_p(room))


def remember_fewer_products() -> None:
    """Ask oneDNN, before it first multiplies, to remember how for fewer shapes than its thousand.

    Training meets ever other shapes, and what is remembered of those that will not come again lies scattered among the
    tensors, whose memory falls to pieces: after an hour it takes several times what is in use. A step gains only from
    what its own layers have in common. No effect where the environment says how many.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(_PRODUCTS))


def give_back_memory() -> None:
    """Give freed memory back after all, so that what a rare large batch needed is not kept for ever.

    Takes up to a tenth of a second; what the next step needs comes back as fresh pages, large ones again.
    """
    _glibc("malloc_trim")(0)
    _take_large_pages()


def _glibc(name: str) -> Callable[..., object]:
    """One of the C library's functions; where there is none such, one that does nothing."""
    if sys.platform.startswith("linux"):
        with suppress(OSError, AttributeError):
            return getattr(ctypes.CDLL(None), name)  # type: ignore[no-any-return]
    return lambda *arguments: None
