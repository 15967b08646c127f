"""The reference of the command line, from the dataclasses that the command line itself is made of."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, Literal, get_args, get_origin, get_type_hints

from docstring_parser import parse_from_object
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

from dragoman.cli.main import VERBS
from dragoman.config import PRESETS

_VERBS, _PRESETS = "<!-- verbs -->", "<!-- presets -->"


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Fill in the verbs and the presets where a page asks for them."""
    if _VERBS in markdown:
        markdown = markdown.replace(_VERBS, "\n\n".join(_verb(name) for name in VERBS))
    return markdown.replace(_PRESETS, _presets())


def _verb(name: str) -> str:
    verb = VERBS[name]
    required = [f for f in fields(verb.config) if f.default is MISSING and f.default_factory is MISSING]
    usage = [f"dragoman {name}", *(f.name.upper() for f in required if f.name in verb.positionals)]
    usage += [f"[{p.upper()}]" for p in verb.positionals if p not in {f.name for f in required}]
    usage += [f"--{f.name.rstrip('_')} …" for f in required if f.name not in verb.positionals]
    return "\n\n".join(
        [
            f"## {name} {{ #{name} }}",
            " ".join((verb.config.__doc__ or "").split()),
            f"```text\n{' '.join(usage)} [OPTIONS]\n```",
            *_options(name, verb.config, ""),
        ]
    )


def _options(verb: str, config: Any, prefix: str) -> Iterator[str]:
    """Lists of settings: those of the dataclass itself, then those of each dataclass in it under its heading."""
    types, texts = get_type_hints(config), _texts(config)
    entries, groups = [], []
    for field in fields(config):
        dotted = prefix + field.name
        if dotted in VERBS[verb].hidden:
            continue
        if is_dataclass(types[field.name]):
            groups.append((dotted, types[field.name]))
        else:
            entries.append(_entry(verb, dotted, types[field.name], field, texts.get(field.name, "")))
    yield f'<dl class="options">\n{"".join(entries)}</dl>'
    for dotted, kind in groups:
        yield f"### --{dotted} {{ #{verb}-{dotted} }}"
        yield " ".join((kind.__doc__ or "").split())
        yield from _options(verb, kind, f"{dotted}.")


def _texts(config: Any) -> dict[str, str]:
    """The text under each field, also of the dataclasses it inherits from."""
    bases = [base for base in reversed(config.__mro__) if is_dataclass(base)]
    return {p.arg_name: p.description or "" for base in bases for p in parse_from_object(base).params}


def _entry(verb: str, dotted: str, kind: Any, field: Field[Any], text: str) -> str:
    positional = dotted in VERBS[verb].positionals
    option = dotted.rstrip("_").replace("_", "-")
    name = field.name.upper() if positional else f"--{option}"
    return (
        f'<dt id="{verb}-{option}"><code>{name}</code> <span class="kind">{html.escape(_kind(kind))}</span> '
        f'<span class="default">{_default(field)}</span></dt>\n<dd>{in_html(text)}</dd>\n'
    )


def _kind(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return " | ".join(str(choice) for choice in get_args(kind))
    if kind == list[str]:
        return "TEXT …"
    return {bool: "true | false", str: "text", int: "whole number", float: "number"}.get(kind, str(kind))


def _default(field: Field[Any]) -> str:
    if field.default is MISSING and field.default_factory is MISSING:
        return "required"
    value = field.default if field.default is not MISSING else field.default_factory()  # type: ignore[misc]
    if value in ("", [], None):
        return ""
    shown = str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)
    return f"default <code>{html.escape(shown)}</code>"


def in_html(text: str) -> str:
    """A help text: escaped, `code` as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(" ".join(text.split()), quote=False))


def _presets() -> str:
    """What each preset sets, side by side."""
    names = list(dict.fromkeys(key for preset in PRESETS.values() for key in preset))
    lines = [f"| | {' | '.join(PRESETS)} |", "|---|" + "---|" * len(PRESETS)]
    for name in names:
        values = " | ".join(str(preset.get(name, "")) for preset in PRESETS.values())
        lines.append(f"| `--{name.replace('_', '-')}` | {values} |")
    return "\n".join(lines)
