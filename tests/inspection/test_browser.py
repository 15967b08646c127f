"""The inspection page in a real browser: it shows what the model computed, whatever it is given."""

import base64
import io
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from torch import Tensor

from dragoman.checkpoint import ModelFolder
from dragoman.config import BOS, EOS, ModelConfig, SearchConfig, TextConfig
from dragoman.folder import Direction
from dragoman.inference.translator import Translator
from dragoman.inspection.evidence import inspect
from dragoman.inspection.record import Inspection
from dragoman.model.transformer import Transformer
from dragoman.text.subwords import Vocabulary
from tests.browser import ActionChains, By, Keys, complaints, overflow, until, window
from tests.small_models import LINES

pytestmark = pytest.mark.slow

SCRIPTS = ["我妈妈在花园里看书。", "أمي تقرأ كتابا في الحديقة.", "אמא שלי קוראת ספר בגינה."]
SENTENCE = "the old dog sees a green bird"
HEADS = 4
MEAN = -1
BLOCKS = {
    "cross": "decoder.{}.cross_attention",
    "decoder": "decoder.{}.self_attention",
    "encoder": "encoder.{}.self_attention",
}
PRECISE = 1e-4
HOSTILE = "<script>window.hacked=1</script> </script><img src=x onerror=window.hacked=1> \"' &lt; <!-- \u202e"


def build(encoder_layers: int = 2, decoder_layers: int = 3) -> Translator:
    """A translator with random weights, sharp enough for its heads to look at different things."""
    torch.manual_seed(3)
    reverse = [line[::-1] for line in LINES]
    vocabulary = Vocabulary.learn(([*LINES, *SCRIPTS], [*reverse, *SCRIPTS]), TextConfig(vocab_size=380))
    config = ModelConfig(
        d_model=32,
        d_ff=64,
        num_heads=HEADS,
        num_encoder_layers=encoder_layers,
        num_decoder_layers=decoder_layers,
        max_length=256,
        source_vocab_size=len(vocabulary.source),
        target_vocab_size=len(vocabulary.target),
    )
    model = Transformer(config)
    with torch.no_grad():
        model.softmax.weight.mul_(3.0)
        for name, parameter in model.named_parameters():
            if ".query." in name or ".key." in name:
                parameter.mul_(4.0)
    return Translator(ModelFolder(model.eval(), vocabulary, Direction("en", "ne")))


def expected(weights: dict[str, Tensor], kind: str, layer: int, head: int) -> Tensor:
    block = weights[BLOCKS[kind].format(layer)]
    return block.mean(0) if head == MEAN else block[head]


def show(browser: Any, page: str, folder: Path, width: int = 1280) -> None:
    """Open a page from disk, in a window of this width, and wait until it is ready."""
    path = folder / "page.html"
    path.write_text(page, encoding="utf-8")
    window(browser, width)
    browser.get(path.as_uri())
    wait(browser)


def wait(browser: Any) -> None:
    ready = "return 'ready' in document.documentElement.dataset"
    until(lambda: browser.execute_script(ready), "the page does not get ready")


def choose(browser: Any, kind: str, layer: int, head: int) -> None:
    browser.execute_script(
        """const [kind, layer, head] = arguments;
        document.querySelector(`#kinds [value=${kind}]`).click();
        for (const [name, value] of [["layer", layer], ["head-number", head]]) {
          const menu = document.getElementById(name);
          menu.value = value;
          menu.dispatchEvent(new Event("change"));
        }""",
        kind,
        layer,
        head,
    )


def shown_map(browser: Any) -> list[list[float | None]]:
    """Point at every cell of the heat map and read what it says; None where it says that the cell is masked."""
    return browser.execute_script(  # type: ignore[no-any-return]
        """const cells = document.querySelector(".heat-cells");
        const rows = document.querySelectorAll(".heat-rows .label").length;
        const columns = document.querySelectorAll(".heat-columns .label").length;
        cells.scrollIntoView();
        const { left, top, width, height } = cells.getBoundingClientRect();
        const read = (row, column) => {
          const at = { clientX: left + (column + 0.5) * width / columns, clientY: top + (row + 0.5) * height / rows };
          cells.dispatchEvent(new PointerEvent("pointermove", { pointerType: "mouse", ...at }));
          const readout = document.getElementById("heat-readout");
          const number = readout.querySelector(".number");
          return number ? Number(number.textContent) : readout.textContent.includes("masked") ? null : NaN;
        };
        return Array.from({ length: rows }, (_, i) => Array.from({ length: columns }, (_, j) => read(i, j)));"""
    )


def lit(browser: Any, side: str) -> list[float | None]:
    """The weights on the chips of a side; None for a chip that is not lit."""
    script = (
        "return [...document.querySelectorAll(arguments[0])].map((c) => c.dataset.weight ? +c.dataset.weight : null)"
    )
    return browser.execute_script(script, f".chips.{side} .chip")  # type: ignore[no-any-return]


def chips(browser: Any, side: str) -> list[Any]:
    return browser.find_elements(By.CSS_SELECTOR, f".chips.{side} button.chip")  # type: ignore[no-any-return]


def readout(browser: Any, name: str) -> str:
    return browser.execute_script("return document.getElementById(arguments[0]).textContent", name)  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def translator() -> Translator:
    return build()


@pytest.fixture(scope="module")
def inspection(translator: Translator) -> Inspection:
    return inspect(translator, SENTENCE, SearchConfig(max_length=5), translation=SENTENCE[::-1])


@pytest.fixture(scope="module")
def weights(translator: Translator) -> dict[str, Tensor]:
    """An explicit forward pass: each block's weights by name, (H, T, S)."""
    (source,) = translator.vocabulary.source.encode([SENTENCE])
    (target,) = translator.vocabulary.target.encode([SENTENCE[::-1]])
    maps: dict[str, Tensor] = {}
    with torch.no_grad():
        translator.torch_engine.model(torch.tensor([[*source, EOS]]), torch.tensor([[BOS, *target]]), maps)
    return {name: block[0] for name, block in maps.items()}


def test_it_opens_from_disk_without_a_word_of_complaint(browser: Any, inspection: Inspection, tmp_path: Path) -> None:
    complaints(browser)
    for translation in (inspection, inspect(build(1, 1), "cat", SearchConfig(beam=1, max_length=2))):
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


def test_the_small_maps_are_on_a_full_height_capture_and_on_paper(
    browser: Any, inspection: Inspection, tmp_path: Path
) -> None:
    show(browser, inspection.to_html(), tmp_path)
    clip = browser.execute_cdp_cmd("Page.getLayoutMetrics", {})["cssContentSize"] | {"scale": 1}
    shot = browser.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})["data"]
    capture = Image.open(io.BytesIO(base64.b64decode(shot)))
    maps = browser.find_elements(By.CSS_SELECTOR, ".thumbnail")
    assert len(maps) == 3 * (HEADS + 1)
    for at in (thumbnail.rect for thumbnail in maps):
        inside = (at["x"] + 6, at["y"] + 6, at["x"] + at["width"] - 6, at["y"] + at["height"] - 6)
        assert len(capture.crop(inside).getcolors()) > 5  # an empty one has one
    paper = base64.b64decode(browser.execute_cdp_cmd("Page.printToPDF", {})["data"])
    size = rb"/Width %d\s+/Height %d" % (len(inspection.source_pieces), len(inspection.outputs))
    assert len(re.findall(size, paper)) == len(maps)


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


def test_probabilities_candidates_and_tree_are_shown(browser: Any, translator: Translator, tmp_path: Path) -> None:
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


def test_it_fits_on_a_phone(browser: Any, inspection: Inspection, translator: Translator, tmp_path: Path) -> None:
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
def test_every_word_has_enough_contrast(browser: Any, inspection: Inspection, tmp_path: Path, dark: bool) -> None:
    show(browser, inspection.to_html(), tmp_path)
    if browser.execute_script("return theme()") != ("dark" if dark else "light"):
        browser.find_element(By.ID, "theme").click()
    assert browser.execute_script("return theme()") == ("dark" if dark else "light")
    browser.execute_script("for (const help of document.querySelectorAll('details')) help.open = true")
    until(lambda: browser.execute_script("return !document.getAnimations().length"), "colours that change softly")
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


def test_notebooks_show_it(browser: Any, inspection: Inspection, weights: dict[str, Tensor], tmp_path: Path) -> None:
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
