"""Out-of-memory errors are told from others."""

from __future__ import annotations

import pytest
import torch

from dragoman.model.memory import is_out_of_memory

SHORT = [
    MemoryError(),
    MemoryError("std::bad_alloc"),
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 8.00 GiB"),
    torch.cuda.OutOfMemoryError("CUDA out of memory."),
    RuntimeError(
        "[enforce fail at alloc_cpu.cpp:127] . DefaultCPUAllocator: can't allocate memory: you tried to allocate"
    ),
    RuntimeError(
        "[enforce fail at alloc_cpu.cpp:98] data. DefaultCPUAllocator: not enough memory: you tried to allocate"
    ),
    RuntimeError(
        "MPS backend out of memory (MPS allocated: 8.98 GB, other allocations: 1.26 MB, max allowed: 9.07 GB)"
    ),
    RuntimeError("CUDA error: out of memory"),
    RuntimeError("std::bad_alloc"),
]
OTHER = [
    RuntimeError("mat1 and mat2 shapes cannot be multiplied (3x4 and 5x6)"),
    RuntimeError("CUDA error: device-side assert triggered"),
    RuntimeError("Connection closed by peer [127.0.0.1]:29500"),
    ValueError("out of memory"),
    KeyError("out of memory"),
    KeyboardInterrupt(),
    RuntimeError(),
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
