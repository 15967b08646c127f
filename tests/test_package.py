from __future__ import annotations

import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "10000"),
        ({"GOMP_SPINCOUNT": "5"}, "5"),
        ({"OMP_WAIT_POLICY": "active"}, "None"),
    ],
)
def test_threads_wait_for_one_another_only_briefly_unless_told_otherwise(given: dict[str, str], expected: str) -> None:
    environment = {
        name: value for name, value in os.environ.items() if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
    }
    code = "import dragoman, os, sys; print(os.environ.get('GOMP_SPINCOUNT')); assert 'torch' not in sys.modules"
    said = subprocess.run(
        [sys.executable, "-c", code], env=environment | given, capture_output=True, text=True, check=True
    )
    assert said.stdout.strip() == expected
