"""What a test needs of the processor."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

_INFORMATION = Path("/proc/cpuinfo")
_FLAGS = _INFORMATION.read_text().split() if _INFORMATION.is_file() else ["avx_vnni"]
_OVERFLOWS = platform.machine() in ("x86_64", "AMD64") and not {"avx512_vnni", "avx_vnni"}.intersection(_FLAGS)
needs_exact_int8 = pytest.mark.skipif(
    _OVERFLOWS, reason="without VNNI, sums of CTranslate2's products of 8-bit integers overflow"
)


def in_exact_weights(command: str) -> str:
    """A command to export, in int8 only where that is exact enough for the small models of the tests."""
    return command.replace("--quantization int8", "--quantization float32") if _OVERFLOWS else command
