"""The API reference: a page for every module, in the order of the floors."""

from __future__ import annotations

import ast
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from sources import api_uri, as_code, has_api
from symbols import PACKAGE, ROOT, module_file, modules, parse


def floors() -> list[list[str]]:
    """Return the modules of each floor, lowest first, as the test of the architecture lists their packages."""
    tree = parse(ROOT / "tests" / "test_architecture.py")
    (value,) = (
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "FLOORS"
    )
    described = [module for module in modules() if has_api(module) and module != PACKAGE]
    return [
        [module for name in names for module in described if f"{module}.".startswith(f"{PACKAGE}.{name}.")]
        for names in ast.literal_eval(value)
    ]


def summary(module: str) -> str:
    """Return the first paragraph of a module's docstring on one line."""
    text = ast.get_docstring(parse(ROOT / module_file(module))) or ""
    return " ".join(text.split("\n\n")[0].split())


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages to the site and to the navigation."""
    for module in [PACKAGE, *(module for floor in floors() for module in floor)]:
        files.append(File.generated(config, api_uri(module), content=_page(module)))
    files.append(File.generated(config, "api/index.md", content=_overview()))
    config.nav = [_navigation() if isinstance(item, dict) and "API" in item else item for item in config.nav or []]
    return files


def _page(module: str) -> str:
    title = module.removeprefix(PACKAGE + ".")
    return f"---\ntitle: {title}\n---\n\n# {as_code(module)}\n\n::: {module}\n"


def _navigation() -> dict[str, Any]:
    """Return the navigation: single modules, and packages as groups, in the order of the floors."""
    items: list[Any] = ["api/index.md", {PACKAGE: api_uri(PACKAGE)}]
    groups: dict[str, list[Any]] = {}
    for module in (module for floor in floors() for module in floor):
        package, _, name = module.removeprefix(PACKAGE + ".").rpartition(".")
        entry = {name: api_uri(module)}
        if not package:
            items.append(entry)
        elif package in groups:
            groups[package].append(entry)
        else:
            groups[package] = [entry]
            items.append({package: groups[package]})
    return {"API": items}


def _overview() -> str:
    lines = [
        "---\ntitle: API reference\n---\n\n# API reference\n",
        "Most programs need only names that `import dragoman` provides: "
        "[`Translator`][dragoman.inference.translator.Translator] translates raw lines; "
        "[`SearchConfig`][dragoman.config.SearchConfig] has the settings of its search; "
        "[`inspect`][dragoman.inspection.evidence.inspect] shows one translation from the inside; "
        "[`Transformer`][dragoman.model.transformer.Transformer] with its "
        "[`ModelConfig`][dragoman.config.ModelConfig] is the model itself.\n",
        "Imports only go down, to packages on a lower floor or before it in the list "
        "([how Dragoman is built](../design.md)). The lowest floor comes first.\n",
    ]
    for number, floor in enumerate(floors()):
        lines.append(f"\n## Floor {number}\n\n| module | |\n|---|---|")
        for module in floor:
            link = f"[`{module.removeprefix(PACKAGE + '.')}`](../{api_uri(module)})"
            lines.append(f"| {link} | {summary(module)} |")
    return "\n".join(lines) + "\n"
