"""The maze environment: mazes with one way between any two cells, found by walking through open doors."""

from random import Random

import pytest

from openenv.core.errors import EnvironmentFault
from openenv.envs.maze_env import MazeAction, MazeEnv, MazeObservation, players
from openenv.envs.maze_env.server.app import app
from openenv.envs.maze_env.server.maze import OPPOSITE, STEPS, Maze, neighbour
from openenv.envs.maze_env.text import MazeText


@pytest.fixture(scope="module")
def url(module_serving):
    return module_serving(app)


def along_the_right_wall(seen: MazeObservation) -> MazeAction:
    return players.along_the_right_wall(seen, Random())


@pytest.mark.parametrize("size", [2, 5, 20])
def test_a_maze_has_one_way_between_any_two_cells(size):
    maze = Maze(size, Random(size))
    cells = [(row, column) for row in range(size) for column in range(size)]

    doors = {(cell, step) for cell in cells for step in maze.doors(cell)}
    assert len(doors) == 2 * (len(cells) - 1)
    assert all((neighbour(cell, step), OPPOSITE[step]) in doors for cell, step in doors)
    assert max(maze.distance((0, 0), cell) for cell in cells) < len(cells)


def test_twenty_mazes_of_any_size_are_left_along_the_right_wall(url):
    with MazeEnv(url) as env:
        for seed in range(20):
            result = env.reset(seed=seed, size=2 + seed % 7)
            state, rewards = env.state(), []
            while not result.done:
                result = env.step(along_the_right_wall(result.observation))
                rewards.append(result.reward)

            place = result.observation
            assert (place.row, place.column) == (place.goal_row, place.goal_column)
            assert len(rewards) >= state.shortest
            assert sum(rewards) == pytest.approx(1 - 0.01 * len(rewards))


def test_equal_seeds_carve_equal_mazes_and_others_differ(url):
    def doors(env, seed):
        seen = env.reset(seed=seed, size=6).observation
        walked = [tuple(seen.legal_actions)]
        for _ in range(30):
            seen = env.step(along_the_right_wall(seen)).observation
            walked.append(tuple(seen.legal_actions))
            if seen.done:
                break
        return walked

    with MazeEnv(url) as env, MazeEnv(url) as other:
        mazes = [doors(env, seed) for seed in range(5)]
        assert [doors(other, seed) for seed in range(5)] == mazes
        assert len(set(map(tuple, mazes))) == 5


def test_a_wall_is_an_error_that_names_the_doors_and_the_episode_goes_on(url):
    with MazeEnv(url) as env:
        seen = env.reset(seed=1).observation
        wall = next(step for step in STEPS if step not in seen.legal_actions)
        with pytest.raises(EnvironmentFault, match=rf"direction='{wall}': there is a wall\. Choose one of"):
            env.step(MazeAction(direction=wall))

        assert env.step(MazeAction(direction=seen.legal_actions[0])).reward == -0.01
        assert env.state().step_count == 1


def test_an_episode_ends_without_the_goal_after_its_last_step(url):
    with MazeEnv(url) as env:
        result = env.reset(seed=1, size=5, max_steps=3)
        for _ in range(3):
            assert not result.done
            result = env.step(MazeAction(direction=result.observation.legal_actions[0]))

        assert (result.done, result.reward) == (True, -0.01)


def test_a_saved_episode_is_restored(url):
    with MazeEnv(url) as env:
        result = env.reset(seed=9, size=6)
        for _ in range(4):
            result = env.step(along_the_right_wall(result.observation))
        token, before = env.save(), result.observation
        onward = [env.step(along_the_right_wall(before)).observation]
        env.reset(seed=2)
        env.restore(token)

        assert [env.step(along_the_right_wall(before)).observation] == onward
        assert env.state().size == 6


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"size": 1}, "size=1: expected a whole number from 2 to 50"),
        ({"max_steps": 0}, "max_steps=0"),
        ({"walls": 1}, "got walls"),
    ],
)
def test_a_wrong_reset_is_an_error_that_names_the_field(url, keywords, message):
    with MazeEnv(url) as env, pytest.raises(EnvironmentFault, match=message):
        env.reset(**keywords)


def test_a_message_names_the_players_cell_and_the_open_ways() -> None:
    text, seen = MazeText(), {"goal_row": 3, "goal_column": 3, "row": 0}
    first = MazeObservation(**seen, column=0, legal_actions=["east"])
    later = MazeObservation(**seen, column=1, came_from="west", legal_actions=["south", "west"])

    assert text.describe(first) == "You are in row 0, column 0. The goal is in row 3, column 3. Open ways: east."
    assert text.describe(later).endswith(
        "You came from the west. The goal is in row 3, column 3. Open ways: south and west."
    )
    assert text.parse("I would go south.", later) == MazeAction(direction="south")
    assert text.parse("north", later) is None
    assert (text.situation(first), text.situation(later)) == ("dead end", "corridor")
