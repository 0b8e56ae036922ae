"""Hostile programs in sandboxes of every level: they reach nothing, and programs beside them go on.

`make hostile` runs them all and prints a table, also as an ordinary user.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from openenv.core.sandbox.host import users_of
from openenv.core.sandbox.sandbox import SandboxHost
from tests.core.sandbox.test_sandbox import make_host
from tests.hostile.bystanders import Bystanders
from tests.hostile.suite import MOST_WAIT_S, programs, run

pytestmark = pytest.mark.process

QUICK = {
    "at01",
    "at05",
    "fs01",
    "fs04",
    "fs08",
    "ig02",
    "kr02",
    "kr10",
    "kr28",
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
    "wr01",
    "xh05",
}
"""One or two of each category that end by themselves."""


@pytest.fixture(scope="module", params=["namespaces", "landlock"])
def host(request: pytest.FixtureRequest) -> Iterator[SandboxHost]:
    with make_host(request.param) as made:
        yield made


@pytest.fixture(scope="module")
def bystanders(host: SandboxHost) -> Iterator[Bystanders]:
    with Bystanders(users_of(host.pid)[1] if os.geteuid() == 0 else None) as made:
        yield made


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=() if path.stem in QUICK else pytest.mark.slow, id=path.stem) for path in programs()],
)
def test_a_hostile_program_is_contained(host: SandboxHost, bystanders: Bystanders, path: Path) -> None:
    outcome = run(host, path, bystanders)

    assert outcome.harm == []
    assert outcome.slowest_neighbour_s < 10 * MOST_WAIT_S  # the machine may be busy; `make hostile` prints the times
