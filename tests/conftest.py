"""What holds for all tests.

They compute on the CPU, whatever else there is, but for those of tests/test_gpu.py; and no example of a property has to
be done in so many milliseconds, which a busy machine would not be.
"""

from __future__ import annotations

import os

import torch
from hypothesis import settings

if not os.environ.get("DRAGOMAN_GPU"):
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    torch.backends.mps.is_available = lambda: False

settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
