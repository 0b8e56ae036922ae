"""The wildfire environment behind a real server."""

from random import Random

import pytest

from openenv.core.errors import EnvironmentFault
from openenv.envs.catalog import load
from openenv.envs.wildfire_env import WildfireAction, WildfireEnv
from openenv.envs.wildfire_env.server.app import app
from openenv.envs.wildfire_env.server.forest import Forest
from openenv.envs.wildfire_env.solvers.front import front_action
from openenv.envs.wildfire_env.text import WildfireText

TEXT = WildfireText()
TASKS = list(load("wildfire").load_tasks().values())
WAIT = WildfireAction(kind="wait")


@pytest.fixture(scope="module")
def url(module_serving):
    return module_serving(app)


def random_action(seen, rng):
    return WildfireAction(**rng.choice(seen.legal_actions))


def total(env, choose, rng, **keywords):
    result, earned = env.reset(**keywords), 0.0
    while not result.done:
        result = env.step(choose(result.observation, rng))
        earned += result.reward
    return earned


def played(env, seen, rng, limit=15):
    """The observations of random steps, as JSON."""
    shown = []
    while not seen.done and len(shown) < limit:
        seen = env.step(random_action(seen, rng)).observation
        shown.append(seen.model_dump_json())
    return shown


def test_in_twenty_forests_of_any_task_the_return_is_one_less_twice_the_share_that_caught_fire(url):
    with WildfireEnv(url) as env:
        for seed in range(20):
            keywords = TASKS[seed % len(TASKS)]
            earned = total(env, random_action, Random(seed), seed=seed, **keywords)
            state = env.state()
            assert earned == pytest.approx(1 - 2 * state.caught / state.size**2)


def test_play_at_the_front_saves_more_than_random_play(url):
    with WildfireEnv(url) as env:
        means = [
            sum(total(env, choose, Random(seed), seed=seed) for seed in range(60)) / 60
            for choose in (front_action, random_action)
        ]

    assert means[0] > means[1] + 0.3


def test_water_puts_out_a_cell_for_good(url):
    with WildfireEnv(url) as env:
        seen = env.reset(seed=1, fires=2, spread=0.0).observation
        row, column = seen.burning[0]
        result = env.step(WildfireAction(kind="water", row=row, column=column))

        assert result.observation.board.split("\n")[row][column] == "~"
        assert (result.observation.water, result.observation.burning) == (3, [seen.burning[1]])
        result = env.step(WildfireAction(kind="water", row=seen.burning[1][0], column=seen.burning[1][1]))
        assert (result.done, result.reward, result.observation.legal_actions) == (True, 1.0, [])


def test_a_cell_burns_for_three_steps(url):
    with WildfireEnv(url) as env:
        row, column = env.reset(seed=1, fires=1, spread=0.0).observation.burning[0]
        results = [env.step(WAIT) for _ in range(3)]

    assert [result.done for result in results] == [False, False, True]
    marks = [result.observation.board.split("\n")[row][column] for result in results]
    assert marks == ["*", "*", "#"]


def test_fire_does_not_cross_a_firebreak():
    rows = ["T=T", "*=T", "T=T"]
    forest = Forest([list(row) for row in rows], "none", 0.5)
    forest.light((1, 0))
    rng = Random(0)
    while forest.steps_left:
        forest.burn(rng)

    assert [row[1:] for row in forest.board().split("\n")] == ["=T"] * 3


def test_wind_and_moisture_change_the_chance_of_fire():
    forest = Forest([list(row) for row in ("TTT", "T*t", "TTT")], "east", 0.5)
    forest.light((1, 1))

    chances = dict(forest.chances((1, 1)))

    assert chances == pytest.approx({(0, 1): 0.5, (1, 2): 0.5 * 1.8 * 0.4, (2, 1): 0.5, (1, 0): 0.5 * 0.2})


def test_fire_spreads_as_often_as_its_chance():
    lit = 0
    for seed in range(2000):
        forest = Forest([["*", "T"]], "none", 0.3)
        forest.rows.append(["=", "="])
        forest.light((0, 0))
        lit += forest.burn(Random(seed))

    assert abs(lit / 2000 - 0.3) < 0.04


def test_equal_seeds_give_equal_episodes_beside_other_sessions_and_others_differ(url):
    with WildfireEnv(url) as env, WildfireEnv(url) as other:
        episodes = []
        for seed in (5, 6, 5):
            first = env.reset(seed=seed).observation
            played(other, other.reset(seed=99).observation, Random(seed))
            episodes.append([first.model_dump_json(), *played(env, first, Random(3))])

    assert episodes[0] == episodes[2]
    assert episodes[0] != episodes[1]


def test_without_a_seed_the_metadata_names_the_one_that_was_drawn(url):
    with WildfireEnv(url) as env:
        first = env.reset().observation

        assert env.reset(seed=first.metadata["seed"]).observation == first


def test_a_chosen_wind_leaves_the_forest_as_it_is(url):
    with WildfireEnv(url) as env:
        drawn = env.reset(seed=4).observation
        chosen = env.reset(seed=4, wind="none").observation

    assert (chosen.board, chosen.wind) == (drawn.board, "none")
    assert drawn.wind != "none"


def test_a_restored_episode_burns_on_in_the_same_way(url):
    with WildfireEnv(url) as env:
        seen = env.reset(seed=9, size=12, spread=0.4).observation
        played(env, seen, Random(1), limit=2)
        seen = env.step(WAIT).observation
        token, before = env.save(), env.state()
        onward = played(env, seen, Random(2))
        env.reset(seed=2)
        env.restore(token)

        assert env.state() == before
        assert played(env, seen, Random(2)) == onward
        assert len(onward) > 3


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"size": 3}, "size=3: expected a whole number from 4 to 20"),
        ({"fires": 0}, "fires=0"),
        ({"spread": 1}, r"spread=1: expected a number from 0 to 0\.5"),
        ({"moist": -1}, "moist=-1"),
        ({"wind": "up"}, "wind='up': expected one of none, north, east, south, west"),
        ({"wind": ["north"]}, "wind="),
        ({"water": 1.5}, r"water=1\.5"),
        ({"firebreaks": -1}, "firebreaks=-1"),
        ({"planes": 1}, "reset takes seed, .*; got planes"),
    ],
)
def test_a_wrong_reset_is_an_error_that_names_the_field_and_the_episode_goes_on(url, keywords, message):
    with WildfireEnv(url) as env:
        before = env.reset(seed=1).observation
        with pytest.raises(EnvironmentFault, match=message):
            env.reset(**keywords)

        assert env.step(WAIT).observation.wind == before.wind
        assert env.state().step_count == 1


def test_an_impossible_action_is_an_error_that_lists_the_possible_ones_and_nothing_burns(url):
    with WildfireEnv(url) as env:
        seen = env.reset(seed=1, fires=1, spread=0.5, water=1).observation
        row, column = seen.burning[0]
        far = (row + 4) % 8
        expected = {
            "water": rf"expected a burning cell, one of \({row}, {column}\)",
            "firebreak": "expected trees up to two cells from fire, one of",
        }
        for kind, message in expected.items():
            for place in (far, -1, 8):
                with pytest.raises(EnvironmentFault, match=message):
                    env.step(WildfireAction(kind=kind, row=place, column=column))
        env.step(WAIT)
        assert env.state().step_count == 1


def test_supplies_that_are_used_up_are_an_error(url):
    with WildfireEnv(url) as env:
        seen = env.reset(seed=1, water=0, firebreaks=0).observation
        assert seen.legal_actions == [{"kind": "wait"}]
        for kind, name in (("water", "water is 0"), ("firebreak", "firebreaks is 0")):
            with pytest.raises(EnvironmentFault, match=f"{name}, all are used"):
                env.step(WildfireAction(kind=kind, row=seen.burning[0][0], column=seen.burning[0][1]))


def test_the_text_names_the_fire_the_wind_and_what_is_left(url):
    with WildfireEnv(url) as env:
        seen = env.reset(seed=1, fires=1, wind="east").observation

    row, column = seen.burning[0]
    first, *board = TEXT.describe(seen).split("\n")
    assert first == f"Wind: east. Water 4, firebreaks 4, trees 63. Fire: {row} {column}."
    assert "\n".join(board) == seen.board
    assert TEXT.parse(f"Water {row} {column} please", seen) == WildfireAction(kind="water", row=row, column=column)
    assert TEXT.parse("wait", seen) == WAIT
    assert TEXT.parse("water 99 99", seen) is None
    assert f"are: water {row} {column}, firebreak" in TEXT.problem("water 99 99", seen)
