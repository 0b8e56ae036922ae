"""One server with two workers for all tests of this folder that do not change it."""

from collections.abc import Iterator

import pytest

from tests.hosting.workers.two_workers import two_workers


@pytest.fixture(scope="package")
def url() -> Iterator[str]:
    with two_workers() as server:
        yield server.base_url
