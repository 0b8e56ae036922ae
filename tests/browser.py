"""A page of the system's Chromium, driven by Playwright. Its test fails on any error of a script of the page.

A folder of tests takes the fixtures into its `conftest.py`: `from tests.browser import browser, page`. The tests are
synchronous, and so is all that their thread does while the browser runs: Playwright has the thread's event loop.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

SCREENSHOTS = "OPENENV_SCREENSHOTS"
"""The environment variable with the folder of the documents' pictures. Without it a test writes none."""
NARROW = {"width": 360, "height": 740}
"""Pixels of a small telephone."""
_WIDE = {"width": 1100, "height": 800}
_MAX_BYTES = 150_000

expect.set_options(timeout=30_000)  # milliseconds; three processes of tests share two cores


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium, until the last test of the module ends: tests of other modules may need an event loop of their own."""
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("needs Debian's package chromium: apt-get install chromium")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page without cookies of other tests. An error in the console, or one that a script does not catch, fails the
    test at its end. A response that refuses a request is none."""
    context = browser.new_context(viewport=_WIDE, color_scheme="light", reduced_motion="reduce")
    page = context.new_page()
    problems: list[str] = []
    page.on("console", lambda message: problems.extend(_problem(message)))
    page.on("pageerror", lambda error: problems.append(str(error)))
    yield page
    page.evaluate("0")  # what the page has reported before is here when this is answered
    context.close()
    assert not problems, "\n".join(problems)


def _problem(message: ConsoleMessage) -> Iterator[str]:
    """The text of an error in the console. What an environment's drawing may not do is none of the page."""
    url = message.location.get("url", "")
    is_refusal = "Failed to load resource" in message.text and "/assets/" not in url
    if message.type == "error" and not is_refusal and "/web/drawings/" not in url:
        yield f"{message.text} ({url})"


def screenshot(page: Page, name: str) -> None:
    """Write what the page shows to NAME.png, where OPENENV_SCREENSHOTS names a folder."""
    folder = os.environ.get(SCREENSHOTS)
    if folder:
        path = Path(folder) / f"{name}.png"
        page.screenshot(path=path)
        assert path.stat().st_size < _MAX_BYTES, f"{path} has {path.stat().st_size} bytes"


def loaded_bytes(page: Page, url: str) -> int:
    """Bytes of the bodies that a page loads: its HTML, style, scripts, and first data."""
    sizes: list[int] = []
    page.on("requestfinished", lambda request: sizes.append(request.sizes()["responseBodySize"]))
    page.goto(url, wait_until="networkidle")
    return sum(sizes)


def serious_violations(page: Page) -> list[str]:
    """What axe-core finds serious or critical, in light and in dark: the rule, and what breaks it."""
    found = []
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme)
        rows = Axe().run(page).response["violations"]
        broken = [row for row in rows if row["impact"] in ("serious", "critical")]
        found += [f"{scheme} {row['id']}: {node['html']:.200}" for row in broken for node in row["nodes"]]
    return found


def is_as_wide_as_its_screen(page: Page) -> bool:
    """Whether nothing of the page is cut off or must be scrolled sideways."""
    return bool(page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth"))
