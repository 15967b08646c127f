"""A browser, and an inspection to look at in it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from dragoman.config import BOS, EOS, SearchConfig
from dragoman.inference.translator import Translator
from dragoman.inspection.evidence import inspect
from dragoman.inspection.record import Inspection
from tests.inspection.browsers import ARGUMENTS, BROWSERS, SENTENCE, build, missing, webdriver


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    driver = shutil.which("chromedriver")
    if webdriver is None:
        missing("selenium is not installed; pip install 'dragoman[dev]'")
    if program is None or driver is None:
        missing("there is no chromium or google-chrome with its chromedriver on the path")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for argument in ARGUMENTS:
        options.add_argument(argument)
    running = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield running
    running.quit()


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
        translator.model(torch.tensor([[*source, EOS]]), torch.tensor([[BOS, *target]]), maps)
    return {name: block[0] for name, block in maps.items()}
