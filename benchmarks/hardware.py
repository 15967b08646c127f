"""What a measurement ran on."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import torch

from dragoman.runtime.device import processor


def describe_hardware() -> dict[str, str | int]:
    """Processor, GPU if there is one, cores, memory, and the versions that matter."""
    information = Path("/proc/cpuinfo")
    text = information.read_text() if information.is_file() else ""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "processor": processor(),
        "amx": int("amx_bf16" in text),
        "cores": os.cpu_count() or 0,
        "memory_gib": round(memory),
        "python": platform.python_version(),
        "torch": torch.__version__,
    } | ({"gpu": torch.cuda.get_device_name()} if torch.cuda.is_available() else {})
