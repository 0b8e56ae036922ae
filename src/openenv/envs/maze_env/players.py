"""A player that keeps to the right wall."""

from random import Random

from openenv.envs.maze_env.models import Direction, MazeAction, MazeObservation
from openenv.envs.maze_env.server.maze import OPPOSITE

_CLOCKWISE: tuple[Direction, ...] = ("north", "east", "south", "west")


def along_the_right_wall(observation: MazeObservation, _: Random) -> MazeAction:
    """The first door to the right of where the player looks, which is away from the cell before."""
    ahead = OPPOSITE[observation.came_from] if observation.came_from else "south"
    right = _CLOCKWISE.index(ahead) + 1
    turns = [_CLOCKWISE[(right - turn) % 4] for turn in range(4)]
    return MazeAction(direction=next(turn for turn in turns if turn in observation.legal_actions))
