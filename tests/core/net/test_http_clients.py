"""A proxy of the environment does not come between this program and a server on its own machine."""

import re
from pathlib import Path

import pytest

import openenv
from openenv.agents.llm.http import LLMError, post_json
from openenv.auto.schema_client import describe_server
from openenv.core import create_app
from openenv.core.errors import ServerUnreachable
from openenv.core.http_env_client import HTTPEnvClient
from openenv.core.net.http_clients import async_http_client, http_client
from openenv.core.utils import is_on_this_machine
from tests.core.counting_env import CountAction, CountingEnvironment, CountObservation, CountState

NO_PROXY_IS_THERE = "127.0.0.1:9"


@pytest.fixture(params=["http_proxy", "all_proxy", "socks", "no_proxy"])
def proxied(request, monkeypatch):
    """The variables of a machine behind a proxy, which nothing answers at."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    if request.param == "no_proxy":
        monkeypatch.setenv("NO_PROXY", "localhost,[::1],::1")
    scheme = "socks5" if request.param == "socks" else "http"
    monkeypatch.setenv("HTTP_PROXY" if "http" in request.param else "ALL_PROXY", f"{scheme}://{NO_PROXY_IS_THERE}")


class HTTPCountEnv(HTTPEnvClient[CountAction, CountObservation, CountState]):
    """A typed client over plain HTTP."""


@pytest.fixture
def url(serving):
    return serving(create_app(CountingEnvironment))


@pytest.mark.usefixtures("proxied")
@pytest.mark.finding("proxies, other locales and systems without what Linux alone has do no harm")
async def test_clients_reach_a_server_on_this_machine_without_the_proxy(url):
    assert describe_server(url).schemas["action"]["title"] == "CountAction"
    assert describe_server(url.replace("127.0.0.1", "localhost")).schemas["action"]["title"] == "CountAction"
    with HTTPCountEnv(url) as env:
        assert env.reset(start=2).observation.total == 2
    async with HTTPCountEnv(url) as env:
        assert (await env.reset(start=3)).observation.total == 3
    with pytest.raises(LLMError, match="returned 404"):
        await post_json(f"{url}/v1/none", {}, {}, timeout_s=5)


@pytest.mark.usefixtures("proxied")
def test_a_unix_socket_is_reached_without_the_proxy():
    assert http_client("localhost").trust_env is False


@pytest.mark.parametrize("proxy", ["socks5://127.0.0.1:9", "nonsense://127.0.0.1:9"])
def test_a_proxy_that_cannot_be_used_for_another_machine_is_an_error_that_names_its_variables(monkeypatch, proxy):
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ALL_PROXY", proxy)
    for make in (http_client, async_http_client):
        with pytest.raises(
            ServerUnreachable, match=r"http://example\.org cannot be reached by the proxy that HTTP_PROXY"
        ):
            make("http://example.org")


@pytest.mark.parametrize(
    ("url", "is_here"),
    [
        ("http://localhost:8000", True),
        ("localhost:8000", True),
        ("https://127.0.0.1/v1", True),
        ("http://127.8.9.1", True),
        ("http://[::1]:8000", True),
        ("http://0.0.0.0:8000", True),
        ("http://127.example.org", False),
        ("http://localhost.example.org", False),
        ("http://10.0.0.1:8000", False),
    ],
)
def test_a_server_on_this_machine_is_known_by_its_url(url, is_here):
    assert is_on_this_machine(url) is is_here


@pytest.mark.finding("proxies, other locales and systems without what Linux alone has do no harm")
def test_one_module_makes_the_http_clients():
    makes = re.compile(r"httpx\.(Client|AsyncClient|get|post|request|stream)\(")
    sources = Path(openenv.__file__).parent.rglob("*.py")

    assert [path.name for path in sources if makes.search(path.read_text())] == []
