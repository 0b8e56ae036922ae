"""Environments as authors write them for the published package 0.10.0, started as their READMEs have it, and played.

The folders of `environments` are such packages, of our own: each has the imports, the shape of `create_app`, the
environment's class and the client of some that are published.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from openenv.core.mcp_client import MCPToolClient
from tests.integrations_table import Record
from tests.wild import plays
from tests.wild.starts import (
    ENVIRONMENTS,
    Start,
    as_a_package,
    as_a_program,
    beside_the_files,
    by_openenv_serve,
    by_openenv_serve_here,
    by_openenv_serve_in_a_repository,
    in_a_repository,
    with_older_names,
    with_workers,
)

pytestmark = pytest.mark.process

IDIOMS = {
    "stairs": "two kinds of imports, a client with three methods",
    "notes": "FastMCP tools, MCPToolClient",
    "drill": "rubrics, transforms, PyExecutor, a factory",
    "clerk": "typed chats, a tokenizer, a lambda",
    "relic": "openenv_core and core, dataclasses, plain HTTP",
    "ledger": "actions of several classes, messages that read and write themselves",
    "beacon": "coroutines, metadata, routes and a page of its own",
}
STARTS: dict[str, list[Start]] = {
    "stairs": [
        beside_the_files, as_a_package, with_workers, in_a_repository, as_a_program, by_openenv_serve,
        by_openenv_serve_here,
    by_openenv_serve_in_a_repository,
    ],
    "notes": [beside_the_files, as_a_package, by_openenv_serve],
    "drill": [as_a_package, by_openenv_serve],
    "clerk": [as_a_package, by_openenv_serve],
    "relic": [beside_the_files, with_older_names, by_openenv_serve],
    "ledger": [as_a_package, by_openenv_serve],
    "beacon": [as_a_package, with_workers, by_openenv_serve],
}  # fmt: skip
REWARDS = {
    "stairs": [-0.1, -0.1, 1.0], "notes": [0.0, 1.0], "drill": [0.0, 1.0], "clerk": [0.0, 1.0], "relic": [0.0, 1.0],
    "ledger": [0.0, 1.0],
    "beacon": [pytest.approx(greens / 3) for greens in (1, 1, 2)],
}  # fmt: skip
ENV_VARS = {"clerk": {"SYSTEM_PROMPT": "Serve."}}


@pytest.fixture(autouse=True)
def environments_on_the_path(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The packages of the clients can be imported, and are forgotten afterwards."""
    monkeypatch.syspath_prepend(str(ENVIRONMENTS))
    yield
    for name in [name for name in sys.modules if name.partition(".")[0].removesuffix("_env") in IDIOMS]:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("name", "start"),
    [
        pytest.param(
            name, start, id=f"{name}-{start.__name__}",
            marks=pytest.mark.integration("environments in the wild", f"{IDIOMS[name]}: {start.__doc__}"),
        )
        for name, starts in STARTS.items()
        for start in starts
    ],
)  # fmt: skip
async def test_an_environment_starts_and_its_client_plays(
    name: str, start: Start, tmp_path: Path, record_property: Record
) -> None:
    with start(f"{name}_env", tmp_path, ENV_VARS.get(name, {})) as url:
        rewards = getattr(plays, name)(url)
        rewards_async = await getattr(plays, f"{name}_async")(url)
        async with httpx.AsyncClient(base_url=url) as client:
            schema = (await client.get("/schema")).json()

    assert rewards == rewards_async == REWARDS[name]
    assert schema["action"]["title"]
    record_property("figure", f"sync and async, rewards {', '.join(f'{reward:.2g}' for reward in rewards)}")


def test_routes_that_an_author_removes_and_adds_are_those_of_the_server(tmp_path: Path) -> None:
    with as_a_package("beacon_env", tmp_path, {"ENABLE_WEB_INTERFACE": "true", "BEACON_FLASHES": "2"}) as url:
        reset, page = httpx.post(f"{url}/reset", json={}), httpx.get(f"{url}/web")
        config, metadata = httpx.get(f"{url}/config"), httpx.get(f"{url}/metadata").json()

    assert (reset.status_code, reset.json()) == (400, {"error": "use the WebSocket"})
    assert "Beacon at sea" in page.text
    assert (config.json(), config.headers["X-Beacon"]) == ({"flashes": 2}, "on")
    assert (metadata["name"], metadata["author"], metadata["version"]) == ("Beacon", "Keeper", "2.1.0")


def test_tools_that_only_actions_reach_are_listed_over_mcp_too(tmp_path: Path) -> None:
    with as_a_package("ledger_env", tmp_path, {}) as url, MCPToolClient(base_url=url) as env:
        env.reset()

        assert [tool.name for tool in env.list_tools()] == ["audit"]


def test_a_root_of_the_authors_own_is_served_where_there_is_no_page(tmp_path: Path) -> None:
    with as_a_package("beacon_env", tmp_path, {}) as url:
        assert httpx.get(url, follow_redirects=True).json() == {"flashes": 3}


def test_the_page_of_an_environment_for_the_published_package_is_served(tmp_path: Path) -> None:
    with as_a_package("stairs_env", tmp_path, {"ENABLE_WEB_INTERFACE": "true"}) as url:
        page = httpx.get(f"{url}/web", follow_redirects=True)

    assert page.status_code == 200
    assert "steps" in page.text
