"""A real browser for the tests of pages."""

import os
import shutil
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

try:
    from axe_core_python.selenium import Axe
    from selenium import webdriver
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
except ImportError:  # the tests say so
    ActionChains = Axe = By = Keys = webdriver = None

__all__ = ["ActionChains", "Axe", "By", "Keys", "browser", "complaints", "overflow", "until", "window"]

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ARGUMENTS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--window-size=1280,900"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"),
    *("--force-prefers-reduced-motion", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"),
)


def missing(reason: str) -> None:
    """Skip, but not where these tests must run."""
    if os.environ.get("CI"):
        pytest.fail(f"no browser tests: {reason}")
    pytest.skip(reason)


def start() -> Any:
    """Start a browser with a profile of its own, which reaches only this machine."""
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    driver = shutil.which("chromedriver")
    if webdriver is None:
        missing("selenium or axe-core-python is not installed; pip install 'dragoman[dev]'")
    if program is None or driver is None:
        missing("there is no chromium or google-chrome with its chromedriver on the path")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for argument in ARGUMENTS:
        options.add_argument(argument)
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    running = start()
    yield running
    running.quit()


def window(browser: Any, width: int) -> None:
    """Give the window this width, a phone's below 700 pixels."""
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 700}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def complaints(browser: Any) -> list[str]:
    """What the console has said since it was last asked."""
    return [entry["message"] for entry in browser.get_log("browser")]


def overflow(browser: Any) -> int:
    """Pixels by which the page is wider than its window."""
    return browser.execute_script("return document.documentElement.scrollWidth - document.documentElement.clientWidth")  # type: ignore[no-any-return]


def until(condition: Callable[[], Any], what: str, seconds: float = 20.0) -> None:
    """Wait for a condition; what says what has not come if it never holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.02)
