"""Worlds with a goal declare the success of an episode."""

from random import Random
from typing import Any

import pytest

from openenv.core.env_server.interfaces import Environment
from openenv.core.outcomes import outcome_of
from openenv.envs.grid_world_env.models import GridWorldAction
from openenv.envs.grid_world_env.server.environment import GridWorldEnvironment
from openenv.envs.maze_env.models import MazeAction
from openenv.envs.maze_env.server.environment import MazeEnvironment


@pytest.mark.parametrize(
    ("env", "action_class", "keywords"),
    [
        (MazeEnvironment(), MazeAction, {"size": 3, "max_steps": 60}),
        (MazeEnvironment(), MazeAction, {"size": 2, "max_steps": 1000}),
        (GridWorldEnvironment(), GridWorldAction, {"size": 3, "max_steps": 30}),
    ],
)
def test_an_agent_that_reaches_the_goal_succeeds_however_late(
    env: Environment[Any, Any, Any], action_class: Any, keywords: dict[str, Any]
) -> None:
    rng, outcomes = Random(0), set()
    for seed in range(60):
        observation, total = env.reset(seed=seed, **keywords), 0.0
        wanders = seed % 3 == 0  # back and forth at the start, which reaches no goal
        while not observation.done:
            legal = getattr(observation, "legal_actions", ["north", "east", "south", "west"])
            observation = env.step(action_class(direction=legal[0] if wanders else rng.choice(legal)))
            total += observation.reward
        outcome = outcome_of(total, env.success_return)
        assert outcome == ("won" if observation.reward > 0 else "lost")
        outcomes.add(outcome)

    assert "lost" in outcomes
    assert "won" in outcomes
