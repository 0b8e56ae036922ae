"""The marks of the tests that are cells of the table of agents."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

CELLS: set[tuple[str, str]] = set()
"""Agent and property of each test that has been defined."""


def cell(properties: str, agents: Sequence[str]) -> Callable[[Any], Any]:
    """A test for each agent, which is in the table at these properties, separated by commas."""
    CELLS.update((agent, name) for agent in agents for name in properties.split(", "))
    of_agents = [pytest.param(agent, marks=pytest.mark.agent_cell(agent, properties.split(", "))) for agent in agents]
    return pytest.mark.parametrize("api", of_agents, ids=str)
