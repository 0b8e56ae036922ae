"""The grid world environment behind a real server."""

from collections import Counter
from random import Random

import pytest

from openenv.core.errors import EnvironmentFault, OpenEnvError
from openenv.core.generic_client import GenericEnvClient
from openenv.envs.catalog import load
from openenv.envs.grid_world_env import GridWorldAction, GridWorldEnv
from openenv.envs.grid_world_env.players import best_action
from openenv.envs.grid_world_env.server.app import app
from openenv.envs.grid_world_env.server.grid import STEPS, random_grid

TASKS = list(load("grid_world").load_tasks().values())
CORRIDOR = {"layout": ["S..G"], "max_steps": 50}


@pytest.fixture(scope="module")
def url(module_serving):
    return module_serving(app)


def played(env, rng, limit=30):
    """The observations of random steps, as JSON."""
    seen = []
    while len(seen) < limit:
        result = env.step(GridWorldAction(direction=rng.choice(list(STEPS))))
        seen.append(result.observation.model_dump_json())
        if result.done:
            break
    return seen


def test_twenty_grids_of_any_task_are_left_by_the_shortest_way(url):
    with GridWorldEnv(url) as env:
        for seed in range(20):
            keywords = dict(TASKS[seed % len(TASKS)], slip=0.0)
            result = env.reset(seed=seed, **keywords)
            state, rewards = env.state(), []
            while not result.done:
                result = env.step(best_action(result.observation, Random()))
                rewards.append(result.reward)

            seen = result.observation
            assert (seen.row, seen.column) == (seen.goal_row, seen.goal_column)
            assert len(rewards) == state.shortest
            assert sum(rewards) == pytest.approx(1 - 0.01 * state.shortest)


def test_the_board_shows_what_the_fields_name(url):
    with GridWorldEnv(url) as env:
        seen = env.reset(layout=["..#", "S#G", "..."]).observation

    assert seen.board == "..#\nA#G\n..."
    assert (seen.row, seen.column, seen.goal_row, seen.goal_column) == (1, 0, 1, 2)
    assert seen.free == ["north", "south"]


def test_start_and_goal_can_be_chosen(url):
    with GridWorldEnv(url) as env:
        seen = env.reset(seed=1, size=4, start=[3, 1], goal=[0, 2]).observation

    assert (seen.row, seen.column, seen.goal_row, seen.goal_column) == (3, 1, 0, 2)


def test_a_step_against_the_edge_or_an_obstacle_stays_and_costs(url):
    with GridWorldEnv(url) as env:
        env.reset(layout=["S#", ".G"])
        for direction in ("north", "east"):
            result = env.step(GridWorldAction(direction=direction))
            assert (result.observation.row, result.observation.column, result.reward) == (0, 0, -0.01)


def test_a_step_slips_to_each_side_with_half_of_the_chance(url):
    ends = Counter()
    with GridWorldEnv(url) as env:
        for seed in range(600):
            env.reset(seed=seed, layout=["...", ".S.", "..G"], slip=0.5)
            seen = env.step(GridWorldAction(direction="north")).observation
            ends[seen.row, seen.column] += 1

    assert set(ends) == {(0, 1), (1, 0), (1, 2)}
    assert abs(ends[0, 1] - 300) < 50
    assert abs(ends[1, 0] - 150) < 45


def test_equal_seeds_give_equal_episodes_beside_other_sessions_and_others_differ(url):
    with GridWorldEnv(url) as env, GridWorldEnv(url) as other:
        episodes = []
        for seed in (5, 6, 5):
            first = env.reset(seed=seed, slip=0.4).observation.model_dump_json()
            other.reset(seed=99, slip=0.4)
            played(other, Random(seed))
            episodes.append([first, *played(env, Random(3))])

    assert episodes[0] == episodes[2]
    assert episodes[0] != episodes[1]


def test_without_a_seed_the_metadata_names_the_one_that_was_drawn(url):
    with GridWorldEnv(url) as env:
        first = env.reset(size=9).observation
        again = env.reset(size=9, seed=first.metadata["seed"]).observation

    assert again == first


def test_a_restored_episode_has_the_same_slips(url):
    with GridWorldEnv(url) as env:
        env.reset(seed=9, size=8, slip=0.5)
        played(env, Random(1), limit=4)
        token, before = env.save(), env.state()
        onward = played(env, Random(2))
        env.reset(seed=2)
        env.restore(token)

        assert env.state() == before
        assert played(env, Random(2)) == onward


def test_an_episode_ends_without_the_goal_after_its_last_step(url):
    with GridWorldEnv(url) as env:
        env.reset(layout=["S.G"], max_steps=2)
        first = env.step(GridWorldAction(direction="west"))
        last = env.step(GridWorldAction(direction="west"))

    assert (first.done, first.observation.steps_left) == (False, 1)
    assert (last.done, last.reward, last.observation.steps_left) == (True, -0.01, 0)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"size": 1}, "size=1: expected a whole number from 2 to 20"),
        ({"size": True}, "size=True"),
        ({"density": 0.5}, r"density=0\.5: expected a number from 0 to 0\.4"),
        ({"slip": "often"}, "slip='often': expected a number from 0 to 1"),
        ({"slip": float("nan")}, "slip="),
        ({"max_steps": 0}, "max_steps=0"),
        ({"start": [0]}, r"start=\[0\]: expected \[row, column\]"),
        ({"goal": [0, 9]}, "goal=9: expected a whole number from 0 to 4"),
        ({"goal": [0, 0]}, "the start is there"),
        ({"layout": ["SG"], "size": 4}, "leave out size"),
        ({"layout": "SG"}, "expected 1 to 20 rows"),
        ({"layout": ["S#G"]}, "with a way from S to G"),
        ({"layout": ["SG", "."]}, "rows of equal length"),
        ({"layout": ["SGX"]}, "of the characters"),
        ({"layout": ["SGS"]}, "once"),
        ({"layout": []}, "expected 1 to 20 rows"),
        ({"walls": 1}, "reset takes seed, episode_id, size, .*; got walls"),
    ],
)
def test_a_wrong_reset_is_an_error_that_names_the_field_and_the_episode_goes_on(url, keywords, message):
    with GridWorldEnv(url) as env:
        env.reset(seed=1, **CORRIDOR)
        env.step(GridWorldAction(direction="east"))
        with pytest.raises(EnvironmentFault, match=message):
            env.reset(**keywords)

        assert env.step(GridWorldAction(direction="east")).observation.column == 2


def test_an_unknown_direction_is_refused_and_the_player_stays(url):
    with GenericEnvClient(url) as env:
        env.reset(**CORRIDOR)
        with pytest.raises(OpenEnvError, match="direction"):
            env.step({"direction": "up"})

        assert env.state()["step_count"] == 0


def test_the_densest_and_largest_grid_has_a_way():
    grid = random_grid(20, 0.4, (0, 0), (19, 19), Random(1))

    assert grid.distances()[grid.start] >= 38
    assert 100 < len(grid.obstacles) < 200
