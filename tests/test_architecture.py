"""The house rules, checked on the source itself."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "dragoman"
FILES = sorted(PACKAGE.rglob("*.py"))
LONGEST_FUNCTION = 50
MOST_LINES = 16_391
"""Of the whole package; may only go down."""
COUNTED = [("package", FILES), ("tests", sorted((ROOT / "tests").rglob("*.py")))]
FORBIDDEN_NAMES = {"utils", "util", "helpers", "helper", "misc", "common", "manager"}

# A module may import what stands on a lower floor, in an earlier package of its floor, or in its own package.
FLOORS = [
    ["config", "runtime"],
    ["text", "model"],
    ["corpus_check"],
    ["folder"],
    ["checkpoint", "datasets"],
    ["training", "inference"],
    ["evaluation", "inspection", "figures", "serving", "interop"],
    ["train"],
    ["cli", "__main__"],
]
STRANGERS = [("text", "model"), ("training", "inference")]
"""Packages of one floor that never import each other."""
PLACE = {name: (floor, i) for floor, names in enumerate(FLOORS) for i, name in enumerate(names)}


def module_name(path: Path) -> str:
    name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
    return "" if name == "__init__" else name.removesuffix(".__init__")


MODULES = {module_name(path): ast.parse(path.read_text(encoding="utf-8")) for path in FILES}


def imports(tree: ast.AST) -> Iterator[tuple[str, ast.stmt]]:
    """The package's own modules that a tree imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "dragoman":
            base = (node.module or "").removeprefix("dragoman").removeprefix(".")
            for alias in node.names:
                full = f"{base}.{alias.name}".strip(".")
                yield (full if full in MODULES else base), node
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "dragoman":
                    yield alias.name.removeprefix("dragoman").removeprefix("."), node


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def public_definitions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.ClassDef]:
    """Public functions and classes of a module, and the methods of public classes."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            yield node
            if isinstance(node, ast.ClassDef):
                for member in node.body:
                    if isinstance(member, ast.FunctionDef) and not member.name.startswith("_"):
                        yield member


def test_every_package_has_its_floor() -> None:
    assert {name.split(".")[0] for name in MODULES if name} == set(PLACE)


@pytest.mark.parametrize("name", [name for name in MODULES if name])
def test_imports_only_go_down(name: str) -> None:
    package = name.split(".")[0]
    for imported, node in imports(MODULES[name]):
        assert imported, f"{name}:{node.lineno} imports the package itself"
        other = imported.split(".")[0]
        if other == package:
            continue
        assert PLACE[other] < PLACE[package], f"{name}:{node.lineno} imports {imported}, which is not below it"
        assert {package, other} not in map(set, STRANGERS), f"{name}:{node.lineno} imports {imported}"


def test_no_package_has_a_cycle_inside() -> None:
    below = {
        name: {other for other, _ in imports(tree) if other and other.split(".")[0] == name.split(".")[0]}
        for name, tree in MODULES.items()
        if name
    }
    while leaves := {name for name, others in below.items() if not others & below.keys() - {name}}:
        below = {name: others for name, others in below.items() if name not in leaves}
    assert not below, f"these modules import each other in a circle: {sorted(below)}"


@pytest.mark.parametrize("name", MODULES)
def test_nothing_is_imported_lazily_or_by_star(name: str) -> None:
    for function in functions(MODULES[name]):
        lazy = [n for n in ast.walk(function) if isinstance(n, ast.Import | ast.ImportFrom)]
        assert not lazy, f"{name}:{lazy[0].lineno} imports inside a function"
    stars = [n for n in ast.walk(MODULES[name]) if isinstance(n, ast.ImportFrom) and n.names[0].name == "*"]
    assert not stars
    # The places that may load modules by name: the verbs, what needs PyTorch in the package's own names and in a
    # translator, and extras.
    dynamic = "importlib" in ast.dump(MODULES[name]) and "import_module" in ast.dump(MODULES[name])
    assert not dynamic or name in ("cli.main", "", "inference.translator", "runtime.optional_imports")


@pytest.mark.parametrize("name", MODULES)
def test_functions_are_short(name: str) -> None:
    for function in functions(MODULES[name]):
        length = (function.end_lineno or 0) - function.lineno + 1
        assert length <= LONGEST_FUNCTION, f"{name}:{function.lineno} {function.name} has {length} lines"


@pytest.mark.parametrize("name", MODULES)
def test_public_names_are_documented_and_typed(name: str) -> None:
    assert ast.get_docstring(MODULES[name]), f"{name} has no docstring"
    for node in public_definitions(MODULES[name]):
        assert ast.get_docstring(node), f"{name}:{node.lineno} {node.name} has no docstring"
        if isinstance(node, ast.FunctionDef):
            arguments = [a for a in (*node.args.args, *node.args.kwonlyargs) if a.arg not in ("self", "cls")]
            assert all(a.annotation for a in arguments), f"{name}:{node.lineno} {node.name} lacks annotations"
            assert node.returns, f"{name}:{node.lineno} {node.name} lacks its return type"
            assert not node.args.kwarg, f"{name}:{node.lineno} {node.name} takes **{node.args.kwarg and 'kwargs'}"


@pytest.mark.parametrize("name", MODULES)
def test_no_bare_except_and_no_drawers(name: str) -> None:
    handlers = [n for n in ast.walk(MODULES[name]) if isinstance(n, ast.ExceptHandler)]
    assert all(handler.type is not None for handler in handlers)
    assert not FORBIDDEN_NAMES & set(name.lower().split("."))


def test_masks_are_made_in_one_place() -> None:
    triangles = [
        (name, node.lineno)
        for name, tree in MODULES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in ("tril", "triu", "tril_", "triu_")
    ]
    assert [name for name, _ in triangles] == ["model.masks"]


def test_there_is_one_decode_loop() -> None:
    loops = [
        (name, node.lineno)
        for name, tree in MODULES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.While | ast.For)
        and any(
            isinstance(call, ast.Call)
            and getattr(call.func, "id", getattr(call.func, "attr", "")) in ("step", "decode")
            for part in node.body
            for call in ast.walk(part)
        )
        and name.split(".")[0] in ("inference", "model", "training", "train", "cli")
    ]
    assert [name for name, _ in loops] == ["inference.search"]


def test_the_whole_keeps_its_budget() -> None:
    lines = {kind: sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files) for kind, files in COUNTED}
    assert lines["package"] <= MOST_LINES
    assert lines["tests"] <= 1.5 * lines["package"]
    assert len([path for path in FILES if path.parent == PACKAGE and not path.name.startswith("__")]) <= 5
