"""What holds for all tests: they compute on the CPU except tests/test_gpu.py, and hypothesis repeats its examples.

`make fuzz` loads the profile "explore" instead and names the seed.
"""

import os

import torch
from hypothesis import settings

from tests.browser import browser  # noqa: F401  # a fixture

if not os.environ.get("DRAGOMAN_GPU"):
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    torch.backends.mps.is_available = lambda: False

settings.register_profile("repeatable", deadline=None, derandomize=True, database=None)
settings.register_profile("explore", deadline=None, database=None)
settings.load_profile("repeatable")
