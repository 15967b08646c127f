"""The exercises can be solved in more than one style, and their checks recognise mistakes planted in each."""

import ast
import inspect
import re
import sys
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from .commands import ROOT

sys.path.insert(0, str(ROOT / "learn"))

import checks
import mistakes
import other_solutions
import solutions

NOTEBOOK = ROOT / "learn" / "exercises.ipynb"
SOLVED = {name: inspect.getsource(getattr(solutions, name)) for name in mistakes.EXERCISES}

PLANTED = (ROOT / "tests" / "docs" / "planted_mistakes.txt").read_text(encoding="utf-8").splitlines()
"""Lines of: exercise | part of the verdict | a text in a right solution | what a learner wrote instead"""


def planted(name: str, *change: str) -> str:
    """What the check says about the other solution with this change."""
    scope = vars(solutions) | vars(other_solutions)
    source = inspect.getsource(scope[name])
    if change:
        old, new = (re.sub("; ", "\n    ", text) if ";" in change[0] else text for text in change)
        assert old in source, old
        source = source.replace(old, new, 1)
    exec(source, scope)
    return checks.verdict(scope[name])


@pytest.mark.parametrize("name", mistakes.EXERCISES)
def test_solutions_are_right_and_each_mistake_has_its_own_message(name: str) -> None:
    assert checks.verdict(getattr(solutions, name)) == "correct"
    assert planted(name) == "correct"
    for message, wrong in mistakes.EXERCISES[name].mistakes.items():

        def as_learner(*arguments: Any, wrong: Any = wrong) -> Any:
            return wrong(*arguments)

        as_learner.__name__ = name
        assert checks.verdict(as_learner).split("\n")[0] == message


@pytest.mark.parametrize("line", PLANTED)
def test_a_planted_mistake_is_recognised(line: str) -> None:
    name, text, *change = (part.strip() for part in f"{line} ".split(" | "))
    assert text in planted(name, *change)


@pytest.mark.parametrize(
    ("name", "body", "text"),
    [
        ("causal_mask", "...", "not written yet"),
        ("causal_mask", "mask = torch.ones(n, n).tril()", "Is the `return` missing?"),
        ("causal_mask", "return torch.ones(n, n + 1)", r"the shape is \(1, 2\), and should be \(1, 1\)"),
        ("length_penalty", "return n / a", r"returns 1\.66667, not 1\."),
        ("layer_norm", "x -= x.mean(-1, True); return F.layer_norm(x, (6,), n, a, e)", "x is changed by the call"),
        ("layer_norm", "return F.layer_norm(x.detach(), (6,), n.data, a.data, e)", "no gradient"),
        (
            "positional_encoding",
            "return torch.zeros(n, a)",
            r"values differ\. The first is at \[0, 1\]: 0, and should be 1",
        ),
        ("embed", "return 2 * x[n] * 6**0.5", "each value is 2 times"),
        ("embed", "return (x.double()[n] * 6**0.5)", "of type torch.float64"),
        ("merge_heads", "return n @ n", "stops with RuntimeError: "),
        ("greedy_decode", "while n(torch.tensor([[2]])) is not a: pass", "Does the loop ever end?"),
    ],
)
def test_other_faults_are_described(name: str, body: str, text: str) -> None:
    arguments = {"layer_norm": "x, n, a, e", "embed": "n, x", "causal_mask": "n", "merge_heads": "n"}.get(name, "n, a")
    scope = vars(solutions) | vars(other_solutions)
    exec(f"def {name}({arguments}):\n    {body}", scope)
    assert re.search(text, checks.verdict(scope[name]))


# ------------------------------------------------------------------------------------------------- the notebook


def cells(solved: bool) -> nbformat.NotebookNode:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    for cell in notebook.cells:
        if solved and (name := cell.id.replace("-", "_")) in SOLVED:
            cell.source = SOLVED[name]
    return notebook


def test_the_notebook_is_clean_and_asks_for_every_exercise() -> None:
    notebook = cells(solved=False)
    nbformat.validate(notebook)
    by_name = {cell.id.replace("-", "_"): cell for cell in notebook.cells}
    for name, solved in SOLVED.items():
        (empty,), (full,) = ast.parse(by_name[name].source).body, ast.parse(solved).body
        assert ast.unparse(empty.args) == ast.unparse(full.args), name
        assert ast.get_docstring(empty), name
        assert by_name[f"{name}_check"].source == f"check({name})"
        assert "<details><summary>Hint</summary>" in by_name[f"{name}_about"].source
        (symbol, path), *_ = re.findall(r"\[`(\w+)`\]\((\S+)\)", by_name[f"{name}_about"].source)
        assert re.search(rf"^(def|class) {symbol}\b", (NOTEBOOK.parent / path).read_text(encoding="utf-8"), re.M)
    for cell in notebook.cells:
        assert not cell.metadata
        assert not cell.get("outputs")
        assert all((NOTEBOOK.parent / path).exists() for path in re.findall(r"\]\((?!http)([^)\s]+)\)", cell.source))


@pytest.mark.parametrize("solved", [False, True])
def test_the_cells_run_in_order(solved: bool, capsys: pytest.CaptureFixture[str]) -> None:
    checks._done.clear()
    scope: dict[str, Any] = {}
    for cell in cells(solved).cells:
        if cell.cell_type == "code":
            source = cell.source.replace("SMOOTHING = 600", "SMOOTHING = 0")
            exec(compile(source, cell.id, "exec", dont_inherit=True), scope)
    found = re.findall(r"^([✓✗]) \d+ (\w+): (.*)$", capsys.readouterr().out, re.M)
    assert found == [("✓", name, "correct") if solved else ("✗", name, "not written yet") for name in SOLVED]


@pytest.mark.slow
@pytest.mark.parametrize("solved", [False, True])
def test_jupyter_runs_it_and_the_model_learns(solved: bool) -> None:
    notebook = cells(solved)
    place = {"metadata": {"path": str(NOTEBOOK.parent)}}
    NotebookClient(notebook, timeout=600, kernel_name="python3", resources=place).execute()  # raises on an error
    printed = "".join(o.text for cell in notebook.cells for o in cell.get("outputs", []) if o.name == "stdout")
    assert printed.count("✓") == (len(SOLVED) if solved else 0)
    if solved:
        assert int(re.findall(r"greedy (\d+) of 100", printed)[0]) >= 80
