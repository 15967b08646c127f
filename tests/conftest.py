"""What holds for all tests: they compute on the CPU, whatever else there is, but for those of tests/test_gpu.py."""

from __future__ import annotations

import os

import torch

if not os.environ.get("DRAGOMAN_GPU"):
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    torch.backends.mps.is_available = lambda: False
