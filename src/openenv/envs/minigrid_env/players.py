"""Random play of MiniGrid alone."""

from collections.abc import Iterator

from openenv.envs.measured import gymnasium_steps
from openenv.envs.minigrid_env.server.choice import GridChoice


def random_steps(env_id: str) -> Iterator[int]:
    """Steps of the environment of an id."""
    return gymnasium_steps(GridChoice(env_id=env_id).make())
