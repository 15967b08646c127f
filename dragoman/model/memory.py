"""Telling out-of-memory errors from others."""

from __future__ import annotations

import torch

_ALLOCATORS = ["can't allocate memory", "not enough memory", "out of memory", "failed to allocate", "bad_alloc"]
# oneDNN, which multiplies on CPUs, does not say why it could not; short memory is the usual reason.
_ALLOCATORS += ["could not create a primitive", "could not create a memory"]


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means that memory ran out: PyTorch says so in several ways, by device."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error).lower() for sign in _ALLOCATORS)
