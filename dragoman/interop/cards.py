"""Model cards of exported folders, from `templates/`: what they are, a program that runs them, and the proof."""

from __future__ import annotations

import json

import jinja2

from dragoman.checkpoint import ModelFolder
from dragoman.interop.argos import Package
from dragoman.interop.parity import Parity

_TEMPLATES = jinja2.Environment(
    loader=jinja2.PackageLoader("dragoman.interop"),
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
    autoescape=False,  # Markdown and Python
)
_TEMPLATES.filters["json"] = json.dumps


def card(loaded: ModelFolder, target: str, quantization: str, parity: Parity, package: Package | None = None) -> str:
    """README.md of a folder exported to this target, with the front matter that model hubs read."""
    return _TEMPLATES.get_template(f"{target}.md.jinja").render(
        model=loaded,
        max_length=loaded.model.config.max_length,
        quantization=quantization,
        parity=parity,
        package=package,
        files=loaded.vocabulary.files(),
    )
