"""Gymnasium environments behind a server: values, seeds, spaces, limits and snapshots."""

from random import Random

import gymnasium
import numpy as np
import pytest

from openenv.core.errors import EnvironmentFault, OpenEnvError
from openenv.envs.gymnasium_env import GymnasiumAction, GymnasiumEnv, GymnasiumText
from openenv.envs.gymnasium_env.models import GymnasiumObservation
from openenv.envs.gymnasium_env.server.app import app, program
from openenv.envs.gymnasium_env.server.choice import EnvChoice, family_of, tasks
from openenv.envs.gymnasium_env.server.environment import GymnasiumEnvironment
from openenv.hosting.local_process import LocalServer

NO_SLIP = {"env_id": "FrozenLake-v1", "env_options": {"is_slippery": False}}
LIGHT = [
    "FrozenLake-v1", "Taxi-v4", "CliffWalking-v1", "Blackjack-v1", "CartPole-v1", "MountainCar-v0",
    "MountainCarContinuous-v0", "Acrobot-v1", "Pendulum-v1",
]  # fmt: skip
TEXT = GymnasiumText(GymnasiumAction, GymnasiumObservation)


class NestedEnv(gymnasium.Env):
    """Spaces of every kind, with a bound that is infinite, of the physics of no library."""

    action_space = gymnasium.spaces.Dict({
        "move": gymnasium.spaces.MultiDiscrete([2, 3]),
        "flags": gymnasium.spaces.MultiBinary(2),
        "push": gymnasium.spaces.Box(-1.0, np.inf, (2,), np.float32),
        "level": gymnasium.spaces.Box(0, 255, (1,), np.uint8),
    })  # fmt: skip
    observation_space = gymnasium.spaces.Tuple((gymnasium.spaces.Discrete(3), action_space))

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        return self.observation_space.sample(), {"far": np.inf}

    def step(self, action):
        return (0, action), np.float32(0.5), np.bool_(False), np.bool_(False), {"far": np.inf}


gymnasium.register("Nested-v0", entry_point=NestedEnv)


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


def test_the_default_environment_is_cart_pole(url):
    with GymnasiumEnv(url) as env:
        first = env.reset(seed=1).observation
        expected, _ = gymnasium.make("CartPole-v1").reset(seed=1)

        assert first.value == expected.tolist()
        assert first.metadata["action_space"] == {"type": "Discrete", "n": 2, "start": 0}
        assert first.metadata["observation_space"]["shape"] == [4]
        assert first.metadata["observation_space"]["low"][1] is None, "an infinite bound"
        assert (first.legal_actions, first.metadata["legal_action_names"]) == ([0, 1], ["left", "right"])
        assert first.metadata["seed"] == 1


def test_a_lake_without_slipping_is_crossed_by_its_options(url):
    with GymnasiumEnv(url) as env:
        env.reset(seed=1, **NO_SLIP)
        results = [env.step(GymnasiumAction(value=action)) for action in (1, 1, 2, 2, 1, 2)]

        assert [result.reward for result in results] == [0, 0, 0, 0, 0, 1]
        assert [result.done for result in results] == [False] * 5 + [True]
        assert results[-1].observation.legal_actions == []
        state = env.state()
        assert (state.env_id, state.env_options, state.step_count) == ("FrozenLake-v1", {"is_slippery": False}, 6)


@pytest.mark.parametrize("env_id", LIGHT)
def test_equal_seeds_give_equal_episodes_also_in_a_used_session(url, env_id):
    with GymnasiumEnv(url) as env:
        episodes = [
            played(env, Random(5), env.reset(seed=seed, env_id=env_id, episode_id="e").observation)
            for seed in (7, 8, 7)
        ]
        assert episodes[0] == episodes[2]


@pytest.mark.parametrize("env_id", LIGHT)
def test_equal_actions_after_a_fork_give_equal_futures(url, env_id):
    with GymnasiumEnv(url) as env:
        first = env.reset(seed=11, env_id=env_id).observation
        before = played(env, Random(1), first, limit=2)
        last = before[-1].observation
        (branch,) = env.fork(1)
        with branch:
            assert branch.state() == env.state()
            futures = [(played(player, Random(2), last), player.state()) for player in (env, branch)]

    assert futures[0] == futures[1]


def test_an_environment_without_exact_copies_cannot_be_saved(url):
    with GymnasiumEnv(url) as env:
        env.reset(seed=1, env_id="Nested-v0")
        with pytest.raises(OpenEnvError, match="Nested-v0 cannot be saved: only toy text, classic control, Box2D and"):
            env.save()


def test_nested_spaces_travel_as_json(url):
    action = {"move": [1, 2], "flags": [0, 1], "push": [-1, 1e6], "level": [255]}
    with GymnasiumEnv(url) as env:
        first = env.reset(seed=1, env_id="Nested-v0").observation
        stepped = env.step(GymnasiumAction(value=action))

        parts = first.metadata["action_space"]["spaces"]
        assert parts["push"] == {"type": "Box", "shape": [2], "dtype": "float32", "low": -1.0, "high": None}
        assert parts["move"]["nvec"] == [2, 3]
        assert stepped.observation.value == [0, action]
        assert (stepped.reward, stepped.observation.metadata["info"]) == (0.5, {"far": None})


@pytest.mark.parametrize(
    ("env_id", "value", "space"),
    [
        ("CartPole-v1", 2, r"value=2 is not in the action space Discrete\(2\)"),
        ("CartPole-v1", [0], r"Discrete\(2\)"),
        ("CartPole-v1", "left", r"Discrete\(2\)"),
        ("Pendulum-v1", [2.5], r"Box\(-2.0, 2.0, \(1,\), float32\)"),
        ("Pendulum-v1", [0.5, 0.5], "Box"),
        ("Pendulum-v1", 0.5, "Box"),
        ("Pendulum-v1", ["a"], "Box"),
        ("Nested-v0", {"move": [1, 2]}, "Dict"),
        ("Nested-v0", {"move": [1, 2], "flags": [0, 1], "push": [0, 0], "level": [256]}, "Dict"),
        ("Nested-v0", {"move": [1, 2.5], "flags": [0, 1], "push": [0, 0], "level": [1]}, "Dict"),
        ("Nested-v0", 1, "Dict"),
    ],
)
def test_an_action_outside_the_space_is_refused_with_the_space_and_the_episode_goes_on(url, env_id, value, space):
    with GymnasiumEnv(url) as env:
        env.reset(seed=1, env_id=env_id)
        with pytest.raises(EnvironmentFault, match=space):
            env.step(GymnasiumAction(value=value))

        assert env.state().step_count == 0


def test_max_steps_truncates_an_episode(url):
    with GymnasiumEnv(url) as env:
        env.reset(seed=1, env_id="CliffWalking-v1", max_steps=2)
        results = [env.step(GymnasiumAction(value=0)) for _ in range(2)]

        assert [(result.done, result.observation.truncated) for result in results] == [(False, False), (True, True)]


def test_the_mask_of_taxi_limits_the_legal_actions(url):
    with GymnasiumEnv(url) as env:
        first = env.reset(seed=3, env_id="Taxi-v4").observation
        mask = first.metadata["info"]["action_mask"]

        assert first.legal_actions == [action for action, is_open in enumerate(mask) if is_open]
        assert 0 < len(first.legal_actions) < 6
        masked = mask.index(0)
        assert env.step(GymnasiumAction(value=masked)).observation.value == first.value, "accepted, without effect"


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"env_id": "Taxi-v3"}, "Did you mean 'Taxi-v4'"),
        ({"env_id": "os:CartPole-v1"}, "is not among the"),
        ({"env_id": "GymV21Environment-v0"}, "is not among the"),
        ({"env_id": "FrozenLake-v1", "env_options": {"slippery": False}}, "cannot be made: .*slippery"),
        ({"env_id": "FrozenLake-v1", "env_options": {"map_name": None}}, r"env_options\.map_name=null"),
        ({"env_options": [1]}, "expected an object"),
        ({"env_options": {"xml_file": "/etc/passwd"}}, "can only be named where the server is started"),
        ({"env_options": {"render_mode": "human"}}, "reset with render=True"),
        ({"render": 1}, "render=1: expected true"),
        ({"env_options": {"desc": ["S" * 200] * 200}}, "longer than 20000"),
        ({"max_steps": 0}, "max_steps=0"),
        ({"level": 1}, "reset argument 'level' is not known"),
    ],
)
def test_a_wrong_reset_is_refused_and_the_episode_continues(url, keywords, message):
    with GymnasiumEnv(url) as env:
        env.reset(seed=1)
        with pytest.raises(EnvironmentFault, match=message):
            env.reset(**keywords)

        assert env.step(GymnasiumAction(value=0)).done is False


def test_an_action_may_be_a_numpy_array(url):
    with GymnasiumEnv(url) as env:
        env.reset(seed=1, env_id="Pendulum-v1")
        action = GymnasiumAction(value=np.array([0.5], np.float32))

        assert action.value == [0.5]
        assert env.step(action).reward is not None
        assert GymnasiumAction(value=np.int64(1)).value == 1


def test_every_task_of_the_light_families_plays(url):
    families = {env_id: family_of(env_id) for env_id in tasks()}
    assert "CartPole-v0" not in families, "an old version"
    assert "Nested-v0" not in families, "of another package"
    with GymnasiumEnv(url) as env:
        for env_id, keywords in tasks().items():
            if families[env_id] == "light":
                assert played(env, Random(1), env.reset(seed=1, **keywords).observation, limit=2)


def test_a_physics_engine_and_a_map_are_made_beside_the_event_loop() -> None:
    env = GymnasiumEnvironment()

    assert env.execution == "inline"
    assert env.execution_for("reset", {"seed": 1, **NO_SLIP}) == "inline"
    assert env.execution_for("reset", {"env_id": "FrozenLake-v1", "env_options": {"desc": ["SG"]}}) == "thread"
    assert env.execution_for("reset", {"env_id": "LunarLander-v3"}) == "thread"
    assert env.execution_for("reset", {"render": True}) == "thread"
    assert env.execution_for("load", {}) == "thread"


def test_a_world_of_box2d_is_not_used_for_a_second_episode() -> None:
    assert EnvChoice(env_id="Taxi-v4").is_reusable
    assert not EnvChoice(env_id="BipedalWalker-v3").is_reusable


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"env_id": "CartPol-v1"}, "Did you mean 'CartPole-v1'"),
        ({"env_id": "FrozenLake-v1", "env_options": {"slippery": 1}}, "cannot be made"),
        ({"env_id": "FrozenLake-v1", "max_steps": 0}, "max_steps=0: expected a whole number from 1"),
    ],
)
def test_a_wrong_setting_stops_the_server_before_it_listens(settings, message):
    with pytest.raises(ValueError, match=message):
        program.build(**settings)


def test_environment_variables_set_the_environment() -> None:
    environ = {"GYMNASIUM_ENV_ID": "Taxi-v4", "GYMNASIUM_MAX_STEPS": "9"}
    assert program.settings(environ) == EnvChoice(env_id="Taxi-v4", max_steps=9)
    assert program.settings({"GYMNASIUM_RENDER": "1"}).render is True


@pytest.mark.process
def test_the_command_line_sets_the_environment() -> None:
    args = [
        "serve",
        "gymnasium",
        "--env-id",
        "FrozenLake-v1",
        "--env-options",
        '{"map_name": "8x8"}',
        "--max-steps",
        "3",
    ]
    with LocalServer("openenv", args) as server, GymnasiumEnv(server.base_url) as env:
        first = env.reset(seed=1).observation
        state = env.state()

    assert first.metadata["observation_space"]["n"] == 64
    assert (state.env_options, state.max_steps) == ({"map_name": "8x8"}, 3)


@pytest.mark.parametrize(
    ("env_id", "declared"), [("CartPole-v1", 475.0), ("FrozenLake-v1", 0.7), ("Pendulum-v1", None)]
)
def test_an_environment_of_gymnasium_has_the_threshold_of_its_registration(env_id: str, declared: float | None) -> None:
    env = GymnasiumEnvironment()
    env.reset(seed=0, env_id="MountainCar-v0")

    env.reset(seed=0, env_id=env_id)

    assert env.success_return == declared
