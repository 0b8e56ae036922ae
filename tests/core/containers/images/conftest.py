"""The container engine of the tests, without the images that tests of images make."""

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="package")
def engine(engine: Any) -> Iterator[Any]:
    """A client of the engine. DOCKER_HOST names it for commands. Images that the tests make on it are removed."""
    before = _tags(engine)
    yield engine
    for tag in _tags(engine) - before:
        engine.images.remove(tag, force=True)


def _tags(engine: Any) -> set[str]:
    return {tag for image in engine.images.list() for tag in image.tags}
