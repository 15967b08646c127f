"""Optional libraries, imported when one is needed."""

import importlib
import shlex
import sys
from typing import Any

from dragoman.config import DragomanError


def import_optional(module: str, extra: str) -> Any:
    """Import and return a module of an optional dependency, which `pip install 'dragoman[extra]'` installs."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        name, install = module.partition(".")[0], shlex.join([sys.executable, "-m", "pip", "install"])
        raise DragomanError(f"{name} is not usable here ({error}): {install} 'dragoman[{extra}]'") from None
