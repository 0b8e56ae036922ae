"""The browser of `tests/browser.py`, and servers of pages."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from fastapi import FastAPI

from openenv.pages.server import PageServer
from tests.browser import browser, page

__all__ = ["browser", "page"]


@pytest.fixture
def served() -> Iterator[Callable[[FastAPI], str]]:
    """Serve the application of a page until the test ends; returns its URL, without a slash at the end."""
    with ExitStack() as servers:
        yield lambda app: servers.enter_context(PageServer(app, "127.0.0.1", 0)).url.rstrip("/")
