"""The page of a training run, or of several to compare, and the drawing of a run's curves for its model card."""

from collections.abc import Sequence
from pathlib import Path

from dragoman.folder import CURVES_FILE, REPORT_FILE
from dragoman.inference.translator import Translator
from dragoman.inspection.curves import draw
from dragoman.inspection.evidence import inspect
from dragoman.inspection.page import render
from dragoman.inspection.run import Run, differing_settings
from dragoman.runtime.files import write_together


def write_report(folder: Path, ended: bool = False) -> None:
    """Write REPORT_FILE and CURVES_FILE of the run in a folder, from what is there.

    If the run has ended, the page has a sentence with the alignment and the attention of the model.
    """
    run = Run(folder)
    curves = {"charts": draw([run], "steps")[:4]}
    contents = {REPORT_FILE: render_runs([run], ended), CURVES_FILE: render("curves.svg", curves)}
    write_together({folder / name: content.encode(errors="replace") for name, content in contents.items()})


def render_runs(runs: Sequence[Run], opened: bool = False) -> str:
    """Page of a run, or of several with their curves over each other; one that has a model can open a sentence."""
    uncut = [source for source, _ in runs[0].samples if opened and runs[0].model and not source.endswith("…")]
    sentence = min(uncut, key=lambda source: abs(len(source) - 50), default="")  # to be taken in at a glance
    folders, tables = [run.folder.resolve().name for run in runs], [run.settings for run in runs]
    names = [name if folders.count(name) == 1 else str(run.folder) for name, run in zip(folders, runs, strict=True)]
    content = {
        "runs": runs,
        "names": names,
        "pairs": dict.fromkeys(pair for run in runs for pair in run.samples),
        "axes": {axis: charts for axis in ("steps", "minutes") if (charts := draw(runs, axis))},
        "settings": differing_settings(tables if len(runs) > 1 else [runs[0].usual_settings(), *tables]),
        "record": inspect(Translator.load(runs[0].folder, engine="torch"), sentence).to_dict() if sentence else None,
    }
    return render("run.html", content)
