"""The engine of all tests, from which the images that are built here are removed again."""

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="package")
def engine(engine: Any) -> Iterator[Any]:
    """A client of the engine. Images that the tests make on it are removed."""
    before = {tag for image in engine.images.list() for tag in image.tags}
    yield engine
    for image in engine.images.list():
        for tag in set(image.tags) - before:
            engine.images.remove(tag, force=True)
