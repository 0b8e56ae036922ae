"""Pictures of a page at both widths, in light and in dark, and what holds of every one of them.

They are written to `build/pictures`, which git ignores, for a person to look at.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Page

from tests.browser import serious_violations

FOLDER = Path(__file__).parents[2] / "build" / "pictures"
WIDTHS = (1280, 360)
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
_HEIGHT = 900
_UNTIL_DRAWN = "() => new Promise(drawn => requestAnimationFrame(() => requestAnimationFrame(drawn)))"
_LAID_OUT_WRONG = """() => {
  const wrong = [], page = document.documentElement, hanging = 12;  // pixels of a space at the end of a line
  if (page.scrollWidth > innerWidth) wrong.push(`the page is ${page.scrollWidth} pixels wide, of ${innerWidth}`);
  const check = (rects, parent, what) => {
    const spare = getComputedStyle(parent).whiteSpace === "pre-wrap" ? hanging : 1;
    const isSvg = box => box instanceof SVGElement && !(box instanceof SVGSVGElement);
    for (let box = parent; box && rects.length; box = box.parentElement) {
      const {display, overflowX} = getComputedStyle(box);
      if (display === "inline" || display === "contents" || isSvg(box)) continue;
      if (overflowX !== "visible" && !(box instanceof SVGSVGElement)) return;
      const {left, right} = box.getBoundingClientRect();
      if (rects.some(rect => rect.right > right + spare || rect.left < left - 1)) {
        const name = box.getAttribute("class") || box.id;
        wrong.push(`<${box.tagName.toLowerCase()}> ${name} is too narrow for ${what}`);
        return;
      }
    }
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text = walker.nextNode(); text; text = walker.nextNode()) {
    if (!text.data.trim() || text.parentElement.closest("option, script, style, noscript, .skip")) continue;
    const range = document.createRange();
    range.selectNodeContents(text);
    const rects = [...range.getClientRects()].filter(rect => rect.width > 0);
    check(rects, text.parentElement, text.data.trim().slice(0, 80));
  }
  for (const drawn of document.querySelectorAll("svg, img, iframe, input, select, textarea, button, pre, table")) {
    const rect = drawn.getBoundingClientRect();
    check(rect.width ? [rect] : [], drawn.parentElement, `<${drawn.tagName.toLowerCase()} id="${drawn.id}">`);
  }
  return wrong;
}"""
"""What is wider than the page or than its box, in words. A box that scrolls holds what it has."""


class Pictures:
    """Takes the pictures of one page in its states."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self.wrong: list[str] = []
        """What does not hold of a picture, in words."""
        page.on("request", lambda request: self._check_request(request.url))

    def take(self, name: str, *, headline: str) -> None:
        """Write NAME-WIDTH-SCHEME.png of what the page shows, and check it.

        headline: what the page and its tab are called, or a part of it. Nothing is wider than the page or than its
        box, and axe-core finds nothing serious; the contrast is a part of that.
        """
        FOLDER.mkdir(parents=True, exist_ok=True)
        page, wrong = self._page, []
        for part, text in (("title", page.title()), ("headline", page.locator("h1").inner_text())):
            wrong += [] if headline in text else [f"the {part} is {text!r}"]
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": _HEIGHT})
            page.evaluate(_UNTIL_DRAWN)
            wrong += [f"{width}: {what}" for what in page.evaluate(_LAID_OUT_WRONG)]
            for scheme in SCHEMES:
                page.emulate_media(color_scheme=scheme)
                page.screenshot(path=FOLDER / f"{name}-{width}-{scheme}.png", full_page=True)
        wrong += serious_violations(page)
        page.set_viewport_size({"width": WIDTHS[0], "height": _HEIGHT})
        self.wrong += [f"{name}: {what}" for what in wrong]

    def _check_request(self, url: str) -> None:
        if not url.startswith(("http://127.0.0.1:", "data:", "file:")):
            self.wrong.append(f"the page loads {url}")


@pytest.fixture
def pictures(page: Page) -> Iterator[Pictures]:
    """Takes pictures of the fixture `page`. What is wrong in them fails the test at its end, when all are written."""
    taken = Pictures(page)
    yield taken
    assert taken.wrong == [], "\n".join([*taken.wrong, f"see {FOLDER}"])
