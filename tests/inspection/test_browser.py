"""The page in a real browser: what is seen must be what the model computed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from dragoman.config import SearchConfig
from dragoman.inference.translator import Translator
from dragoman.inspection.evidence import inspect
from dragoman.inspection.record import Inspection
from tests.inspection.browsers import (
    BLOCKS,
    HEADS,
    LAYERS,
    MEAN,
    PRECISE,
    SENTENCE,
    ActionChains,
    By,
    Keys,
    build,
    chips,
    choose,
    complaints,
    expected,
    lit,
    readout,
    show,
    shown_map,
)

pytestmark = pytest.mark.slow


def test_it_opens_from_disk_without_a_word_of_complaint(browser: Any, inspection: Inspection, tmp_path: Path) -> None:
    complaints(browser)
    for translation in (
        inspection,
        inspect(build({"encoder": 1, "decoder": 1}), "cat", SearchConfig(beam=1, max_length=2)),
    ):
        show(browser, translation.to_html(), tmp_path)
        assert complaints(browser) == []
        assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0
        assert browser.find_element(By.ID, "source-text").text == translation.source
        assert browser.find_element(By.ID, "target-text").text == translation.target


def test_pointing_at_a_target_word_shows_what_its_step_looks_at(
    browser: Any, inspection: Inspection, weights: dict[str, Tensor], tmp_path: Path
) -> None:
    show(browser, inspection.to_html(), tmp_path)
    choose(browser, "cross", 1, 2)
    for step in (0, 3, len(inspection.outputs) - 1):
        ActionChains(browser).move_to_element(chips(browser, "target")[step]).perform()
        cross, back = expected(weights, "cross", 1, 2)[step], expected(weights, "decoder", 1, 2)[step]
        assert lit(browser, "source") == pytest.approx(cross.tolist(), abs=PRECISE)
        *past, _ = lit(browser, "target")[: step + 2]  # <s>, what was read, what is predicted
        assert past == pytest.approx(back[: step + 1].tolist(), abs=PRECISE)
        assert not any(lit(browser, "target")[step + 1 :])  # what is predicted and what follows it
        headline, *numbers = browser.execute_script(
            "return [...document.querySelectorAll('.readout .headline, .readout .number')].map((e) => e.textContent)"
        )
        assert headline.startswith(f"Step {step + 1} of {len(inspection.outputs)} reads ")
        largest = [row.sort(descending=True).values[:6].tolist() for row in (cross, back[: step + 1])]
        assert list(map(float, numbers)) == pytest.approx(largest[0] + largest[1], abs=PRECISE)


def test_pointing_at_a_source_word_shows_both_directions(
    browser: Any, inspection: Inspection, weights: dict[str, Tensor], tmp_path: Path
) -> None:
    show(browser, inspection.to_html(), tmp_path)
    choose(browser, "cross", 2, MEAN)  # the encoder has no third layer: its last one stays
    ActionChains(browser).move_to_element(chips(browser, "source")[2]).perform()
    assert lit(browser, "source") == pytest.approx(expected(weights, "encoder", 1, MEAN)[2].tolist(), abs=PRECISE)
    start, *steps = lit(browser, "target")
    assert start is None
    assert steps == pytest.approx(expected(weights, "cross", 2, MEAN)[:, 2].tolist(), abs=PRECISE)
    assert "encoder layer 2, mean of 4 heads" in browser.find_element(By.CSS_SELECTOR, ".readout").text


@pytest.mark.parametrize("kind", BLOCKS)
def test_the_heat_map_shows_the_weights_of_the_chosen_head(
    browser: Any, inspection: Inspection, weights: dict[str, Tensor], tmp_path: Path, kind: str
) -> None:
    show(browser, inspection.to_html(), tmp_path)
    layer = 1
    heads = []
    for head in (*range(HEADS), MEAN):
        choose(browser, kind, layer, head)
        shown = shown_map(browser)
        masked = [[cell is None for cell in row] for row in shown]
        assert masked == [[kind == "decoder" and j > i for j in range(len(row))] for i, row in enumerate(shown)]
        heads.append(torch.tensor([[cell or 0.0 for cell in row] for row in shown]))
        torch.testing.assert_close(heads[-1], expected(weights, kind, layer, head), atol=PRECISE, rtol=0)
    torch.testing.assert_close(heads[-1], torch.stack(heads[:-1]).mean(0), atol=PRECISE, rtol=0)
    for shown_head in heads:
        sums = shown_head.sum(1)
        torch.testing.assert_close(sums, torch.ones_like(sums), atol=5e-5 * shown_head.size(1) + PRECISE, rtol=0)
    assert not torch.allclose(heads[0], heads[1], atol=0.01)  # or choosing would prove nothing


def test_masked_cells_look_like_no_weight_and_the_cursor_leaves_no_trace(
    browser: Any, inspection: Inspection, tmp_path: Path
) -> None:
    show(browser, inspection.to_html(), tmp_path)
    choose(browser, "decoder", 0, 0)
    browser.execute_script(
        "document.body.dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape', bubbles: true }))"
    )
    picture = "return document.querySelector('.heat-cells canvas').toDataURL()"
    before = browser.execute_script(picture)
    # The number of colours inside the cell at the top right, which is masked, and of the one at the top left.
    masked, weight = browser.execute_script(
        """const canvas = document.querySelector(".heat-cells canvas");
        const columns = document.querySelectorAll(".heat-columns .label").length;
        const edge = canvas.width / columns;
        const colours = (column) => {
          const inside = [(column + 0.2) * edge, 0.2 * edge, 0.6 * edge, 0.1 * edge];
          const { data } = canvas.getContext("2d").getImageData(...inside);
          return new Set(new Uint32Array(data.buffer)).size;
        };
        return [colours(columns - 1), colours(0)];"""
    )
    assert masked > 1
    assert weight == 1
    shown_map(browser)
    leave = "new PointerEvent('pointerleave', { pointerType: 'mouse' })"
    browser.execute_script(f"document.querySelector('.heat-cells').dispatchEvent({leave})")
    assert browser.execute_script(picture) == before


def test_a_small_map_opens_its_head(browser: Any, inspection: Inspection, tmp_path: Path) -> None:
    show(browser, inspection.to_html(), tmp_path)
    small = browser.find_elements(By.CSS_SELECTOR, ".thumbnail")
    assert len(small) == LAYERS["decoder"] * (HEADS + 1)
    small[1 * (HEADS + 1) + 3].click()
    assert readout(browser, "heat-title") == "Cross-attention, decoder layer 2, head 3"
    assert browser.execute_script("return [layer.value, document.getElementById('head-number').value]") == ["1", "2"]
    painted = "return [...document.querySelectorAll('.thumbnail canvas')].map((c) => [c.width, c.height])"
    assert browser.execute_script(painted) == [[len(inspection.source_pieces), len(inspection.outputs)]] * len(small)
    choose(browser, "decoder", 0, 0)
    alphas = browser.execute_script(  # of a small map's first row: a weight, then what is masked
        """const canvas = document.querySelector(".thumbnail canvas");
        const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, 1);
        return [...data].filter((_, i) => i % 4 === 3);"""
    )
    assert alphas == [255, *[0] * (len(inspection.inputs) - 1)]


def test_the_heat_map_obeys_the_keyboard(browser: Any, inspection: Inspection, tmp_path: Path) -> None:
    show(browser, inspection.to_html(), tmp_path)
    choose(browser, "decoder", 0, 0)
    cells = browser.find_element(By.CSS_SELECTOR, ".heat-cells")
    readings = []
    for keys in ([Keys.HOME], [Keys.ARROW_DOWN] * 2, [Keys.ARROW_RIGHT], [Keys.END], [Keys.ARROW_UP] * 9):
        for key in keys:
            cells.send_keys(key)
        readings.append(readout(browser, "heat-readout"))
    assert [reading.split(" (")[0] for reading in readings] == ["Step 1", "Step 3", "Step 3", "Step 3", "Step 1"]
    assert ["masked" in reading for reading in readings] == [False, False, False, True, True]
    assert len(set(readings)) == len(readings)
    assert cells == browser.switch_to.active_element


def test_words_obey_the_keyboard(browser: Any, inspection: Inspection, tmp_path: Path) -> None:
    show(browser, inspection.to_html(), tmp_path)
    words = chips(browser, "source")
    assert len([word for word in words if word.get_attribute("tabindex") == "0"]) <= 1  # one stop for the Tab key
    words[0].send_keys(Keys.ARROW_RIGHT)
    assert browser.switch_to.active_element == words[1]
    pressed = (
        "return [...document.querySelectorAll('.chip[aria-pressed=true]')].map((c) => c.dataset.side + c.dataset.index)"
    )
    words[1].send_keys(Keys.ENTER)
    assert browser.execute_script(pressed) == ["source1"]
    assert "The source subword" in browser.find_element(By.CSS_SELECTOR, ".readout").text
    words[1].send_keys(Keys.ESCAPE)
    assert browser.execute_script(pressed) == []


def test_probabilities_candidates_and_tree_are_the_record_s(
    browser: Any, translator: Translator, tmp_path: Path
) -> None:
    found = inspect(translator, SENTENCE, SearchConfig(beam=3, max_length=4))
    given = inspect(translator, SENTENCE, SearchConfig(beam=3, max_length=4), translation="cat")
    for record in (found, given):
        show(browser, record.to_html(), tmp_path)
        text = "return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent)"
        shown = browser.execute_script(text, ".step > .number")
        values = [float(number.strip("<%")) / 100 for number in shown]
        assert values == pytest.approx([step.probability for step in record.predictions], abs=6e-4)
        ranks = [int(rank[1:].replace(",", "")) for rank in browser.execute_script(text, ".step .rank")]
        assert ranks == [step.rank for step in record.predictions]
        surprising = browser.execute_script(text, ".step .rank.surprising")
        assert len(surprising) == sum(rank > 1 for rank in ranks)
        scores = [float(s.replace("−", "-")) for s in browser.execute_script(text, "#candidates td:nth-child(3)")]
        assert scores == sorted(scores, reverse=True)
        assert browser.execute_script(text, "#candidates .looked th") == ["–" if record is given else "#1"]
        assert browser.find_element(By.ID, "not-found").is_displayed() == (record is given)
        nodes = browser.execute_script(text, ".tree button.node")
        assert len(nodes) == len(record.tree)
        path = browser.execute_script(text, ".tree button.chosen")
        assert len(path) == (0 if record is given else len(record.outputs))
        ends = browser.execute_script(text, ".tree button.finished .badge")
        assert sorted(ends) == sorted(f"#{node.candidate + 1}" for node in record.tree if node.candidate >= 0)
        links = browser.find_elements(By.CSS_SELECTOR, ".links path")
        assert len(links) == len(record.alignment)


def test_the_path_of_a_given_translation_is_coloured_up_to_where_the_search_left_it(
    browser: Any, translator: Translator, tmp_path: Path
) -> None:
    found = inspect(translator, SENTENCE, SearchConfig(beam=3, max_length=4))
    other = [*found.outputs[:2], *["▁nowhere"] * (len(found.outputs) - 2)]
    show(browser, replace(found, outputs=other, chosen=-1).to_html(), tmp_path)
    path = browser.execute_script(
        "return [...document.querySelectorAll('.tree .chosen .piece')].map((e) => e.textContent)"
    )
    assert path == found.labels(other[:2])


def test_small_maps_have_the_scale_of_the_legend(
    browser: Any, inspection: Inspection, weights: dict[str, Tensor], tmp_path: Path
) -> None:
    show(browser, inspection.to_html(), tmp_path)
    browser.find_element(By.ID, "attention").find_element(By.CSS_SELECTOR, "#scales [value=max]").click()
    painted = """
        const [r, g, b] = TABLES[theme()].encoder[shade(arguments[0], arguments[1])];
        const canvas = document.querySelector(`.thumbnail[data-layer='0'][data-head='${arguments[2]}'] canvas`);
        const [red, green, blue] = canvas.getContext("2d").getImageData(arguments[3], 0, 1, 1).data;
        return [[r, g, b], [red, green, blue]];
    """
    for shown in (MEAN, 1):
        choose(browser, "encoder", 0, shown)
        top = float(expected(weights, "encoder", 0, shown).max())
        for head in range(HEADS):
            for key, weight in enumerate(expected(weights, "encoder", 0, head)[0].tolist()):
                table, pixel = browser.execute_script(painted, min(weight, top), top, head, key)
                assert pixel == pytest.approx(table, abs=2)  # weights on the page have 16 bits


def test_languages_are_told_in_the_way_of_the_web(browser: Any, inspection: Inspection, tmp_path: Path) -> None:
    show(browser, replace(inspection, languages=("zh_TW", "pt_BR")).to_html(), tmp_path)
    for side, code in (("source", "zh-TW"), ("target", "pt-BR")):
        assert browser.find_element(By.ID, f"{side}-text").get_attribute("lang") == code
        assert browser.find_element(By.CSS_SELECTOR, f".chips.{side} .piece").get_attribute("lang") == code
