"""Pages of one self-contained HTML file, and drawings, from the templates in `assets/`.

A page has its styles and scripts in it, and what the scripts show as JSON, never as code; they put every word of it on
the page as text. The policy in the page's head allows these scripts and this style, by their hashes, and nothing else:
no network, no other code.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader
from markupsafe import Markup

_OPENED = ("dom.js", "record.js", "colours.js", "painting.js", "heatmap.js", "overview.js", "links.js", "controls.js")
_SCRIPTS = {"page.html": (*_OPENED, "sentence.js", "steps.js", "beam.js", "page.js"), "run.html": (*_OPENED, "run.js")}
"""By page, one program in this order: what runs at once uses only the files before it."""
_STYLES = {
    "page.html": ("page.css",),
    "run.html": ("page.css", "curves.css", "run.css"),
    "curves.svg": ("curves.css",),
}
_LOADER = PackageLoader("dragoman.inspection", "assets")


def render_page(record: dict[str, Any]) -> str:
    """Page for a record from Inspection.to_dict; the same record gives the same page."""
    return render("page.html", record=record)


def render(template: str, **content: Any) -> str:
    """Fill a template of `assets/` with content; only a page with a `record` has scripts."""
    script = Markup('"use strict";\n') + _joined(_SCRIPTS[template]) if content.get("record") else ""
    style = _joined(_STYLES[template])
    return _environment().get_template(template).render(script=script, style=style, **content)


@cache
def _joined(names: tuple[str, ...]) -> Markup:
    return Markup("\n".join(_LOADER.get_source(_environment(), name)[0] for name in names))


@cache
def _environment() -> Environment:
    environment = Environment(loader=_LOADER, autoescape=True, keep_trailing_newline=True)
    environment.filters["sha256"] = _sha256
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    return environment


def _sha256(text: str) -> Markup:
    """Hash of a script or style, as a content security policy names it."""
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return Markup("sha256-" + base64.b64encode(digest).decode("ascii"))
