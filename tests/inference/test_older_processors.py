"""Processors without bf16 units: the same results there, imitated on this one by a process that may not use them."""

import os
import platform
import subprocess
import sys

import pytest

LIMITED = {
    "AVX2": {"ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"},
    "AVX512_CORE": {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE", "MKL_ENABLE_INSTRUCTIONS": "AVX512"},
}
CHECK = """
import sys
import pytest, torch
from dragoman.runtime.device import use_bf16
assert torch.backends.cpu.get_cpu_capability() in sys.argv[1].split()
assert sys.argv[2] != "AVX2" or not use_bf16("auto", torch.device("cpu"))  # emulated, a hundred times more slowly
files = ["tests/inference/test_decoder_state.py", "tests/inference/test_engine.py"]
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "-k", "bf16 or every_kind_of_model", *files]))
"""


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="other processors have other names")
@pytest.mark.parametrize(
    ("processor", "capabilities"), [("AVX2", "DEFAULT AVX2"), ("AVX512_CORE", "DEFAULT AVX2 AVX512")]
)
def test_decoding_is_as_exact_on_processors_without_bf16_units(processor: str, capabilities: str) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST")}
    command = [sys.executable, "-c", CHECK, capabilities, processor]
    run = subprocess.run(
        command, env=environment | LIMITED[processor], capture_output=True, text=True, timeout=240, check=False
    )
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-2000:]
