"""Keeping freed memory: harmless everywhere, and no new pages for memory that was freed."""

import ctypes
import platform
import subprocess
import sys

import pytest
import torch

from dragoman.training.memory import keep_freed_memory

# Page faults of allocating 64 MB again after it was freed, in the main thread and in another one.
COUNT_FAULTS = """
import resource, sys, threading
from dragoman.training.memory import keep_freed_memory
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


def test_calling_it_twice_and_computing_afterwards_does_no_harm() -> None:
    keep_freed_memory()
    keep_freed_memory()
    for size in (10, 1000, 3_000_000):
        x = torch.ones(size, requires_grad=True)
        (x * 2).sum().backward()
        assert x.grad is not None
        assert x.grad.sum().item() == 2 * size


def test_systems_other_than_linux_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: object) -> None:
        raise AssertionError("opened the C library")

    monkeypatch.setattr(ctypes, "CDLL", refuse)
    for system in ("darwin", "win32"):
        monkeypatch.setattr(sys, "platform", system)
        keep_freed_memory()


def test_a_c_library_without_mallopt_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: object) -> None:
        raise OSError

    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    keep_freed_memory()
    monkeypatch.setattr(ctypes, "CDLL", missing)
    keep_freed_memory()


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be asked")
def test_what_was_freed_can_be_given_back_after_all() -> None:
    script = """
import re
from dragoman.training.memory import give_back_memory, keep_freed_memory
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
