"""The snake environment behind a real server."""

from collections import deque
from random import Random

import pytest

from openenv.core.errors import EnvironmentFault
from openenv.envs.snake_env import SnakeAction, SnakeEnv
from openenv.envs.snake_env.server.app import app
from openenv.envs.snake_env.server.game import Game, beside
from openenv.envs.snake_env.solvers.safe_path import safe_action, shortest_path
from openenv.envs.snake_env.text import SnakeText

TEXT = SnakeText()


@pytest.fixture(scope="module")
def url(module_serving):
    return module_serving(app)


def played(env, seen, rng, limit=40):
    """The observations of random steps, as JSON."""
    shown = []
    while not seen.done and len(shown) < limit:
        seen = env.step(SnakeAction(direction=rng.choice(seen.legal_actions))).observation
        shown.append(seen.model_dump_json())
    return shown


def go(env, *directions):
    for direction in directions:
        result = env.step(SnakeAction(direction=direction))
    return result


def test_twenty_snakes_by_safe_paths_nearly_fill_the_board(url):
    lengths = []
    with SnakeEnv(url) as env:
        for seed in range(20):
            result = env.reset(seed=seed, size=4 + seed % 3)
            while not result.done:
                before = result.observation
                result = env.step(safe_action(before, Random(seed)))
                seen = result.observation
                assert seen.length - before.length == (result.reward >= 1)
            assert env.state().ending in ("full", "hunger"), "no death"
            lengths.append(seen.length / (4 + seed % 3) ** 2)

    assert sum(lengths) / 20 > 0.9


def test_the_fields_and_the_board_name_the_same_places(url):
    with SnakeEnv(url) as env:
        seen = env.reset(seed=1).observation
        for _ in range(20):
            rows = seen.board.split("\n")
            assert rows[seen.head_row][seen.head_column] == "H"
            assert rows[seen.food_row][seen.food_column] == "F"
            assert [seen.head_row, seen.head_column] == seen.body[0]
            assert rows[seen.body[-1][0]][seen.body[-1][1]] == "t"
            assert sum(character in "Hot" for character in seen.board) == seen.length == len(seen.body)
            seen = env.step(safe_action(seen, Random())).observation


def test_the_snake_begins_in_the_middle_and_looks_east(url):
    with SnakeEnv(url) as env:
        seen = env.reset(seed=1, size=6).observation

    assert (seen.body, seen.direction) == ([[3, 3], [3, 2], [3, 1]], "east")
    assert seen.legal_actions == ["north", "east", "south"]


def test_the_wall_ends_the_episode_and_costs_one(url):
    with SnakeEnv(url) as env:
        seen = env.reset(seed=1, size=4).observation
        while seen.ahead != "wall":
            seen = env.step(SnakeAction(direction="east")).observation
        result = env.step(SnakeAction(direction="east"))

        assert (result.done, result.reward, result.observation.legal_actions) == (True, -1.0, [])
        assert result.observation.metadata == {"ending": "wall"}
        assert env.state().ending == "wall"


def test_the_body_ends_the_episode_and_the_tail_does_not():
    game = Game(6, Random(0))
    game.food, game.direction = (0, 0), "west"
    game.body = deque([(2, 2), (2, 3), (3, 3), (3, 2)])
    tail = beside(game.head, "south")

    assert game.body[-1] == tail
    assert game.what_is_at(tail) == "free"
    game.body.append((4, 2))
    assert game.move("south") == "body"
    assert game.head == (2, 2)


def test_hunger_ends_the_episode_and_food_ends_hunger(url):
    with SnakeEnv(url) as env:
        env.reset(seed=1, hunger=3)
        result = go(env, "north", "north")
        assert (result.done, result.observation.hunger) == (False, 1)
        result = go(env, "east")
        assert (result.done, result.reward, env.state().ending) == (True, -1.0, "hunger")

        result = env.reset(seed=1, hunger=30)
        while result.reward != 1.0:
            result = env.step(safe_action(result.observation, Random()))
        assert result.observation.hunger == 30


def test_the_limit_of_steps_ends_the_episode_without_a_cost(url):
    with SnakeEnv(url) as env:
        env.reset(seed=1, max_steps=2)
        result = go(env, "north", "north")

        assert (result.done, result.reward, env.state().ending) == (True, 0.0, "steps")


def test_backwards_is_an_error_and_the_snake_stays(url):
    with SnakeEnv(url) as env:
        before = env.reset(seed=1).observation
        with pytest.raises(EnvironmentFault, match=r"direction='west': the snake cannot go backwards\. Choose one of"):
            go(env, "west")

        assert env.state().step_count == 0
        assert go(env, "north").observation.head_row == before.head_row - 1


def test_equal_seeds_give_equal_episodes_beside_other_sessions_and_others_differ(url):
    with SnakeEnv(url) as env, SnakeEnv(url) as other:
        episodes = []
        for seed in (5, 6, 5):
            first = env.reset(seed=seed, size=10).observation
            played(other, other.reset(seed=99).observation, Random(seed))
            episodes.append([first.model_dump_json(), *played(env, first, Random(3))])

    assert episodes[0] == episodes[2]
    assert episodes[0] != episodes[1]


def test_without_a_seed_the_metadata_names_the_one_that_was_drawn(url):
    with SnakeEnv(url) as env:
        first = env.reset().observation

        assert env.reset(seed=first.metadata["seed"]).observation == first


def test_a_restored_episode_has_the_same_food(url):
    def eaten(seen):
        shown = []
        for _ in range(60):
            seen = env.step(safe_action(seen, Random())).observation
            shown.append(seen)
        return shown

    with SnakeEnv(url) as env:
        env.reset(seed=9)
        seen = go(env, "north", "north").observation
        token, before = env.save(), env.state()
        onward = eaten(seen)
        env.reset(seed=2)
        env.restore(token)

        assert env.state() == before
        assert eaten(seen) == onward
        assert onward[-1].length > seen.length + 3


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"size": 3}, "size=3: expected a whole number from 4 to 20"),
        ({"size": "8"}, "size='8'"),
        ({"max_steps": 0}, "max_steps=0"),
        ({"hunger": 0}, "hunger=0"),
        ({"walls": 1}, "reset takes seed, episode_id, size, max_steps, hunger; got walls"),
    ],
)
def test_a_wrong_reset_is_an_error_that_names_the_field_and_the_episode_goes_on(url, keywords, message):
    with SnakeEnv(url) as env:
        env.reset(seed=1)
        go(env, "north")
        with pytest.raises(EnvironmentFault, match=message):
            env.reset(**keywords)

        go(env, "north")
        assert env.state().step_count == 2


def test_the_text_names_what_matters(url):
    with SnakeEnv(url) as env:
        seen = env.reset(seed=1).observation

    assert seen.board.split("\n")[1] == "F......."
    first, *board = TEXT.describe(seen).split("\n")
    assert first == (
        "You face east. Food: north 3, west 4. Ahead free, left free, right free. Length 3, starves in 128 steps."
    )
    assert "\n".join(board) == seen.board
    assert TEXT.parse("I go North.", seen) == SnakeAction(direction="north")
    assert TEXT.parse("west", seen) is None
    assert TEXT.situation(seen) == "free ahead"


def test_the_shortest_path_goes_around_the_body():
    body = ((2, 2), (2, 1), (3, 1), (3, 2), (3, 3), (2, 3), (1, 3), (0, 3))

    assert shortest_path(body, (4, 2), 5) == [(1, 2), (1, 1), (1, 0), (2, 0), (3, 0), (4, 0), (4, 1), (4, 2)]
    assert shortest_path(((0, 0), (0, 1), (1, 1), (1, 0), (2, 0)), (4, 4), 5) is None
