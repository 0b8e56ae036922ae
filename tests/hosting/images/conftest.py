"""The container engine of the tests, without the images that tests of images make."""

import os
from collections.abc import Iterator
from typing import Any

import pytest

RUN = os.getpid()
"""The tag of the images of this process: others test images at the same time."""


@pytest.fixture(scope="package")
def engine(engine: Any) -> Iterator[Any]:
    """A client of the engine. DOCKER_HOST names it for commands. Images of this process are removed from it.

    What they are built on stays, as `openenv build` leaves it: other processes may build on it.
    """
    yield engine
    for tag in [tag for image in engine.images.list() for tag in image.tags if tag.endswith(f":{RUN}")]:
        engine.images.remove(tag, force=True)
