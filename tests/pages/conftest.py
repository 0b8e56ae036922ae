"""The browser of `tests/browser.py`."""

from tests.browser import browser, page

__all__ = ["browser", "page"]
