"""The browser, for all tests of pages."""

from tests.browser import browser, page

__all__ = ["browser", "page"]
