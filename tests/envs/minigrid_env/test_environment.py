"""MiniGrid and BabyAI behind a server: every id, seeds, exact copies, text, best play and errors."""

from random import Random

import gymnasium
import numpy as np
import pytest

from tests.envs.extras import require_extra

require_extra("minigrid", "minigrid")

from openenv.core.errors import EnvironmentFault, OpenEnvError
from openenv.envs.catalog import load
from openenv.envs.measured import steps_per_second
from openenv.envs.minigrid_env import MiniGridAction, MiniGridEnv, MiniGridObservation, MiniGridText
from openenv.envs.minigrid_env.server.app import app, program
from openenv.envs.minigrid_env.server.choice import ENV_IDS, GridChoice, tasks
from openenv.envs.minigrid_env.server.environment import MiniGridEnvironment
from openenv.envs.minigrid_env.solvers.shortest import best_return, shortest_plan
from openenv.envs.minigrid_env.view import COLOURS, DOOR_STATES, OBJECTS, SIZE

TEXT = MiniGridText(MiniGridAction, MiniGridObservation)
DOOR_KEY = "MiniGrid-DoorKey-5x5-v0"
COPIED = [DOOR_KEY, "MiniGrid-Dynamic-Obstacles-6x6-v0", "MiniGrid-FourRooms-v0", "BabyAI-GoToSeq-v0"]
"""Obstacles move at random; the missions of BabyAI have parts that remember what is done."""


@pytest.fixture(scope="module")
def url(module_serving):
    return module_serving(app)


def played(env, rng, first, limit=30):
    """The results of up to `limit` random steps."""
    results, seen = [], first
    while not seen.done and len(results) < limit:
        results.append(env.step(TEXT.random_reply(seen, rng)[1]))
        seen = results[-1].observation
    return results


def comparable(results):
    """All that is in observations, with lists in place of arrays."""
    return [result.observation.model_dump_json() for result in results]


def view_of(*things, carried=(1, 0, 0)):
    """An image of an empty room with things at (ahead, right), and what the agent carries."""
    image = np.zeros((SIZE, SIZE, 3), np.uint8)
    image[..., 0] = 1
    for (ahead, right), cell in things:
        image[3 + right, 6 - ahead] = cell
    image[3, 6] = carried
    return image


def seen(image, **fields):
    return MiniGridObservation(
        image=image, direction=fields.pop("direction", 0), mission="get to the goal",
        legal_actions=fields.pop("legal", [0, 1, 2]), metadata={"legal_action_names": ["left", "right", "forward"]},
        **fields,
    )  # fmt: skip


def test_every_task_plays():
    env = MiniGridEnvironment()
    for keywords in tasks().values():
        first = env.reset(seed=1, **keywords)
        assert env.step(TEXT.random_reply(first, Random(1))[1]).image.shape == (SIZE, SIZE, 3), keywords

    assert len(tasks()) > 160
    assert "MiniGrid-MultiRoom-N4-S5-v1" in tasks()
    assert "MiniGrid-MultiRoom-N4-S5-v0" not in tasks(), "an old version"


def test_an_episode_is_the_one_of_minigrid(url):
    bare = gymnasium.make(DOOR_KEY)
    expected, _ = bare.reset(seed=5)
    with MiniGridEnv(url) as env:
        result = env.reset(seed=5, env_id=DOOR_KEY)
        for action in [1, 2, 3, 5, 0, 2] * 5:
            seen = result.observation
            assert np.array_equal(seen.image, expected["image"])
            assert (seen.direction, seen.mission) == (expected["direction"], expected["mission"])
            result = env.step(MiniGridAction(action_id=action))
            expected, reward, *_ = bare.step(action)
            assert result.reward == reward


@pytest.mark.parametrize("env_id", COPIED)
def test_equal_seeds_give_equal_episodes_also_in_a_used_session(url, env_id):
    with MiniGridEnv(url) as env:
        episodes = [
            comparable(played(env, Random(5), env.reset(seed=seed, env_id=env_id).observation)) for seed in (7, 8, 7)
        ]

    assert episodes[0] == episodes[2]
    assert episodes[0] != episodes[1]


@pytest.mark.parametrize("env_id", COPIED)
def test_equal_actions_after_a_fork_give_equal_futures(url, env_id):
    with MiniGridEnv(url) as env:
        first = env.reset(seed=11, env_id=env_id).observation
        last = played(env, Random(1), first, limit=3)[-1].observation
        (branch,) = env.fork(1)
        with branch:
            assert branch.state() == env.state()
            futures = [comparable(played(player, Random(2), last)) for player in (env, branch)]

    assert futures[0] == futures[1]


def test_an_episode_beside_another_environment_is_the_same(url):
    with MiniGridEnv(url) as env, MiniGridEnv(url) as other:
        alone = comparable(played(env, Random(3), env.reset(seed=5, env_id=COPIED[1]).observation))
        seen, rng, beside = env.reset(seed=5, env_id=COPIED[1]).observation, Random(3), []
        while len(beside) < len(alone):
            played(other, Random(1), other.reset(seed=len(beside), env_id=COPIED[1]).observation, limit=2)
            (result,) = played(env, rng, seen, limit=1)
            seen = result.observation
            beside += comparable([result])

    assert beside == alone


def test_twenty_episodes_end_at_the_limit_of_steps(url):
    with MiniGridEnv(url) as env:
        for seed in range(20):
            env.reset(seed=seed, max_steps=3)
            results = [env.step(MiniGridAction(action_id=0)) for _ in range(3)]
            assert [result.done for result in results] == [False, False, True]
            assert results[-1].observation.truncated
            assert results[-1].observation.legal_actions == []


def test_the_shortest_plan_reaches_the_goal_with_the_best_return(url):
    with MiniGridEnv(url) as env:
        for env_id in ("MiniGrid-Empty-5x5-v0", DOOR_KEY, "MiniGrid-LavaGapS6-v0", "MiniGrid-MultiRoom-N2-S4-v0"):
            bare = gymnasium.make(env_id)
            bare.reset(seed=4)
            env.reset(seed=4, env_id=env_id)
            results = [env.step(MiniGridAction(action_id=action)) for action in shortest_plan(bare)]

            assert [result.done for result in results] == [False] * (len(results) - 1) + [True]
            assert results[-1].reward == pytest.approx(best_return(bare))
            assert not results[-1].observation.truncated


def test_best_play_of_the_empty_room_is_known():
    bare = gymnasium.make("MiniGrid-Empty-5x5-v0")  # two steps, a turn, two steps; 100 are allowed
    bare.reset(seed=0)

    assert len(shortest_plan(bare)) == 5
    assert best_return(bare) == pytest.approx(1 - 0.9 * 5 / 100)
    fetch = gymnasium.make("MiniGrid-Fetch-5x5-N2-v0")
    fetch.reset(seed=0)
    with pytest.raises(ValueError, match="no plan"):
        best_return(fetch)


def test_the_known_player_comes_close_to_best_play():
    measured, env = load("minigrid").load_measured(), MiniGridEnvironment()
    for name, task in measured.items():
        returns, best = [], []
        for seed in range(40):
            observation, rng, total = env.reset(seed=seed, **task.reset), Random(seed), 0.0
            bare = gymnasium.make(name)
            bare.reset(seed=seed)
            best.append(best_return(bare))
            while not observation.done:
                observation = env.step(task.heuristic(observation, rng))
                total += observation.reward
            returns.append(total)
            assert total <= best[-1] + 1e-9
        assert sum(best) - sum(returns) < 0.05 * len(best)
        assert task.best_return in (None, pytest.approx(best[0]))
        assert steps_per_second(task.bare(**task.reset), 0.01) > 0


def test_the_names_of_the_view_are_those_of_minigrid():
    from minigrid.core.constants import IDX_TO_COLOR, IDX_TO_OBJECT, STATE_TO_IDX

    assert dict(enumerate(OBJECTS)) == IDX_TO_OBJECT
    assert dict(enumerate(COLOURS)) == IDX_TO_COLOR
    assert {name: number for number, name in enumerate(DOOR_STATES)} == STATE_TO_IDX


@pytest.mark.parametrize(
    ("observation", "words"),
    [
        (seen(view_of()), "Mission: get to the goal. You face east. Free: ahead 6, left 3, right 3."),
        (
            seen(view_of(((2, 0), (2, 5, 0))), direction=3),
            "Mission: get to the goal. You face north. Free: ahead 1, left 3, right 3.",
        ),
        (
            seen(view_of(((3, -1), (8, 1, 0)), ((1, 0), (4, 0, 2)), carried=(5, 0, 0))),
            "Mission: get to the goal. You face east. Free: ahead 0, left 3, right 3. You carry: red key. "
            "Locked red door: ahead 1. Goal: ahead 3, left 1.",
        ),
        (
            seen(view_of(((1, 0), (4, 2, 0)), ((0, 1), (9, 0, 0)))),
            "Mission: get to the goal. You face east. Free: ahead 6, left 3, right 0. Open blue door: ahead 1. "
            "Lava: ahead 0, right 1.",
        ),
    ],
)
def test_the_view_is_described_in_a_few_words(observation, words):
    assert TEXT.describe(observation) == words


def test_the_view_reads_the_same_from_lists():
    image = view_of(((3, -1), (8, 1, 0)))
    listed = MiniGridObservation.model_validate_json(seen(image).model_dump_json())

    assert TEXT.describe(listed) == TEXT.describe(seen(image))


def test_frames_and_replies(url):
    with MiniGridEnv(url) as env:
        drawn = [env.reset(seed=3, env_id=DOOR_KEY, render=True).observation for _ in range(2)]
        (branch,) = env.fork(1)
        with branch:
            step = MiniGridAction(action_id=1)
            stepped = [player.step(step).observation.pixels for player in (env, branch)]
        plain = env.reset(seed=3, env_id=DOOR_KEY).observation

    assert drawn[0].pixels == drawn[1].pixels
    assert stepped[0] == stepped[1] != drawn[0].pixels
    assert plain.pixels is None
    assert [part["type"] for part in TEXT.describe(drawn[0])] == ["text", "image"]
    assert TEXT.parse("toggle", plain) == MiniGridAction(action_id=5)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"env_id": "MiniGrid-DoorKey-5x5"}, "Did you mean 'MiniGrid-DoorKey-5x5-v0'"),
        ({"env_id": "CartPole-v1"}, f"is not among the {len(ENV_IDS)} ids of MiniGrid"),
        ({"env_id": "MiniGrid-WFC-MazeSimple-v0"}, "is not among"),
        ({"env_id": ["MiniGrid-Empty-8x8-v0"]}, "is not among"),
        ({"max_steps": 0}, "max_steps=0"),
        ({"render": 1}, "render=1: expected true"),
        ({"size": 8}, "reset argument 'size' is not known"),
    ],
)
def test_a_wrong_reset_is_refused_and_the_episode_continues(url, keywords, message):
    with MiniGridEnv(url) as env:
        env.reset(seed=1)
        with pytest.raises(EnvironmentFault, match=message):
            env.reset(**keywords)

        assert env.step(MiniGridAction(action_id=0)).done is False
        assert env.state().step_count == 1


def test_an_action_that_the_environment_does_not_have_is_refused(url):
    with MiniGridEnv(url) as env:
        env.reset(seed=1, env_id="MiniGrid-Dynamic-Obstacles-5x5-v0")
        with pytest.raises(EnvironmentFault, match=r"action_id=3: .* has only 0 left, 1 right, 2 forward"):
            env.step(MiniGridAction(action_id=3))
        with pytest.raises(OpenEnvError, match="less than 7"):
            env.step(MiniGridAction.model_construct(action_id=7, metadata={}))

        assert env.state().step_count == 0


def test_a_step_and_a_copy_before_the_reset_are_refused():
    with pytest.raises(ValueError, match="step came before reset"):
        MiniGridEnvironment().step(MiniGridAction(action_id=0))
    with pytest.raises(ValueError, match="no episode to save"):
        MiniGridEnvironment().save_state()


def test_levels_and_frames_are_made_beside_the_event_loop():
    env = MiniGridEnvironment()

    assert env.execution_for("reset", {}) == "inline"
    assert env.execution_for("reset", {"env_id": "BabyAI-GoTo-v0"}) == "thread"
    assert env.execution_for("reset", {"render": True}) == "thread"
    assert env.execution_for("load", {}) == "thread"


def test_many_grids_are_played_in_one_session(url):
    with MiniGridEnv(url).vector(3, options={"env_id": DOOR_KEY}) as envs, MiniGridEnv(url) as env:
        observations, _ = envs.reset(seed=5)
        observations, *_ = envs.step(np.array([1, 2, 0]))
        env.reset(seed=6, env_id=DOOR_KEY)
        single = env.step(MiniGridAction(action_id=2)).observation

        assert observations["image"].shape == (3, 7, 7, 3)
        assert np.array_equal(observations["image"][1], single.image)
        assert observations["mission"][1] == single.mission
        assert envs.single_action_space == gymnasium.spaces.Discrete(7)


def test_a_wrong_setting_stops_the_server_before_it_listens():
    assert program.settings({"MINIGRID_ENV_ID": DOOR_KEY}) == GridChoice(env_id=DOOR_KEY)
    with pytest.raises(ValueError, match="Did you mean"):
        program.build(env_id="MiniGrid-DoorKey")
