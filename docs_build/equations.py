"""Equations: the build converts $…$ and ```math fences to MathML, so that browsers need no script for them."""

from __future__ import annotations

import html
import re

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import get_plugin_logger
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

log = get_plugin_logger("equations")

# The output of pymdownx.arithmatex for $…$ and ```math fences outside of code.
_INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.S)
_BLOCK = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.S)

# The converter writes names, slashes and infinity as operators, to which browsers add space.
_AS_TEX_SPACES_IT = (
    (r"<mo>([A-Za-z]{2,}|&#x0221E;)</mo>", r"<mi>\1</mi>"),
    (r"<mo>(&#x0002F;)</mo>", r'<mo lspace="0" rspace="0">\1</mo>'),
    (r' columnalign="\w+"| (?:row|column)spacing="[^"]*"| mathvariant="italic"', ""),  # not part of MathML Core
)


class BadEquation(Exception):
    """LaTeX that can't be converted to MathML."""


def to_mathml(latex: str, display: str) -> str:
    """Convert one equation to MathML.

    Args:
        latex: the text between the dollars.
        display: "inline" or "block".

    Raises:
        BadEquation: it can't be converted.
    """
    latex = re.sub(r"{aligned}", "{align*}", latex.strip())  # the only such environment that the converter supports
    try:
        mathml = convert(latex, display=display)
    except Exception as error:  # the converter's errors have no common base class
        raise BadEquation(f"{type(error).__name__} in {latex}") from error
    if unknown := re.search(r"\\[A-Za-z]+", mathml):
        raise BadEquation(f"{unknown[0]} is unknown, in {latex}")
    for pattern, replacement in _AS_TEX_SPACES_IT:
        mathml = re.sub(pattern, replacement, mathml)
    return str(mathml)


def on_page_content(content: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Convert the equations of a page."""

    def replace(match: re.Match[str], display: str) -> str:
        try:
            mathml = to_mathml(html.unescape(match[1]), display)
        except BadEquation as error:
            log.warning("%s: %s", page.file.src_uri, error)
            return f"<code>{match[1]}</code>"
        return f'<div class="equation">{mathml}</div>' if display == "block" else mathml

    content = _BLOCK.sub(lambda match: replace(match, "block"), content)
    return _INLINE.sub(lambda match: replace(match, "inline"), content)
