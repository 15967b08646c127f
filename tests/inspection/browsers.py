"""A browser, and what the inspection page shows in it."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from dragoman.checkpoint import Direction, ModelFolder
from dragoman.config import ModelConfig, TextConfig
from dragoman.inference.translator import Translator
from dragoman.model.transformer import Transformer
from dragoman.text.subwords import Vocabulary
from tests.small_models import LINES

try:
    from selenium import webdriver
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
except ImportError:  # the tests say so
    ActionChains = By = Keys = webdriver = None

__all__ = ["ActionChains", "By", "Keys", "webdriver"]

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ARGUMENTS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--window-size=1280,900"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"),
    "--force-prefers-reduced-motion",
)
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


def missing(reason: str) -> None:
    """Skip, but not where these tests must run."""
    if os.environ.get("CI"):
        pytest.fail(f"no browser tests: {reason}")
    pytest.skip(reason)


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
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 700}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.get(path.as_uri())
    wait(browser)


def wait(browser: Any, seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not browser.execute_script("return 'ready' in document.documentElement.dataset"):
        assert time.monotonic() < end, "the page does not get ready"
        time.sleep(0.02)


def complaints(browser: Any) -> list[str]:
    return [entry["message"] for entry in browser.get_log("browser")]


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


def overflow(browser: Any) -> int:
    return browser.execute_script("return document.documentElement.scrollWidth - document.documentElement.clientWidth")  # type: ignore[no-any-return]
