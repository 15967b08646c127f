"""Take the pictures of docs/inspect.md and docs/runs.md: `python docs_build/inspection_picture.py demo/en-fr`.

It needs Chromium and its driver.
"""

from __future__ import annotations

import io
import sys
import tempfile
from itertools import product
from pathlib import Path

from PIL import Image
from selenium import webdriver
from symbols import ROOT

from dragoman.folder import REPORT_FILE
from dragoman.inference.translator import Translator
from dragoman.inspection.evidence import inspect

SENTENCE = "I am looking for a black hat."
WIDTH, HEIGHT = 1200, 960
COLOURS = 64  # of the PNG, a quarter of the bytes


def main(model: str) -> None:
    """Open the inspection of the sentence, and the page of the run, in a browser and save what is seen first."""
    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(argument)
    with tempfile.TemporaryDirectory() as folder, webdriver.Chrome(options=options) as browser:
        page, run = Path(folder) / "inspection.html", Path(model).resolve() / REPORT_FILE
        page.write_text(inspect(Translator.load(Path(model)), SENTENCE).to_html(), encoding="utf-8")
        size = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        for (name, opened), scheme in product({"inspection": page, "run": run}.items(), ("light", "dark")):
            features = [{"name": "prefers-color-scheme", "value": scheme}]
            browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
            browser.get(opened.as_uri())
            image = Image.open(io.BytesIO(browser.get_screenshot_as_png())).convert("RGB")
            image.quantize(COLOURS, dither=Image.Dither.NONE).save(
                ROOT / "docs" / "figures" / f"{name}-{scheme}.png", optimize=True
            )


if __name__ == "__main__":
    main(sys.argv[1])
