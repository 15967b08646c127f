"""An inspection as one self-contained HTML page.

The page is assets/page.html with page.css, the scripts and the record in it. The record stands there as JSON, never as
code, and the scripts put every word of it on the page as text. The policy in the page's head allows these scripts and
this style, by their hashes, and nothing else: no network, no other code.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, Template
from markupsafe import Markup

_SCRIPTS = (
    *("dom.js", "record.js", "colours.js", "sentence.js", "painting.js", "heatmap.js", "overview.js"),
    *("steps.js", "beam.js", "links.js", "page.js"),
)
"""One program in this order: each file uses the files before it."""


def render_page(record: dict[str, Any]) -> str:
    """Page for a record from Inspection.to_dict; the same record gives the same page."""
    return _template().render(record=record)


@cache
def _template() -> Template:
    loader = PackageLoader("dragoman.inspection", "assets")
    environment = Environment(loader=loader, autoescape=True, keep_trailing_newline=True)
    environment.filters["sha256"] = _sha256
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}

    def asset(name: str) -> str:
        return loader.get_source(environment, name)[0]

    program = '"use strict";\n' + "\n".join(map(asset, _SCRIPTS))
    parts = {"style": Markup(asset("page.css")), "script": Markup(program)}
    return environment.get_template("page.html", globals=parts)


def _sha256(text: str) -> Markup:
    """Hash of a script or style, as a content security policy names it."""
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return Markup("sha256-" + base64.b64encode(digest).decode("ascii"))
