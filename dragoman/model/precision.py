"""Where to compute, and in which precision."""

from __future__ import annotations

import time
from typing import Literal

import torch

from dragoman.config import DragomanError

_PATIENCE = 0.03  # seconds: a product that takes so long is slow, whatever a second one would take


def choose_device(name: str) -> torch.device:
    """The device of this name; auto takes CUDA, then Apple's MPS, then the CPU.

    Raises:
        DragomanError: there is no such device here.
    """
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
        if device.type not in ("cpu", "cuda", "mps") or (device.type != "cuda" and device.index):
            raise RuntimeError("not one of ours")
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, ImportError):
        raise DragomanError(f"device {name!r} is not available here; use auto, cpu, cuda, cuda:N or mps") from None
    return device


def use_bf16(precision: Literal["auto", "fp32", "bf16"], device: torch.device) -> bool:
    """Whether to compute matrix products in bf16; auto asks the hardware."""
    if precision != "auto":
        return precision == "bf16"
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported())
    return device.type == "cpu" and _product_seconds(torch.bfloat16) < 0.67 * _product_seconds(torch.float32)


def _product_seconds(dtype: torch.dtype) -> float:
    """Time of a matrix product on this CPU, the least of a few: processors without bf16 units emulate it slowly."""
    a, b = torch.ones(512, 512, dtype=dtype), torch.ones(512, 512, dtype=dtype)
    times: list[float] = []
    while len(times) < 5 and sum(times) < _PATIENCE:
        start = time.perf_counter()
        a @ b
        times.append(time.perf_counter() - start)
    return min(times)
