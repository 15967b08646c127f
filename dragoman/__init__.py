"""Dragoman: raw parallel text in, a translator out, everything in between open to look at."""

import importlib
import os
from typing import TYPE_CHECKING, Any

from dragoman.config import VERSION, ModelConfig, SearchConfig

if TYPE_CHECKING:
    from dragoman.inference.translator import Translator
    from dragoman.inspection.evidence import inspect
    from dragoman.model.transformer import Transformer

# PyTorch's threads (GNU OpenMP) busy-wait for one another, by default for milliseconds. If another program takes a
# core, they keep busy the core that the last thread waits for: training was measured to fall to a thirtieth of its
# speed. Ten thousand spins cost nothing on an idle machine. The variable is read when PyTorch is first imported.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")

__version__ = VERSION
__all__ = ["ModelConfig", "SearchConfig", "Transformer", "Translator", "__version__", "inspect"]

_HOMES = {
    "Translator": "dragoman.inference.translator",
    "Transformer": "dragoman.model.transformer",
    "inspect": "dragoman.inspection.evidence",
}


def __getattr__(name: str) -> Any:
    """Import what needs PyTorch when it is first used, so that `dragoman --help` answers at once."""
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
