"""A server of counters behind a proxy that can break its connections."""

from collections.abc import Iterator

import pytest

from openenv.core.env_server import ServerConfig, create_app
from tests.core.counting_env import CountingEnvironment
from tests.core.cutting_proxy import CuttingProxy


@pytest.fixture
def app():
    return create_app(CountingEnvironment, config=ServerConfig(reconnect_grace_s=5))


@pytest.fixture
def proxy(serving, app) -> Iterator[CuttingProxy]:
    proxy = CuttingProxy(serving(app))
    yield proxy
    proxy.close()
