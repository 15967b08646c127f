"""The reference of the command line, generated from the same dataclasses as the command line."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import MISSING
from itertools import groupby
from typing import Any, Literal, get_args, get_origin, get_type_hints

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

from dragoman.cli.main import VERBS
from dragoman.cli.parsing import Option
from dragoman.config import PRESETS

_VERBS, _PRESETS = "<!-- verbs -->", "<!-- presets -->"


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Insert the verbs and the presets at their marks."""
    if _VERBS in markdown:
        markdown = markdown.replace(_VERBS, "\n\n".join("\n\n".join(_verb(name)) for name in VERBS))
    return markdown.replace(_PRESETS, _presets())


def _verb(name: str) -> Iterator[str]:
    """Yield the section of a verb: its own options, then those of each group under a heading."""
    verb, types = VERBS[name], get_type_hints(VERBS[name].config)
    yield f"## {name} {{ #{name} }}"
    yield " ".join((verb.config.__doc__ or "").split())
    yield f"```text\n{verb.usage(f'dragoman {name}')}\n```"
    for group, options in groupby(verb.options, key=lambda option: option.name.rpartition(".")[0]):
        if group:
            yield f"### --{group} {{ #{name}-{group} }}"
            yield " ".join((types[group].__doc__ or "").split())
        entries = "".join(_entry(name, option, option.name in verb.positionals) for option in options)
        yield f'<dl class="options">\n{entries}</dl>'


def _entry(verb: str, option: Option, positional: bool) -> str:
    name = option.name.upper() if positional else option.flag
    default = f"default <code>{html.escape(option.default_text)}</code>" if option.default_text else ""
    return (
        f'<dt id="{verb}-{option.flag[2:]}"><code>{name}</code> <span class="kind">{html.escape(_kind(option.kind))}'
        f'</span> <span class="default">{"required" if option.default is MISSING else default}</span></dt>\n'
        f"<dd>{in_html(option.text)}</dd>\n"
    )


def _kind(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return " | ".join(get_args(kind))
    names = {bool: "true | false", str: "text", int: "whole number", float: "number"}
    return f"{names[get_args(kind)[0]]} …" if get_origin(kind) is list else names[kind]


def in_html(text: str) -> str:
    """Return a help text as HTML: escaped, `code` as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(" ".join(text.split()), quote=False))


def _presets() -> str:
    """Return a table of what each preset sets."""
    names = list(dict.fromkeys(key for preset in PRESETS.values() for key in preset))
    lines = [f"| | {' | '.join(PRESETS)} |", "|---|" + "---|" * len(PRESETS)]
    for name in names:
        values = " | ".join(str(preset.get(name, "")) for preset in PRESETS.values())
        lines.append(f"| `--{name.replace('_', '-')}` | {values} |")
    return "\n".join(lines)
