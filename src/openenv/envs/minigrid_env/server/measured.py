"""Representative tasks: an empty room, whose best play is known, and a room behind a locked door."""

from functools import partial

from openenv.envs.measured import MeasuredTask, gymnasium_steps_per_second
from openenv.envs.minigrid_env.server.choice import GridChoice
from openenv.envs.minigrid_env.solvers.shortest import best_return
from openenv.envs.minigrid_env.solvers.walker import walk


def _play_bare(env_id: str, seconds: float) -> float:
    return gymnasium_steps_per_second(GridChoice(env_id=env_id).make(), seconds)


def _best_of_the_only_grid(env_id: str) -> float:
    env = GridChoice(env_id=env_id).make()
    env.reset(seed=0)
    return best_return(env)


MEASURED = {
    env_id: MeasuredTask(
        reset={"env_id": env_id},
        play_bare=partial(_play_bare, env_id),
        heuristic=walk,
        best_return=best,
        num_episodes=200,
    )
    for env_id, best in {
        "MiniGrid-Empty-8x8-v0": _best_of_the_only_grid("MiniGrid-Empty-8x8-v0"),
        "MiniGrid-DoorKey-5x5-v0": None,
    }.items()
}
