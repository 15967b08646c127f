"""Dragoman: raw parallel text in, a translator out, everything in between open to look at."""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

from dragoman.config import VERSION, ModelConfig, SearchConfig

if TYPE_CHECKING:
    from dragoman.inference.translator import Translator
    from dragoman.inspection.evidence import inspect
    from dragoman.model.transformer import Transformer

# PyTorch's threads (GNU OpenMP) wait for one another by running in a circle, by default for milliseconds. Where another
# program takes a core, they wait for a thread that waits for theirs: training was measured to fall to a thirtieth of
# its speed. Ten thousand turns cost nothing on an idle machine. Read when PyTorch is first imported.
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
    """Import what needs PyTorch only when somebody asks for it, so that `dragoman --help` answers at once."""
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
