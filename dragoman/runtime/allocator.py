"""The memory allocator: keep freed memory, give it back, and recognise that memory ran out."""

import ctypes
import os
import sys
from collections.abc import Callable
from contextlib import suppress

_SIGNS = ["can't allocate memory", "not enough memory", "out of memory", "failed to allocate", "bad_alloc"]
# oneDNN, which multiplies on CPUs, does not say why it failed; lack of memory is the usual reason.
_SIGNS += ["could not create a primitive", "could not create a memory"]
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # glibc's malloc.h
_MADV_HUGEPAGE, _LARGE_PAGE = 14, 2**21
_BLOCK = 2**30 - 2**20  # less than the mmap threshold, so that it is part of the heap
_MOST_BLOCKS = 16
_KERNELS = 64  # training is as fast with so few; translating in the same process is a fifth slower


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means that memory ran out, which PyTorch reports differently on each device."""
    is_said = isinstance(error, RuntimeError) and any(sign in str(error).lower() for sign in _SIGNS)
    return is_said or isinstance(error, MemoryError)


def keep_freed_memory() -> None:
    """Ask glibc not to give freed memory back to the system, and ask the system for large pages.

    A training step frees and requests the same large tensors over and over. Getting each one as fresh pages costs
    more than many of the operations on them, and so do page faults of many small pages, above all on a virtual
    machine. With another C library nothing happens.
    """
    mallopt = _glibc("mallopt")
    # Older versions accept at most 32 MiB. Without either, a trim threshold would make every tensor fresh pages.
    if mallopt(_MMAP_THRESHOLD, 2**30) or mallopt(_MMAP_THRESHOLD, 2**25):
        mallopt(_TRIM_THRESHOLD, -1)
    mallopt(_ARENA_MAX, 1)  # the backward pass runs in another thread, which shares one arena only
    _take_large_pages()


def _take_large_pages() -> None:
    """Reserve addresses for the heap to grow into, and let the system fill them with large pages."""
    if not sys.platform.startswith("linux"):
        return
    with suppress(OSError, AttributeError, ValueError):
        library = ctypes.CDLL(None)
        library.malloc.restype = ctypes.c_size_t
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        count = min(_MOST_BLOCKS, max(1, memory // _BLOCK // 2))
        blocks = [library.malloc(ctypes.c_size_t(_BLOCK)) for _ in range(count)]
        for block in filter(None, blocks):
            start, end = -(-block // _LARGE_PAGE) * _LARGE_PAGE, (block + _BLOCK) // _LARGE_PAGE * _LARGE_PAGE
            library.madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), _MADV_HUGEPAGE)
        for block in filter(None, blocks):
            library.free(ctypes.c_void_p(block))


def limit_kernel_cache() -> None:
    """Ask oneDNN, before its first product, to keep kernels for fewer shapes than its thousand.

    Training meets new shapes all the time. Kernels kept for shapes that do not return lie scattered among the tensors
    and fragment the memory: after an hour it takes several times what is in use. A step benefits only from what its own
    layers have in common. A size set in the environment is left as it is.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(_KERNELS))


def give_back_memory() -> None:
    """Give freed memory back after all, so that what a rare large batch needed is not kept for ever.

    This takes up to a tenth of a second; the next step gets fresh pages, large ones again.
    """
    _glibc("malloc_trim")(0)
    _take_large_pages()


def _glibc(name: str) -> Callable[..., object]:
    """A function of the C library; one that does nothing if there is no such function."""
    if sys.platform.startswith("linux"):
        with suppress(OSError, AttributeError):
            return getattr(ctypes.CDLL(None), name)  # type: ignore[no-any-return]
    return lambda *arguments: None
