"""Out-of-memory errors are told from others; freed memory is kept, and given back."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from dragoman.runtime.allocator import is_out_of_memory, limit_kernel_cache

SHORT = [
    MemoryError("std::bad_alloc"),
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
    RuntimeError("[enforce fail at alloc_cpu.cpp:127] . DefaultCPUAllocator: can't allocate memory: you tried to"),
    RuntimeError("[enforce fail at alloc_cpu.cpp:98] data. DefaultCPUAllocator: not enough memory: you tried to"),
    RuntimeError("MPS backend out of memory (MPS allocated: 8.98 GB, max allowed: 9.07 GB)"),
    RuntimeError("CUDA error: out of memory"),
    RuntimeError("std::bad_alloc"),
]
OTHER = [
    RuntimeError("mat1 and mat2 shapes cannot be multiplied (3x4 and 5x6)"),
    RuntimeError("CUDA error: device-side assert triggered"),
    ValueError("out of memory"),
    KeyboardInterrupt(),
]


@pytest.mark.parametrize("error", SHORT, ids=str)
def test_every_way_of_saying_it_is_understood(error: BaseException) -> None:
    assert is_out_of_memory(error)


@pytest.mark.parametrize("error", OTHER, ids=repr)
def test_nothing_else_is_taken_for_it(error: BaseException) -> None:
    assert not is_out_of_memory(error)


def test_it_is_understood_of_this_very_machine() -> None:
    with pytest.raises((RuntimeError, MemoryError)) as error:
        torch.empty(2**60, dtype=torch.uint8)
    assert is_out_of_memory(error.value)


# Page faults of allocating 64 MB again after it was freed, in the main thread and in another one.
COUNT_FAULTS = """
import resource, sys, threading
from dragoman.runtime.allocator import keep_freed_memory
if sys.argv[1] == "keep":
    keep_freed_memory()
def allocate():
    block = bytearray(b"x") * (64 << 20)
def faults_of(work):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    work()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
def in_thread():
    thread = threading.Thread(target=allocate)
    thread.start()
    thread.join()
allocate()
print(faults_of(allocate), faults_of(in_thread))
"""


def faults(mode: str) -> tuple[int, int]:
    output = subprocess.run(
        [sys.executable, "-c", COUNT_FAULTS, mode], check=True, capture_output=True, text=True, timeout=60
    ).stdout
    main_thread, other_thread = map(int, output.split())
    return main_thread, other_thread


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be asked")
def test_freed_memory_is_used_again_without_new_pages_in_every_thread() -> None:
    pages = (64 << 20) // 4096
    kept = faults("keep")
    assert max(kept) < pages / 20
    released = faults("leave")
    assert min(released) > 5 * max(kept)


def test_what_was_freed_can_be_given_back_after_all() -> None:
    script = """
import re
from dragoman.runtime.allocator import give_back_memory, keep_freed_memory
def resident():
    return int(re.search(r"VmRSS:\\s+(\\d+)", open("/proc/self/status").read())[1]) // 1024
keep_freed_memory()
blocks = [bytearray(b"x") * (1 << 20) for _ in range(200)]
last = bytearray(b"x") * (1 << 20)  # keeps the end of the heap where it is
del blocks
kept = resident()
give_back_memory()
print(kept, resident())
"""
    output = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
    kept, left = map(int, output.split())
    assert kept > 200
    assert left < kept - 150


# Megabytes of 300 tensors of 4 MB that lie in large pages, at first and after memory was given back.
COUNT_LARGE = """
import re, torch
from dragoman.runtime.allocator import give_back_memory, keep_freed_memory
keep_freed_memory()
for _ in range(2):
    blocks = [torch.ones(1 << 20) for _ in range(300)]
    print(sum(map(int, re.findall(r"AnonHugePages:\\s+(\\d+)", open("/proc/self/smaps").read()))) // 1024)
    del blocks
    give_back_memory()
"""
LARGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")


@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc" or not LARGE_PAGES.is_file() or "[madvise]" not in LARGE_PAGES.read_text(),
    reason="the system gives large pages to nobody, or to all",
)
def test_tensors_lie_in_large_pages_also_after_memory_was_given_back() -> None:
    command = [sys.executable, "-c", COUNT_LARGE]
    output = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
    assert min(map(int, output.split())) > 600


def test_a_size_of_the_kernel_cache_that_the_user_set_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "1024")
    limit_kernel_cache()
    assert os.environ["ONEDNN_PRIMITIVE_CACHE_CAPACITY"] == "1024"
