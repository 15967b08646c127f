"""The options of the command line and the presets, from the same dataclasses as the command line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING
from itertools import groupby
from typing import Any, Literal, get_args, get_origin, get_type_hints

from dragoman.cli.main import VERBS
from dragoman.cli.parsing import Option
from dragoman.config import PRESETS


def verbs() -> str:
    """Return a section for each verb: its own options, then those of each group under a heading."""
    return "\n\n".join(paragraph for name in VERBS for paragraph in _verb(name))


def _verb(name: str) -> Iterator[str]:
    verb, types = VERBS[name], get_type_hints(VERBS[name].config)
    yield f"## {name}"
    yield " ".join((verb.config.__doc__ or "").split())
    yield f"```text\n{verb.usage(f'dragoman {name}')}\n```"
    for group, options in groupby(verb.options, key=lambda option: option.name.rpartition(".")[0]):
        if group:
            yield f"### {name}: {group}"
            yield " ".join((types[group].__doc__ or "").split())
        yield "\n".join(_entry(option, option.name in verb.positionals) for option in options)


def _entry(option: Option, positional: bool) -> str:
    name = option.name.upper() if positional else option.flag
    kind = [_kind(option.kind)]
    if option.default is MISSING:
        kind.append("required")
    elif option.default_text:
        kind.append(f"default `{option.default_text}`")
    return f"- **`{name}`** ({', '.join(kind)}): {' '.join(option.text.split())}"


def _kind(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return " or ".join(f"`{value}`" for value in get_args(kind))
    names = {bool: "true or false", str: "text", int: "whole number", float: "number"}
    return f"{names[get_args(kind)[0]]} …" if get_origin(kind) is list else names[kind]


def presets() -> str:
    """Return a table of what each preset sets."""
    names = list(dict.fromkeys(key for preset in PRESETS.values() for key in preset))
    lines = [f"| | {' | '.join(PRESETS)} |", "|---|" + "---|" * len(PRESETS)]
    for name in names:
        values = " | ".join(str(preset.get(name, "")) for preset in PRESETS.values())
        lines.append(f"| `--{name.replace('_', '-')}` | {values} |")
    return "\n".join(lines)
