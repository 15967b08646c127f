"""The page stays whole whatever it is given: hostile text, phones, notebooks, long sentences, other scripts."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from dragoman.config import SearchConfig
from dragoman.inference.translator import Translator
from dragoman.inspection.evidence import inspect
from dragoman.inspection.record import Inspection
from tests.inspection.browsers import (
    BLOCKS,
    MEAN,
    PRECISE,
    SCRIPTS,
    SENTENCE,
    WORDS,
    ActionChains,
    By,
    chips,
    choose,
    complaints,
    expected,
    lit,
    overflow,
    show,
    wait,
)

pytestmark = pytest.mark.slow

HOSTILE = "<script>window.hacked=1</script> </script><img src=x onerror=window.hacked=1> \"' &lt; <!-- \u202e"


def test_lanes_of_the_tree_never_collide(browser: Any, translator: Translator, tmp_path: Path) -> None:
    record = inspect(translator, SENTENCE, SearchConfig(beam=4, max_length=40))
    show(browser, record.to_html(), tmp_path)
    places = browser.execute_script(
        "return [...document.querySelectorAll('.tree .node')].map((n) => `${n.style.gridColumn} ${n.style.gridRow}`)"
    )
    assert len(places) == len(set(places)) == len(record.tree) + 1
    columns = [int(place.split()[0]) for place in places[1:]]
    assert columns == [node.depth + 2 for node in record.tree]


def test_hostile_text_stays_text(browser: Any, translator: Translator, tmp_path: Path) -> None:
    record = inspect(translator, HOSTILE, SearchConfig(max_length=4), translation=HOSTILE)
    complaints(browser)
    show(browser, record.to_html(), tmp_path)
    for kind in BLOCKS:
        choose(browser, kind, 0, 0)
        ActionChains(browser).move_to_element(chips(browser, "target")[2]).perform()
    visible = HOSTILE.replace("\u202e", "⟨U+202E⟩")
    assert browser.execute_script("return typeof window.hacked") == "undefined"
    assert browser.execute_script("return document.getElementById('source-text').textContent") == visible
    assert browser.execute_script("return document.title") == f"{visible} → {visible}"
    assert browser.execute_script("return document.querySelectorAll('script, img').length") == 2
    assert complaints(browser) == []


def test_nothing_sticks_out_of_a_phone(
    browser: Any, inspection: Inspection, translator: Translator, tmp_path: Path
) -> None:
    unbroken = inspect(translator, "dog" * 60, SearchConfig(max_length=4), translation="cat" * 60)
    for record in (inspection, unbroken):
        show(browser, record.to_html(), tmp_path, width=390)
        for kind in BLOCKS:
            choose(browser, kind, 0, MEAN)
            assert overflow(browser) == 0
            assert browser.execute_script("return innerWidth") == 390  # or the phone would have zoomed out
        browser.execute_script("for (const help of document.querySelectorAll('details')) help.open = true")
        assert overflow(browser) == 0


@pytest.mark.parametrize("dark", [False, True])
def test_every_word_stands_out_from_its_ground(
    browser: Any, inspection: Inspection, tmp_path: Path, dark: bool
) -> None:
    show(browser, inspection.to_html(), tmp_path)
    if browser.execute_script("return theme()") != ("dark" if dark else "light"):
        browser.find_element(By.ID, "theme").click()
    assert browser.execute_script("return theme()") == ("dark" if dark else "light")
    browser.execute_script("for (const help of document.querySelectorAll('details')) help.open = true")
    time.sleep(0.3)  # colours change softly
    faint = browser.execute_script(
        """const numbers = (text) => text.match(/[\\d.]+/g).map(Number);
        const ground = (node) => {
          for (let at = node; at; at = at.parentElement) {
            const colour = numbers(getComputedStyle(at).backgroundColor);
            if (colour.length === 3 || colour[3] === 1) return colour;
          }
        };
        const ratio = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        const found = [];
        for (const node of document.body.querySelectorAll("*:not(script, style, option)")) {
          if (![...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim())) continue;
          const back = ground(node);
          const contrast = ratio(luminance(numbers(getComputedStyle(node).color)), luminance(back));
          if (contrast < 4.5) found.push([node.className, node.textContent, contrast]);
        }
        return found;"""
    )
    assert faint == []


def test_it_works_inside_a_notebook(
    browser: Any, inspection: Inspection, weights: dict[str, Tensor], tmp_path: Path
) -> None:
    complaints(browser)
    path = tmp_path / "notebook.html"
    path.write_text(f"<!doctype html><meta charset=utf-8>{inspection._repr_html_()}", encoding="utf-8")
    browser.get(path.as_uri())
    browser.switch_to.frame(0)
    wait(browser)
    choose(browser, "cross", 0, 1)
    ActionChains(browser).move_to_element(chips(browser, "target")[1]).perform()
    assert lit(browser, "source") == pytest.approx(expected(weights, "cross", 0, 1)[1].tolist(), abs=PRECISE)
    browser.find_element(By.CSS_SELECTOR, "#sections a[href='#beam']").click()
    assert browser.execute_script("return document.activeElement.id") == "beam-heading"
    assert browser.execute_script("return location.href") == "about:srcdoc"
    browser.switch_to.default_content()
    assert complaints(browser) == []


def test_two_hundred_subwords_answer_within_seconds(browser: Any, translator: Translator, tmp_path: Path) -> None:
    long = " ".join((WORDS * 20)[:102])
    record = inspect(translator, long, SearchConfig(beam=1, max_length=1), translation=long)
    assert min(len(record.source_pieces), len(record.outputs)) >= 200
    page = record.to_html()
    begin = time.monotonic()
    show(browser, page, tmp_path)
    assert time.monotonic() - begin < 5
    ActionChains(browser).move_to_element(chips(browser, "target")[1]).perform()
    assert all(weight is not None for weight in lit(browser, "source"))
    begin = time.monotonic()
    for kind in BLOCKS:
        choose(browser, kind, 1, 0)
        browser.execute_script("document.querySelector('[data-zoom=fit]').click()")
    assert time.monotonic() - begin < 5
    assert overflow(browser) == 0


@pytest.mark.parametrize("sentence", SCRIPTS)
def test_writing_runs_in_its_own_direction(browser: Any, translator: Translator, tmp_path: Path, sentence: str) -> None:
    record = inspect(translator, sentence, SearchConfig(max_length=4), translation="cat dog")
    show(browser, record.to_html(), tmp_path)
    first, second = (chip.rect for chip in chips(browser, "source")[:2])
    assert first["y"] == second["y"]
    assert (first["x"] > second["x"]) == (sentence != SCRIPTS[0])
    first, second = (chip.rect for chip in chips(browser, "target")[:2])
    assert first["x"] < second["x"]  # one side's direction leaves the other alone
    labels = browser.execute_script(
        "return [...document.querySelectorAll('.chips.source .piece')].map((p) => p.textContent)"
    )
    assert labels == record.to_dict()["source_labels"]
    assert overflow(browser) == 0
