"""Pages of one self-contained HTML file, and drawings, from the templates in `assets/`.

A page has its styles and scripts in it, and what the scripts show as JSON, never as code; they put every word of it on
the page as text. The policy in the page's head allows these scripts and this style, by their hashes, and nothing else:
no network, no other code.
"""

import base64
import hashlib
import unicodedata
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader
from markupsafe import Markup


def render(template: str, content: dict[str, Any], package: str = "dragoman.inspection") -> str:
    """Fill a template of a package's `assets/`, hidden characters spelt out; the same content gives the same page."""
    return _environment(package).get_template(template).render(content)


_JOINERS = "\u200c\u200d"  # part of the spelling of Persian, Hindi, …


def visible(text: str) -> str:
    """The text with control characters, such as those that change the writing direction, written as ⟨U+202E⟩."""
    return "".join(
        f"⟨U+{ord(c):04X}⟩" if unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp") and c not in _JOINERS else c
        for c in text
    )


@cache
def _environment(package: str) -> Environment:
    environment = Environment(
        loader=PackageLoader(package, "assets"),
        autoescape=True,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: visible(value) if type(value) is str else value,
    )
    environment.filters["sha256"] = _sha256
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    return environment


def _sha256(text: str) -> Markup:
    """Hash of a script or style, as a content security policy names it."""
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return Markup("sha256-" + base64.b64encode(digest).decode("ascii"))
