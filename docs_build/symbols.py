"""Find names in the code: the syntax tree gives the lines of each."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "dragoman"


class UnknownSymbol(Exception):
    """A file, definition or text that does not exist."""


def line_of(file: str, reference: str) -> int:
    """Return the line, from 1, of `Class.method`, `CONSTANT`, `function @ text in it` or ` @ text in the file`.

    Args:
        file: path from the repository's root.
        reference: a definition, and a text to look for in it; methods and fields have dotted names.

    Raises:
        UnknownSymbol: there is no such file, definition or text.
    """
    name, at, text = (part.strip() for part in reference.partition(" @ "))
    lines = source_lines(file)
    start, end = 1, len(lines)
    if name:
        definitions = _definitions("\n".join(lines))
        if name not in definitions:
            raise UnknownSymbol(f"{file} defines no {name}")
        start, end = definitions[name]
    if not at:
        return start
    for number in range(start, end + 1):
        if text in lines[number - 1]:
            return number
    raise UnknownSymbol(f"{file}: {name or 'it'} has no line with {text!r}")


def source_lines(file: str) -> list[str]:
    """Return the lines of a file.

    Raises:
        UnknownSymbol: there is no such file.
    """
    if not (ROOT / file).is_file():
        raise UnknownSymbol(f"there is no file {file}")
    return (ROOT / file).read_text(encoding="utf-8").split("\n")


def module_file(module: str) -> str:
    """Return the file of a module, relative to the repository's root."""
    base = module.replace(".", "/")
    return f"{base}/__init__.py" if (ROOT / base).is_dir() else f"{base}.py"


@functools.cache
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
def _definitions(source: str) -> dict[str, tuple[int, int]]:
    """Return the first and last line of each definition in a file's text."""
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

    collect(ast.parse(source).body, "")
    return found
