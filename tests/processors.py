"""What a test needs of the processor."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

_INFORMATION = Path("/proc/cpuinfo")
_FLAGS = _INFORMATION.read_text().split() if _INFORMATION.is_file() else ["avx_vnni"]
needs_exact_int8 = pytest.mark.skipif(
    platform.machine() in ("x86_64", "AMD64") and not {"avx512_vnni", "avx_vnni"}.intersection(_FLAGS),
    reason="without VNNI, sums of CTranslate2's products of 8-bit integers overflow",
)
