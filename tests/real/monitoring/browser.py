"""A real browser, Chromium, driven by selenium; where there is none, tests say so and are skipped."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from tests.waiting import until

#: Set by `make test-browser`: a machine without a browser is a failure then.
REQUIRED = "DIRECTKAFKA_BROWSER_REQUIRED"
#: Where pictures of the page go; nowhere without it.
SCREENSHOTS = "DIRECTKAFKA_SCREENSHOTS"

_NONE = "no browser: skipped (Chromium and its driver, on Debian: apt-get install chromium chromium-driver)"

#: Every unexpected shift of the layout, added up as Chrome's "cumulative layout shift" does.
_COUNT_SHIFTS = """
window.shifts = [];
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) {
    const moved = entry.sources.map((source) => [
      source.node?.id ?? source.node?.nodeName, source.previousRect.y, source.currentRect.y, source.currentRect.height,
    ]);
    if (!entry.hadRecentInput) shifts.push([entry.value, moved]);
  }
}).observe({ type: "layout-shift", buffered: true });
"""


class Browser:
    """One window.

    Args:
        driver: selenium's.
    """

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def open(self, url: str, *, width: int = 1200, height: int = 900, is_dark: bool = False) -> None:
        """Open a page in a window of this size."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        self.driver.get("about:blank")
        # The page before may have looked for a server that has ended with its test.
        self.complaints()
        self.driver.get(url)

    def run(self, script: str, *arguments: object) -> Any:
        """What JavaScript returns."""
        return self.driver.execute_script(script, *arguments)

    def find(self, selector: str) -> WebElement:
        """The first element of a CSS selector."""
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def text(self, selector: str) -> str:
        """What an element shows; nothing where it is being replaced."""
        try:
            elements = self.driver.find_elements(By.CSS_SELECTOR, selector)
            return elements[0].text if elements else ""
        except StaleElementReferenceException:
            return ""

    def shows(self, selector: str, text: str, *, timeout_s: float = 120.0) -> None:
        """Wait until an element shows a text."""
        until(lambda: text in self.text(selector), f"{selector} never shows {text!r}", timeout_s)

    def press(self, key: str) -> WebElement:
        """Press a key, and return what has the focus then."""
        self.driver.switch_to.active_element.send_keys(key)
        return self.driver.switch_to.active_element

    def press_until(self, selector: str, key: str = Keys.TAB, *, times_max: int = 60) -> WebElement:
        """Press a key until an element has the focus."""
        wanted = self.find(selector)
        for _ in range(times_max):
            if self.press(key) == wanted:
                return wanted
        raise AssertionError(f"{times_max} times {key!r} do not lead to {selector}")

    def shift(self) -> tuple[float, list[Any]]:
        """How far the layout has shifted without the user, and what."""
        shifts = self.run("return shifts")
        return sum(value for value, _ in shifts), shifts

    def complaints(self) -> list[str]:
        """What the console has: errors of scripts, and what the page was not allowed to load."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def keep_picture(self, name: str) -> None:
        """Save a picture of the window, if a folder is named for them."""
        if folder := os.environ.get(SCREENSHOTS):
            Path(folder).mkdir(parents=True, exist_ok=True)
            # What was just changed is on the screen once two frames are drawn.
            self.driver.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
            assert self.driver.save_screenshot(str(Path(folder) / f"{name}.png"))


@contextmanager
def chromium(folder: Path) -> Iterator[Browser]:
    """Chromium without a window; skips, or fails where a browser is required.

    Args:
        folder: for its profile.
    """
    binary, driver = shutil.which("chromium") or shutil.which("google-chrome"), shutil.which("chromedriver")
    if binary is None or driver is None:
        if os.environ.get(REQUIRED):
            pytest.fail(_NONE.replace("skipped", "and one is required"))
        pytest.skip(_NONE)
    options = Options()
    options.binary_location = binary
    # Tests may run as root and in a small /dev/shm; nothing but our own page is opened.
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", f"--user-data-dir={folder}"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    started = webdriver.Chrome(options=options, service=Service(driver))
    try:
        started.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": _COUNT_SHIFTS})
        yield Browser(started)
    finally:
        started.quit()
