"""Libraries that only exports and imports need, loaded when one is asked for."""

from __future__ import annotations

import importlib
from typing import Any

from dragoman.config import DragomanError


def needed(module: str, extra: str) -> Any:
    """Import a module that an optional dependency brings.

    Args:
        module: dotted name.
        extra: the name under which `pip install 'dragoman[…]'` brings it.

    Raises:
        DragomanError: it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        name = module.partition(".")[0]
        raise DragomanError(f"{name} is not usable here ({error}): pip install 'dragoman[{extra}]'") from None
