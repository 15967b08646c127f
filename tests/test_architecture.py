"""The house rules, checked on the source itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "dragoman"
FILES = sorted(PACKAGE.rglob("*.py"))
LONGEST_FUNCTION, LONGEST_FILE = 50, 400
FORBIDDEN_NAMES = {"utils", "util", "helpers", "helper", "misc", "common", "manager"}

# A file may import what stands on a lower floor, and what stands before it in its own package.
FLOORS = [
    [
        "config",
        "presets",
        "options",
        "reporting",
        "starting_values",
        "arguments",
        "files",
        "fetching",
        "sources",
        "extras",
    ],
    [
        "text.forms",
        "text.corpus",
        "text.lexicon",
        "text.french",
        "text.phrasebook",
        "text.subword",
        "text.dataset",
        "text.batches",
        "text.reasons",
        "text.findings",
        "text.blocks",
        "text.characters",
        "text.languages",
        "text.recognition",
        "text.examination",
        "text.repeats",
        "text.windows",
        "text.survey",
        "text.report",
        "text.doctor",
        "text.preparation",
    ],
    [
        "model.memory",
        "model.precision",
        "model.masks",
        "model.dropout",
        "model.attention",
        "model.embedding",
        "model.layers",
        "model.transformer",
        "model.product",
        "model.stepwise",
    ],
    ["checkpoint", "exported"],
    [
        "training.signals",
        "training.loss",
        "training.optimizer",
        "training.moving_average",
        "training.recorder",
        "training.progress",
        "training.distributed",
        "training.state",
        "training.ownership",
        "training.step",
        "training.fit",
        "training.shares",
        "training.rehearsal",
        "training.symptoms",
        "training.health",
        "training.validation",
        "training.trainer",
        "inference.rules",
        "inference.search",
        "inference.evaluation",
        "inference.alignment",
        "inference.workers",
        "inference.batching",
        "inference.engine",
        "inference.ctranslate2_engine",
        "inference.long_lines",
        "inference.encoding",
        "inference.translation",
        "inspection.page",
        "inspection.record",
        "inspection.evidence",
        "inspection.terminal",
        "inference.translator",
    ],
    [
        "figures.style",
        "figures.masks",
        "figures.positions",
        "figures.training",
        "figures.normalization",
        "figures.attention",
        "figures.walkthrough",
        "figures.parts",
        "figures.catalogue",
        "figures.gallery",
        "interop.marian",
        "interop.huggingface",
        "interop.arrival",
        "interop.ctranslate2",
        "interop.argos",
        "interop.onnx",
        "interop.parity",
        "interop.sides",
        "interop.cards",
    ],
    [
        "views",
        "download",
        "split",
        "quotation",
        "commands",
        "train",
        "recipe",
        "reproduce",
        "exchange",
        "demo",
        "cli",
        "__main__",
    ],
]
# Packages that never import each other.
STRANGERS = [("text", "model"), ("training", "inference"), ("training", "inspection")]
PLACE = {name: (floor, i) for floor, names in enumerate(FLOORS) for i, name in enumerate(names)}


def module_name(path: Path) -> str:
    name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
    return "" if name == "__init__" else name.removesuffix(".__init__")


MODULES = {module_name(path): ast.parse(path.read_text(encoding="utf-8")) for path in FILES}
PLAIN = {name: tree for name, tree in MODULES.items() if name in PLACE}


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


def test_the_page_about_the_design_names_every_file() -> None:
    page = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    named = [name for name in PLACE if not name.startswith("figures.")]  # gallery.py lists those
    missing = [name for name in named if f"`{name.rpartition('.')[2]}.py`" not in page]
    assert missing == []


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def public_definitions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.ClassDef]:
    """Public functions and classes of a module, and the methods of public classes."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            yield node
            if isinstance(node, ast.ClassDef):
                for member in node.body:
                    special = getattr(member, "name", "_") in ("__init__", "__call__")
                    if isinstance(member, ast.FunctionDef) and (special or not member.name.startswith("_")):
                        yield member


def test_every_module_has_its_place_in_the_house() -> None:
    packages = {"", "text", "model", "training", "inference", "inspection", "figures", "interop"}
    assert {name for name in MODULES if name not in packages} == set(PLACE)


@pytest.mark.parametrize("name", PLAIN)
def test_imports_only_go_down(name: str) -> None:
    for imported, node in imports(MODULES[name]):
        if not imported:  # the package itself re-exports from every floor
            raise AssertionError(f"{name}:{node.lineno} imports the package itself")
        assert PLACE[imported] < PLACE[name], f"{name}:{node.lineno} imports {imported}, which is not below it"
        for a, b in STRANGERS:
            pair = {name.split(".")[0], imported.split(".")[0]}
            assert pair != {a, b}, f"{name}:{node.lineno}: {a} and {b} must not know each other"


@pytest.mark.parametrize("name", MODULES)
def test_nothing_is_imported_lazily_or_by_star(name: str) -> None:
    for function in functions(MODULES[name]):
        lazy = [n for n in ast.walk(function) if isinstance(n, ast.Import | ast.ImportFrom)]
        assert not lazy, f"{name}:{lazy[0].lineno} imports inside a function"
    stars = [n for n in ast.walk(MODULES[name]) if isinstance(n, ast.ImportFrom) and n.names[0].name == "*"]
    assert not stars
    # The places that may load modules by name: the verbs, what needs PyTorch in the package's own names, and extras.
    dynamic = "importlib" in ast.dump(MODULES[name]) and "import_module" in ast.dump(MODULES[name])
    assert not dynamic or name in ("cli", "", "extras")


@pytest.mark.parametrize("name", MODULES)
def test_functions_and_files_are_short(name: str) -> None:
    folder = PACKAGE.joinpath(*name.split("."))
    path = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    assert len(path.read_text(encoding="utf-8").splitlines()) <= LONGEST_FILE
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
        and name.split(".")[0] in ("inference", "model", "training", "commands", "train", "demo")
    ]
    assert [name for name, _ in loops] == ["inference.search"]


def test_the_tests_mirror_the_package() -> None:
    exempt = {"__main__"}  # covered through the command line
    for name in PLACE:
        if name in exempt:
            continue
        parts = name.split(".")
        folder = ROOT.joinpath("tests", *parts[:-1])
        name = f"test_{parts[-1]}.py"
        assert (folder / name).is_file() or (folder / parts[-1] / name).is_file(), f"{folder / name} is missing"
