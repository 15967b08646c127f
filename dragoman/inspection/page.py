"""An inspection as one self-contained HTML page.

The page is assets/page.html with page.css, the scripts and the record in it. The record stands there as JSON, never as
code, and the scripts put every word of it on the page as text. The policy in the page's head allows these scripts and
this style, by their hashes, and nothing else: no network, no other code.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
import re
from functools import cache
from importlib.resources import files
from typing import Any

_SCRIPTS = (
    "dom.js",
    "record.js",
    "colours.js",
    "sentence.js",
    "painting.js",
    "heatmap.js",
    "overview.js",
    "steps.js",
    "beam.js",
    "links.js",
    "page.js",
)
"""One program in this order: each file uses what stands in the files before it."""

_MARKUP = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}
"""What could open or end a tag; JSON reads the escapes as the characters."""


def render_page(data: dict[str, Any]) -> str:
    """The page for what Inspection.to_dict returned; the same data gives the same page.

    Args:
        data: the record. Numbers that JSON does not have (NaN, infinity) become null.
    """
    record = json.dumps(finite(data), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for character, escape in _MARKUP.items():
        record = record.replace(character, escape)
    style, script = _asset("page.css"), _program()
    parts = {
        "TITLE": html.escape(f"{data['source']} → {data['target']}"),
        "SOURCE": html.escape(data["source"]),
        "TARGET": html.escape(data["target"]),
        "STYLE": style,
        "STYLE_HASH": _hash(style),
        "SCRIPT": script,
        "SCRIPT_HASH": _hash(script),
        "RECORD": record,
    }
    # One pass: a sentence that spells a placeholder is not filled in.
    return re.sub(r"\{\{([A-Z_]+)\}\}", lambda match: parts[match[1]], _asset("page.html"))


@cache
def _asset(name: str) -> str:
    return files("dragoman.inspection").joinpath("assets").joinpath(name).read_text(encoding="utf-8")


@cache
def _program() -> str:
    return '"use strict";\n' + "\n".join(_asset(name) for name in _SCRIPTS)


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return "sha256-" + base64.b64encode(digest).decode("ascii")


def finite(value: Any) -> Any:
    """The value with None in the place of all numbers that JSON does not have, NaN and the infinities."""
    if isinstance(value, dict):
        return {key: finite(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
