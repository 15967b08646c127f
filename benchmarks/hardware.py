"""What a measurement ran on."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import torch

from dragoman.runtime.device import processor

INSTRUCTIONS = {
    "amx_bf16": "AMX",
    "avx512_bf16": "AVX-512 bf16",
    "avx512_vnni": "AVX-512 VNNI",
    "avx512f": "AVX-512",
    "avx2": "AVX2",
}
"""By Linux's names, the latest first: what sets the speed of matrix products."""


def describe_hardware() -> dict[str, str | int]:
    """Processor and its instructions, GPU if there is one, cores, memory, and the versions that matter."""
    information = Path("/proc/cpuinfo")
    flags = information.read_text().split() if information.is_file() else []
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "processor": processor(),
        "instructions": next((name for flag, name in INSTRUCTIONS.items() if flag in flags), ""),
        "cores": os.cpu_count() or 0,
        "memory_gib": round(memory),
        "python": platform.python_version(),
        "torch": torch.__version__,
    } | ({"gpu": torch.cuda.get_device_name()} if torch.cuda.is_available() else {})
