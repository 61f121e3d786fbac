"""A headless Chromium for tests of pages. They are skipped where Chromium, its driver or selenium is missing."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
WIDTHS = (1280, 390)  # [CSS pixels]
PATIENCE_S = 600.0  # only stops a hang: a page draws within 3 s on a free core


@contextmanager
def browser() -> Iterator[Any]:
    """Start a browser, and stop it even if the test fails."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium: pip install 'gpusched-env[browser]'")
    if CHROMIUM is None or DRIVER is None:
        pytest.skip("needs chromium and chromedriver: apt-get install chromium chromium-driver")
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    try:
        yield driver
    finally:
        driver.quit()


def show(driver: Any, url: str, width: int, dark: bool = False) -> None:
    """Open a page at a width and in a theme, and wait until its plots are drawn."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    theme = {"features": [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", theme)
    driver.get("about:blank")
    driver.get(url)
    wait(
        driver, "return !document.getElementById('viewer') || Boolean(document.getElementById('viewer').dataset.drawn)"
    )


def wait(driver: Any, condition: str, *arguments: Any) -> None:
    """Wait until a script returns true."""
    until(lambda: driver.execute_script(condition, *arguments), condition)


def until(condition: Callable[[], object], what: str) -> None:
    """Wait until a condition holds; AssertionError after PATIENCE_S."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, f"did not come true: {what}"
        time.sleep(0.05)


def complaints(driver: Any) -> list[str]:
    """Console messages since the last call."""
    return [line["message"] for line in driver.get_log("browser")]
