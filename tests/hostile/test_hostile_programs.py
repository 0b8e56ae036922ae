"""Hostile programs in sandboxes of every level, and in containers: they reach nothing, and programs beside them go on.

`make hostile` runs them all and prints a table, also as an ordinary user.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hostile.bystanders import Bystanders
from tests.hostile.levels import DockerLevel, Level, SandboxLevel
from tests.hostile.suite import MOST_WAIT_S, programs, run
from tests.hosting.sandbox.test_sandbox import make_host

pytestmark = pytest.mark.process

QUICK = {
    "at01",
    "at05",
    "fs01",
    "fs04",
    "fs08",
    "ig02",
    "ip01",
    "kr02",
    "kr10",
    "kr28",
    "ma01",
    "ma06",
    "ma13",
    "nt01",
    "nt05",
    "of01",
    "or01",
    "pr04",
    "pr05",
    "rg02",
    "rg03",
    "rs08",
    "rs14",
    "sc02",
    "sc03",
    "so01",
    "so04",
    "st01",
    "wr01",
    "xh05",
}
"""One or two of each category that end by themselves."""


@pytest.fixture(scope="module", params=["namespaces", "landlock", "docker"])
def level(request: pytest.FixtureRequest) -> Iterator[Level]:
    if request.param == "docker":
        with contextlib.closing(DockerLevel(request.getfixturevalue("engine"), "echo-env")) as made:
            yield made
    else:
        with make_host(request.param) as host:
            yield SandboxLevel(host)


@pytest.fixture(scope="module")
def bystanders(level: Level) -> Iterator[Bystanders]:
    with Bystanders(level.user) as made:
        yield made


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=() if path.stem in QUICK else pytest.mark.slow, id=path.stem) for path in programs()],
)
def test_a_hostile_program_is_contained(level: Level, bystanders: Bystanders, path: Path) -> None:
    outcome = run(level, path, bystanders)

    assert outcome.harm == []
    assert outcome.slowest_neighbour_s < 10 * MOST_WAIT_S  # the machine may be busy; `make hostile` prints the times
