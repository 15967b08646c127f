"""The page about the design names what is there: every package, and every stop of its two traces."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
STOPS = re.findall(r"^\| \d+ \| `([\w/]+\.py)` \| `([\w.]+)` \|", PAGE, re.M)


def defined(file: str) -> set[str]:
    """Functions and classes of a file, methods under dotted names."""
    names = set()
    for node in ast.parse((ROOT / "dragoman" / file).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names |= {node.name, *(f"{node.name}.{getattr(member, 'name', '')}" for member in node.body)}
    return names


def test_both_traces_lead_through_functions_that_exist() -> None:
    traces = re.split(r"^## ", PAGE, flags=re.M)[1:3]
    assert all(1 < len(re.findall(r"^\| \d+ \|", trace, re.M)) <= 12 for trace in traces)
    missing = [f"{file}: {function}" for file, function in STOPS if function not in defined(file)]
    assert missing == []


def test_every_package_is_on_a_floor() -> None:
    top = [path for path in (ROOT / "dragoman").iterdir() if not path.name.startswith("__")]
    names = [f"{path.name}/" if path.is_dir() else path.name for path in top if path.suffix == ".py" or path.is_dir()]
    assert [name for name in names if f"`{name}`" not in PAGE] == []
