"""Find names in the code: the syntax tree gives the file and line of each.

A reference is one of

    dragoman.model.attention                                          a module
    dragoman.model.attention:MultiHeadAttention.project               something it defines
    dragoman.model.attention:MultiHeadAttention.project @ some text   the first line in it with this text
    tests/model/test_masks.py::test_every_pad_symbol_is_hidden        a test
"""

from __future__ import annotations

import ast
import functools
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "dragoman"


class UnknownSymbol(Exception):
    """A reference to a file, definition or text that does not exist."""


@dataclass(frozen=True)
class Place:
    """The target of a reference."""

    file: str
    """Path from the repository's root, with forward slashes."""
    line: int
    """From 1."""
    module: str
    """The dotted module, or the path of a test file."""
    name: str
    """The name defined there; empty for the module itself."""

    @property
    def is_public(self) -> bool:
        """Whether the API reference has it."""
        parts = [*self.module.split("."), *self.name.split(".")]
        return self.module.startswith(PACKAGE) and not any(part.startswith("_") for part in parts)


def resolve(reference: str) -> Place:
    """Return the place that a reference names.

    Raises:
        UnknownSymbol: there is no such file, definition or text.
    """
    symbol, at, text = (part.strip() for part in reference.partition(" @ "))
    separator = "::" if "::" in symbol else ":"
    module, _, name = symbol.partition(separator)
    file = module if separator == "::" else module_file(module)
    path = ROOT / file
    if not path.is_file():
        raise UnknownSymbol(f"{reference}: there is no file {file}")
    start, end = 1, len(_lines(path))
    if name:
        definitions = _definitions(path)
        if name not in definitions:
            raise UnknownSymbol(f"{reference}: {file} defines no {name}")
        start, end = definitions[name]
    if not at:
        return Place(file, start, module, name)
    for number in range(start, end + 1):
        if text in _lines(path)[number - 1]:
            return Place(file, number, module, name)
    raise UnknownSymbol(f"{reference}: {name or file} has no line with {text!r}")


def module_file(module: str) -> str:
    """Return the file of a module, relative to the repository's root."""
    base = module.replace(".", "/")
    return f"{base}/__init__.py" if (ROOT / base).is_dir() else f"{base}.py"


def modules() -> list[str]:
    """Return all modules of the package, dotted, in alphabetical order."""
    names = []
    for path in sorted((ROOT / PACKAGE).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        names.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return names


def parse(path: Path) -> ast.Module:
    """Return the syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"))


@functools.cache
def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n")


@functools.cache
def _definitions(path: Path) -> dict[str, tuple[int, int]]:
    """Return the first and last line of each definition in a file; methods and fields have dotted names."""
    found: dict[str, tuple[int, int]] = {}

    def collect(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                names = [node.name]
            elif isinstance(node, ast.Assign):
                names = [n.id for target in node.targets for n in ast.walk(target) if isinstance(n, ast.Name)]
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                names = [node.target.id]
            else:
                continue
            for name in names:
                found.setdefault(prefix + name, (node.lineno, node.end_lineno or node.lineno))
            if isinstance(node, ast.ClassDef):
                collect(node.body, f"{prefix}{node.name}.")

    collect(parse(path).body, "")
    return found


def forget() -> None:
    """Clear the caches, so that every file is read again."""
    _lines.cache_clear()
    _definitions.cache_clear()
