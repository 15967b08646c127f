"""The page of a training run: a function of what is in the run's folder, safe to open, and right about it."""

import base64
import hashlib
import json
import re
import shutil
import xml.etree.ElementTree as ElementTree
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import yaml

from dragoman.checkpoint import picture_of_curves
from dragoman.config import DragomanError, TrainConfig
from dragoman.folder import CURVES_FILE, REPORT_FILE
from dragoman.inspection.curves import draw, ticks
from dragoman.inspection.run import Run, differing_settings
from dragoman.inspection.run_page import render_runs, write_report
from dragoman.training.diagnostics import examine_translations

from .test_page import HOSTILE, Page, policy

BEFORE = Path(__file__).parents[1] / "written_before" / "run"


def make_run(folder: Path, texts: list[str], seconds: bool = True, **settings: Any) -> Path:
    """A run with a validation for each of these translations of one sentence, ten steps apart."""
    folder.mkdir(parents=True)
    lines: list[dict[str, Any]] = []
    for place, text in enumerate(texts, 1):
        health = examine_translations(["a b"], ["A B"], [text], [[5, 6]], [[5, 7]], 0.5, 1.0).values()
        for step in range(10 * place - 9, 10 * place + 1):
            lines.append({"step": step, "train/loss": 9.0 / step, "train/lr": 1e-4 * step})
        lines.append({"step": step, "valid/loss": 8.0 / step, "valid/bleu": 7.0 * place, "valid/chrf": 9.0 * place})
        values = {f"health/{name}": value for name, value in health.items()}
        lines.append({"step": step, **values, "warning": "", "samples": [["a b", "A B", text]]})
    for line in lines if seconds else ():
        line["seconds"] = 6.0 * line["step"]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    chosen = asdict(TrainConfig(source="en", target="xx", train=["t"], out=str(folder))) | settings
    chosen["from"] = chosen.pop("from_")
    (folder / "train.yaml").write_text(yaml.safe_dump(chosen))
    return folder


def page_of(*folders: Path) -> Page:
    return Page(render_runs([Run(folder) for folder in folders]))


def words(page: str) -> str:
    return " ".join(re.sub(r"<(style|script).*?</\1>|<[^>]*>", " ", page, flags=re.S).split())


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_becomes_markup_wherever_it_stands(text: str, tmp_path: Path) -> None:
    name = text.replace("/", "").encode(errors="replace").decode()
    harmless, hostile = make_run(tmp_path / "a", ["loud"]), make_run(tmp_path / "b" / name, ["".join(text.split())])
    for folder, word in ((harmless, "loud"), (hostile, text)):
        finding = {"reason": word, "severity": "note", "text": word, "count": 1, "unit": word, "advice": word}
        (folder / "check.json").write_text(json.dumps({"findings": [finding]}))
        (folder / "config.json").write_text(json.dumps({"facts": {"validation": {"bleu": 1.0}, "kept": word}}))
    assert page_of(hostile).tags == page_of(harmless).tags
    write_report(hostile)
    page = (hostile / REPORT_FILE).read_text(encoding="utf-8")
    assert not set(page) & set("\u2028\u2029\u202e\u2066")
    ElementTree.parse(hostile / CURVES_FILE)


def test_a_page_needs_nothing_from_elsewhere_and_allows_its_own_style_only(tmp_path: Path) -> None:
    page = page_of(make_run(tmp_path / "run", ["A B", "A"]))
    links = [a[name] or "" for _, a in page.tags for name in ("src", "href", "action", "data") if name in a]
    assert links
    assert all(link.startswith("#") for link in links)
    digest = base64.b64encode(hashlib.sha256(page.texts["style"].encode()).digest()).decode()
    assert f"script-src 'none'; style-src 'sha256-{digest}';" in policy(page)
    assert not [name for _, a in page.tags for name in a if name.startswith("on") or name == "style"]


def test_translations_that_did_not_change_are_joined_and_words_of_the_reference_known(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", ["B C", "B C", "B A", "", "B C"])
    ((pair, rows),) = Run(folder).samples.items()
    assert pair == ("a b", "A B")
    assert [row[:3] for row in rows] == [[10, 20, "B C"], [30, 30, "B A"], [40, 40, ""], [50, 50, "B C"]]
    assert rows[0][3] == [("B ", True), ("C ", False)]
    (folder / "train.yaml").write_text("target: zh\n")
    assert Run(folder).samples[pair][0][3] == [("B", True), (" ", True), ("C", False)]
    assert "reference A B 10 – 20 B C 30 B A 40 (nothing) 50 B C" in words(render_runs([Run(folder)]))


def test_the_settings_that_somebody_chose_are_shown(tmp_path: Path) -> None:
    chosen = {"preset": "small", "seed": 7, "model": {"dropout": 0.15, "d_model": 64}, "clean": {"overlap": False}}
    run = Run(make_run(tmp_path / "a", ["A"], **chosen))
    shown = differing_settings([run.usual_settings(), run.settings])
    assert shown["seed"] == [1, 7]
    assert shown["model.d_model"] == [256, 64]
    assert shown["clean.overlap"] == [True, False]
    assert not {"model.dropout", "model.norm", "train", "out", "preset"} & shown.keys()
    tuned = Run(make_run(tmp_path / "b", ["A"], from_="parent", model={"d_model": 64}))
    shown = differing_settings([tuned.usual_settings(), tuned.settings])
    assert shown["validation.every"] == [100, 500]
    assert "model.d_model" not in shown
    assert differing_settings([run.settings, tuned.settings])["seed"] == [7, 1]


# ---- curves


def test_curves_go_through_the_values_and_their_scale_has_round_numbers(tmp_path: Path) -> None:
    charts = {chart["title"]: chart for chart in draw([Run(make_run(tmp_path / "run", ["A"] * 9))], "steps")}
    bleu = charts["BLEU"]
    (low, first), (high, last) = ((y, float(label)) for y, label in (bleu["y_ticks"][0], bleu["y_ticks"][-1]))
    for place, (x, y, step, value) in enumerate(bleu["lines"][0]["dots"], 1):
        assert (step, value) == (10 * place, 7.0 * place)
        assert first + (last - first) * (low - y) / (low - high) == pytest.approx(value, abs=0.05)
        assert x == pytest.approx(46 + 304 * step / 90, abs=0.1)
    loss = charts["Loss"]
    assert float(loss["y_ticks"][-1][1]) <= 1.0, "the first losses, up to 9, do not set the scale"
    assert [line["main"] for line in loss["lines"]] == [False, True]


@pytest.mark.parametrize("low", [0.0, 0.3, 1e-5, 12.0, 4e6, -3.0])
@pytest.mark.parametrize("span", [0.0, 1e-7, 0.7, 8.0, 99.0, 3e5])
def test_ticks_are_few_and_surround_the_values(low: float, span: float) -> None:
    found = ticks(low, low + span)
    slack = 1e-6 * max(abs(low), span)
    assert found[0] <= low + slack
    assert found[-1] >= low + span - slack
    assert 2 <= len(found) <= 8
    assert f"{found[1] - found[0]:e}"[0] in "125" or span < 1e-6 * abs(low)


def test_a_long_run_is_drawn_by_means(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", ["A"])
    with (folder / "metrics.jsonl").open("a") as file:
        for step in range(11, 5001):
            file.write(json.dumps({"step": step, "train/lr": float(step % 2)}) + "\n")
    (line,) = next(chart for chart in draw([Run(folder)], "steps") if chart["title"] == "Learning rate")["lines"]
    assert 100 < len(line["points"]) <= 200
    assert all(value == pytest.approx(0.5, abs=0.05) for _, value, _ in line["points"][1:])


# ---- folders


def test_a_run_of_before_has_a_page_without_what_was_not_recorded_then(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(BEFORE, tmp_path / "run"))
    write_report(folder, ended=True)
    shown = words((folder / REPORT_FILE).read_text())
    assert "Curves" in shown
    assert "forced" in shown
    assert "100 pairs, 1,742 → 1,681 subwords" in shown
    assert "over minutes" not in shown
    assert "Translations" not in shown
    first = (folder / REPORT_FILE).read_bytes()
    write_report(folder, ended=True)
    assert (folder / REPORT_FILE).read_bytes() == first
    assert CURVES_FILE in picture_of_curves(folder)
    assert picture_of_curves(tmp_path) == ""


def test_runs_are_told_apart_and_a_different_validation_text_is_said(tmp_path: Path) -> None:
    folders = [make_run(tmp_path / name / "run", ["A", text]) for name, text in (("x", "A B"), ("y", "B"))]
    store = json.loads((BEFORE / "data" / "valid" / "store.json").read_text())
    for folder, digest in zip(folders, ("same", "other"), strict=True):
        store["report"]["fingerprint"] = digest
        (folder / "data" / "valid").mkdir(parents=True)
        (folder / "data" / "valid" / "store.json").write_text(json.dumps(store))
    page = render_runs([Run(folder) for folder in folders])
    assert f"reference A B {folders[0]} A B {folders[1]} B" in words(page)
    assert page.count('<g class="main run1">') == 12
    assert "cannot be compared" in words(page)
    assert "cannot be compared" not in words(render_runs([Run(folders[0]), Run(folders[0])]))


def test_a_folder_without_a_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(DragomanError, match=r"has no metrics\.jsonl of a training run"):
        Run(tmp_path)
