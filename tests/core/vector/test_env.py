"""Many environments in one session: stacked, seeded, reset by themselves, failing each for itself."""

import asyncio
import signal
import threading
from dataclasses import replace
from typing import Literal

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers.vector import RecordEpisodeStatistics
from pydantic import Field
from websockets.sync.client import connect

from openenv.core import EnvClient, Environment, Observation, State
from openenv.core.client.address import Endpoint
from openenv.core.client.blocking_transport import BlockingSession
from openenv.core.env_server import ServerConfig, create_app
from openenv.core.env_server.runner.sync_vector import next_seed
from openenv.core.env_server.vector_environment import VectorBatch, VectorEnvironment
from openenv.core.errors import (
    AnswerTimeout,
    EnvironmentFault,
    EpisodeOver,
    InvalidMessage,
    NotSupported,
    OpenEnvError,
    SessionLost,
    TimeLimitExceeded,
    WorkerCrashed,
)
from openenv.core.wire.arrays import pack
from openenv.core.wire.client_codec import Request
from openenv.core.wire.constants import ARRAYS_SUBPROTOCOL
from openenv.hosting.local_process import LocalServer
from tests.core.counting_env import (
    AsyncEnvironment,
    CountAction,
    CountEnv,
    CountingEnvironment,
    InlineAsyncEnvironment,
    InlineEnvironment,
    ProcessEnvironment,
)
from tests.core.cutting_proxy import CuttingProxy

pytestmark = pytest.mark.process


@pytest.fixture
def vector(serving):
    """Makes a vector of the counting environment; closes it after the test."""
    opened = []

    def open_vector(num_envs, environment=CountingEnvironment, config=None, **settings):
        url = serving(create_app(environment, config=config or ServerConfig()))
        opened.append(CountEnv(url).vector(num_envs, **settings))
        return opened[-1]

    yield open_vector
    for envs in opened:
        envs.close()


def add(*amounts, mischief=None):
    return {"amount": np.array(amounts), "mischief": mischief or [""] * len(amounts)}


@pytest.mark.parametrize(
    "environment",
    [InlineEnvironment, CountingEnvironment, AsyncEnvironment, InlineAsyncEnvironment, ProcessEnvironment],
)
def test_equal_seeds_and_actions_give_what_one_environment_alone_gives(serving, environment):
    url = serving(create_app(environment))
    envs = CountEnv(url).vector(3, autoreset="disabled")
    first, infos = envs.reset(seed=[5, 6, 7])
    assert infos["seeds"].tolist() == [5, 6, 7]
    then, rewards, terminated, truncated, _ = envs.step(np.array([1, 2, 10]))
    for row, (seed, amount) in enumerate(zip((5, 6, 7), (1, 2, 10), strict=True)):
        with CountEnv(url) as env:
            assert env.reset(seed=seed).observation.draw == first["draw"][row]
            alone = env.step(CountAction(amount=amount))
        assert (alone.observation.total, alone.observation.draw) == (then["total"][row], then["draw"][row])
        assert (alone.reward, alone.done) == (rewards[row], terminated[row])
    assert not truncated.any()
    envs.close()


def test_it_is_gymnasiums_vector_environment(vector):
    envs = vector(4)
    assert isinstance(envs, gymnasium.vector.VectorEnv)
    assert envs.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    assert envs.observation_space["total"].shape == (4,)
    assert envs.single_action_space.dtype == np.int64
    observations, _ = envs.reset(seed=1)
    assert envs.observation_space["draw"].contains(observations["draw"])
    counted = RecordEpisodeStatistics(envs)
    counted.reset(seed=1)
    for _ in range(3):
        _, _, terminated, _, infos = counted.step(np.array([4, 4, 4, 1]))
    assert terminated.tolist() == [True, True, True, False]
    assert infos["episode"]["r"].tolist() == [12.0, 12.0, 12.0, 0.0]


def test_a_number_as_seed_counts_on(vector):
    envs = vector(3)
    assert envs.reset(seed=40)[1]["seeds"].tolist() == [40, 41, 42]
    assert len(set(envs.reset()[1]["seeds"].tolist())) == 3


def test_at_the_next_step_an_ended_episode_begins_again(vector):
    envs = vector(2, autoreset="next_step")
    envs.reset(seed=[5, 6])
    observations, rewards, terminated, _, _ = envs.step(np.array([10, 1]))
    assert (observations["total"].tolist(), rewards.tolist(), terminated.tolist()) == (
        [10, 1],
        [10.0, 1.0],
        [True, False],
    )
    observations, rewards, terminated, _, _ = envs.step(np.array([3, 1]))
    assert (observations["total"].tolist(), rewards.tolist()) == ([0, 2], [0.0, 1.0])
    assert not terminated.any()


def test_at_the_same_step_the_last_observation_is_kept(vector):
    envs = vector(2, autoreset="same_step")
    envs.reset(seed=[5, 6])
    observations, rewards, terminated, _, infos = envs.step(np.array([10, 1]))
    assert (observations["total"].tolist(), rewards.tolist()) == ([0, 1], [10.0, 1.0])
    assert terminated.tolist() == infos["_final_obs"].tolist() == [True, False]
    assert infos["final_obs"][0]["total"] == 10
    assert infos["final_obs"][1] is None
    _, _, terminated, _, infos = envs.step(np.array([12, 15]))
    assert terminated.all()
    assert [final["total"] for final in infos["final_obs"]] == [12, 16]
    again = vector(1)
    assert again.reset(seed=next_seed(5))[0]["draw"][0] == observations["draw"][0]


class TellingEnvironment(CountingEnvironment):
    """Has its total in fields that do not stack, too."""

    def step(self, action, **kwargs):
        observation = super().step(action, **kwargs)
        observation.payload = observation.metadata["text"] = f"at {observation.total}"
        return observation


def test_at_the_same_step_what_does_not_stack_of_the_last_observation_is_kept_too(vector):
    envs = vector(3, TellingEnvironment, autoreset="same_step", num_sessions=2)
    envs.reset(seed=5)
    infos = envs.step(np.array([1, 10, 2]))[4]
    assert "final_info" not in envs.step(np.array([1, 1, 1]))[4]
    assert infos["final_info"]["payload"] == [None, "at 10", None]
    assert infos["final_info"]["metadata"] == [None, {"text": "at 10"}, None]
    assert infos["_final_info"].tolist() == [False, True, False]
    assert infos["payload"][1] is None, "of the episode that follows"


class LibraryVector(VectorEnvironment):
    """What a library might bring: all totals in one array."""

    def __init__(self, num_envs):
        self._totals = np.zeros(num_envs, np.int64)

    def action_fields(self):
        return {"amount": {"n": 100}}

    def reset(self, env_ids, requests):
        self._totals[list(env_ids)] = 0
        return self._batch(env_ids, np.nan)

    def autoreset(self, env_ids):
        return self.reset(env_ids, [])

    def step(self, env_ids, actions):
        if actions["amount"].max() == 99:
            raise ValueError("the library takes no 99")
        self._totals[list(env_ids)] += actions["amount"]
        return self._batch(env_ids, 1.0)

    def _batch(self, env_ids, reward):
        totals = self._totals[list(env_ids)]
        return VectorBatch(
            {"total": totals}, np.full(len(totals), reward), totals >= 10, np.zeros(len(totals), np.bool_)
        )


class LibraryEnvironment(InlineEnvironment):
    """Steps many at once."""

    def vectorized(self, num_envs):
        return LibraryVector(num_envs)


def test_a_librarys_own_vector_is_used_and_its_errors_are_raised(vector):
    envs = vector(3, LibraryEnvironment, autoreset="same_step")
    with pytest.raises(EnvironmentFault, match="the library takes no 99"):
        envs.step(np.array([1, 99, 1]))
    observations, _, terminated, _, infos = envs.step(np.array([11, 2, 12]))
    assert (observations.tolist(), terminated.tolist()) == ([0, 2, 0], [True, False, True])
    assert [infos["final_obs"][row] for row in range(3)] == [11, None, 12]


class WordyObservation(Observation):
    """Fields that are columns of lists."""

    legal: list[int] = Field(default_factory=list)
    text: str = ""
    mood: Literal["good", "bad"] = "good"
    rarely: str | None = None


class WordyEnvironment(Environment[CountAction, WordyObservation, State]):
    """Ends with its first step."""

    state = State()

    def reset(self, seed=None, episode_id=None, **kwargs):
        return WordyObservation(legal=[1], text="begun", rarely="at first")

    def step(self, action, timeout_s=None, **kwargs):
        return WordyObservation(
            legal=[1, 2, 3], text="over", mood="bad", done=True, rarely="again" * (action.amount == 1)
        )


def test_what_is_text_follows_from_the_declared_types_and_not_from_the_values(serving):
    url = serving(create_app(WordyEnvironment))
    with EnvClient(base_url=url).vector(2) as envs:
        shown = [envs.reset(seed=1), envs.step(np.array([1, 2]))[::4], envs.step(np.array([1, 1]))[::4]]
        assert set(envs.single_observation_space) == {"legal", "text", "mood"}
        for observations, infos in shown:
            assert observations.keys() == {"legal", "text", "mood"}
            assert "rarely" in infos
            assert envs.single_observation_space["text"].contains(observations["text"][0])
        assert shown[1][0]["mood"] == ("bad", "bad")
        assert shown[1][1]["rarely"] == ["again", ""]


def test_an_ended_episode_has_no_numbers_and_no_text_beside_one_that_steps(serving):
    with EnvClient(base_url=serving(create_app(WordyEnvironment))).vector(2, autoreset="disabled") as envs:
        envs.reset(seed=1)
        envs.send({"amount": [1]}, env_ids=[0])
        envs.recv()
        observations, _, terminated, _, infos = envs.step({"amount": [1, 1]})
        assert terminated.tolist() == [False, True]
        assert isinstance(infos["errors"][0], EpisodeOver)
        assert [row.tolist() for row in observations["legal"]] == [[], [1, 2, 3]]
        assert observations["text"] == ("", "over")


def test_with_autoreset_disabled_an_ended_episode_is_over_until_it_is_reset(vector):
    envs = vector(2, autoreset="disabled")
    envs.reset(seed=[5, 6])
    envs.step(np.array([10, 1]))
    _, rewards, _, _, infos = envs.step(np.array([1, 1]))
    assert isinstance(infos["errors"][0], EpisodeOver)
    assert infos["failed"].tolist() == [True, False]
    assert np.isnan(rewards[0])
    assert rewards[1] == 1.0
    observations, infos = envs.reset(seed=[9], options={"reset_mask": np.array([True, False])})
    assert (infos["env_ids"].tolist(), observations["total"].tolist()) == ([0], [0])
    assert envs.step(np.array([1, 1]))[0]["total"].tolist() == [1, 3]


def test_what_fails_in_one_environment_is_its_own(vector):
    envs = vector(3)
    envs.reset(seed=1)
    observations, rewards, terminated, _, infos = envs.step(add(1, 13, 3, mischief=["", "", "raise"]))
    assert infos["failed"].tolist() == [False, True, True]
    assert "thirteen is unlucky" in str(infos["errors"][1])
    assert isinstance(infos["errors"][2], EnvironmentFault)
    assert rewards[0] == 1.0
    assert np.isnan(rewards[1:]).all()
    assert not terminated.any()
    assert observations["total"].tolist() == [1, 0, 0]
    assert envs.step(np.array([1, 1, 1]))[0]["total"].tolist() == [2, 1, 1]


def test_options_of_a_reset_reach_the_environments(vector):
    envs = vector(2, options={"start": 3})
    assert envs.reset()[0]["total"].tolist() == [3, 3]
    assert envs.reset(options={"start": 4})[0]["total"].tolist() == [4, 4]


@pytest.mark.parametrize(
    ("actions", "words"),
    [
        (np.array([1, 2]), "actions.amount: give one value for each of 3 environments"),
        ({}, "actions: give an object"),
    ],
)
def test_a_wrong_column_is_named_and_the_session_lives(vector, actions, words):
    envs = vector(3)
    envs.reset(seed=1)
    with pytest.raises(InvalidMessage, match=words):
        envs.step(actions)
    assert envs.step(np.array([1, 1, 1]))[0]["total"].tolist() == [1, 1, 1]


def test_an_unknown_field_of_an_action_is_named(vector):
    envs = vector(2)
    envs.reset(seed=1)
    infos = envs.step({"amout": np.array([1, 1])})[4]
    assert "amout" in str(infos["errors"][0].details)


@pytest.mark.parametrize("query", ["num_envs=0", "num_envs=x", "num_envs=2&autoreset=never", "num_envs=99999999"])
def test_a_vector_that_cannot_be_is_refused_by_name(serving, query):
    client = CountEnv(serving(create_app(CountingEnvironment)))
    with pytest.raises(InvalidMessage, match=r"num_envs|autoreset"):
        BlockingSession(Endpoint(replace(client.address, query=query, reads_arrays=True))).connect()


def test_an_environment_that_cannot_exist_twice_is_an_error(serving):
    class Alone(CountingEnvironment):
        SUPPORTS_CONCURRENT_SESSIONS = False

    with pytest.raises(NotSupported, match="cannot hold Alone twice"):
        CountEnv(serving(create_app(Alone))).vector(2)


def test_settings_that_do_not_fit_are_named(serving):
    client = CountEnv(serving(create_app(CountingEnvironment)))
    with pytest.raises(ValueError, match="autoreset='later'"):
        client.vector(2, autoreset="later")
    with pytest.raises(ValueError, match="num_sessions=3"):
        client.vector(2, num_sessions=3)
    envs = client.vector(2)
    with pytest.raises(ValueError, match="seed: 3 seeds for 2 environments"):
        envs.reset(seed=[1, 2, 3])
    with pytest.raises(RuntimeError, match="nothing was sent"):
        envs.recv()
    envs.close()


def test_environments_are_received_in_the_order_in_which_they_are_ready(vector):
    envs = vector(4, num_sessions=2)
    envs.reset(seed=1)
    envs.send(add(1, 1, 1, 1, mischief=["sleep", "", "", ""]))
    first, second = envs.recv(), envs.recv()
    assert first[4]["env_ids"].tolist() == [2, 3]
    assert second[4]["env_ids"].tolist() == [0, 1]
    envs.send(np.array([5]), env_ids=[3])
    observations, *_, infos = envs.recv()
    assert (infos["env_ids"].tolist(), observations["total"].tolist()) == ([3], [6])


def test_many_sessions_answer_as_one(vector):
    one, many = vector(5, autoreset="same_step"), vector(5, autoreset="same_step", num_sessions=3)
    for envs in (one, many):
        envs.reset(seed=3)
    for _ in range(4):
        a, b = one.step(np.array([1, 4, 2, 6, 3])), many.step(np.array([1, 4, 2, 6, 3]))
        for name in ("total", "draw"):
            np.testing.assert_array_equal(a[0][name], b[0][name])
        for left, right in zip(a[1:4], b[1:4], strict=True):
            np.testing.assert_array_equal(left, right)
        assert ("final_obs" in a[4]) is ("final_obs" in b[4])
        for row in np.flatnonzero(a[2]):
            assert a[4]["final_obs"][row] == b[4]["final_obs"][row]


def test_a_cut_connection_loses_no_step_and_takes_none_twice(serving):
    proxy = CuttingProxy(serving(create_app(CountingEnvironment)))
    envs = CountEnv(proxy.url).vector(3, autoreset="disabled")
    envs.reset(seed=1)
    envs.step(np.array([1, 1, 1]))
    envs.send(add(1, 2, 3, mischief=["sleep", "", ""]))
    proxy.cut()
    assert envs.recv()[0]["total"].tolist() == [2, 3, 4]
    proxy.cut()
    assert envs.step(np.array([1, 1, 1]))[0]["total"].tolist() == [3, 4, 5]
    envs.close()
    proxy.close()


def test_a_step_without_end_is_an_error_and_the_session_can_be_reset(vector):
    envs = vector(2, environment=ProcessEnvironment, config=ServerConfig(step_timeout_s=2))
    envs.reset(seed=1)
    with pytest.raises(TimeLimitExceeded):
        envs.step(add(1, 1, mischief=["", "forever"]))
    assert envs.reset(seed=1)[0]["total"].tolist() == [0, 0]


def test_a_step_without_end_in_the_event_loop_is_ended_too():
    with LocalServer("tests.core.counting_env", ["--serve", "InlineEnvironment", "--step-timeout-s", "0.5"]) as server:
        envs = CountEnv(server.base_url).vector(3)
        envs.reset(seed=1)
        with pytest.raises(TimeLimitExceeded):
            envs.step(add(1, 1, 1, mischief=["forever", "", ""]))
        with pytest.raises(TimeLimitExceeded, match="episode is gone"):
            envs.step(np.array([1, 1, 1]))
        assert envs.reset(seed=1)[0]["total"].tolist() == [0, 0, 0]
        envs.close()


def test_a_crash_ends_the_vector_alone(vector):
    envs = vector(2, environment=ProcessEnvironment)
    envs.reset(seed=1)
    with pytest.raises(WorkerCrashed):
        envs.step(add(1, 1, mischief=["", "segfault"]))
    assert envs.reset(seed=1)[0]["total"].tolist() == [0, 0]


def test_a_late_answer_can_be_received_later(serving):
    envs = CountEnv(serving(create_app(CountingEnvironment))).vector(1)
    envs.reset(seed=1)
    envs.send(add(1, mischief=["sleep"]))
    timeout_s, envs.response_timeout_s = envs.response_timeout_s, 0.2
    with pytest.raises(AnswerTimeout):
        envs.recv()
    with pytest.raises(RuntimeError, match="not been received"):
        envs.send(np.array([1]))
    envs.response_timeout_s = timeout_s
    assert envs.recv()[0]["total"].tolist() == [1]
    envs.close()


def test_a_closed_vector_leaves_no_session(serving):
    app = create_app(CountingEnvironment)
    envs = CountEnv(serving(app)).vector(3, num_sessions=2)
    assert len(app.state.sessions) == 2
    envs.close()
    assert len(app.state.sessions) == 0


class Mixed(Observation):
    """One field of every kind."""

    legal: list[int]
    angles: list[float]
    word: str
    flag: bool
    maybe: float | None = None
    facts: dict[str, int] = Field(default_factory=dict)


class MixedEnvironment(Environment[CountAction, Mixed, State]):
    """Its lists have as many numbers as the reset asks for."""

    def reset(self, seed=None, episode_id=None, **kwargs):
        return Mixed(legal=[], angles=[0.0, 0.5], word="begin", flag=False)

    def step(self, action, timeout_s=None, **kwargs):
        legal = list(range(action.amount))
        return Mixed(legal=legal, angles=[1.0, 1.5], word="go", flag=True, maybe=2.0, facts={"a": 1})

    @property
    def state(self):
        return State()


class MixedEnv(EnvClient[CountAction, Mixed, State]):
    """Typed client: nothing to write."""


def test_what_stacks_follows_from_the_declared_types(serving):
    envs = MixedEnv(serving(create_app(MixedEnvironment))).vector(3)
    first, _ = envs.reset()
    assert [len(row) for row in first["legal"]] == [0, 0, 0]
    assert np.isnan(first["maybe"]).all()
    then, *_, infos = envs.step(np.array([0, 2, 3]))
    assert [row.tolist() for row in then["legal"]] == [[], [0, 1], [0, 1, 2]]
    assert then["angles"].shape == (3, 2)
    assert then["word"] == ("go", "go", "go")
    assert then["flag"].all()
    assert infos["facts"] == [{"a": 1}] * 3
    envs.close()


def test_a_server_of_the_published_dialect_is_named_as_one(serving):
    class Plain:
        """ASGI middleware that hides what clients offer."""

        def __init__(self, app):
            self.app = app

        async def __call__(self, scope, receive, send):
            await self.app({**scope, "subprotocols": []} if scope["type"] == "websocket" else scope, receive, send)

    app = create_app(CountingEnvironment)
    app.add_middleware(Plain)
    with pytest.raises((NotSupported, SessionLost), match="holds one environment in a session"):
        CountEnv(serving(app)).vector(2)


class Fickle(Observation):
    """A position."""

    x: int


class FickleEnvironment(Environment[CountAction, Fickle, State]):
    """Has more metadata at a step than at a reset, and refuses every second reset; an episode is over at 3."""

    execution = "inline"
    steps = 0

    def reset(self, seed=None, episode_id=None, **kwargs):
        self._x = 0
        self._resets = getattr(self, "_resets", 0) + 1
        if self._resets % 2 == 0 and kwargs.get("fickle"):
            raise ValueError("not again")
        return Fickle(x=0)

    def step(self, action, timeout_s=None, **kwargs):
        FickleEnvironment.steps += 1
        self._x += action.amount
        return Fickle(
            x=self._x, reward=1.0, done=self._x >= 3, metadata={"counted": {1, 2} if action.amount == 2 else 1}
        )

    @property
    def state(self):
        return State()


class FickleEnv(EnvClient[CountAction, Fickle, State]):
    """Typed client: nothing to write."""


@pytest.mark.parametrize("autoreset", ["next_step", "same_step"])
def test_metadata_of_some_environments_is_merged_and_nothing_is_stepped_twice(serving, autoreset):
    envs = FickleEnv(serving(create_app(FickleEnvironment))).vector(2, autoreset=autoreset)
    envs.reset(seed=1)
    before = FickleEnvironment.steps
    envs.step(np.array([3, 1]))
    observations, *_, infos = envs.step(np.array([1, 1]))
    assert observations.tolist() == ([0, 2] if autoreset == "next_step" else [1, 2])
    assert infos["metadata"][1] == {"counted": 1}
    assert FickleEnvironment.steps - before == (3 if autoreset == "next_step" else 4)
    if autoreset == "next_step":
        assert sorted(envs.step(np.array([2, 1]))[4]["metadata"][0]["counted"]) == [1, 2]
    envs.close()


@pytest.mark.parametrize("autoreset", ["next_step", "same_step"])
def test_an_episode_that_cannot_begin_is_an_error_and_not_played(serving, autoreset):
    envs = FickleEnv(serving(create_app(FickleEnvironment))).vector(2, autoreset=autoreset, options={"fickle": True})
    assert envs.reset(seed=1)[1]["failed"].all()  # the second of each: the first was the vector's own
    assert "failed" not in envs.reset(seed=1)[1]
    _, rewards, _, _, infos = envs.step(np.array([3, 1]))
    if autoreset == "next_step":
        _, rewards, _, _, infos = envs.step(np.array([1, 1]))
        assert np.isnan(rewards[0])
    else:
        assert rewards[0] == 1.0
    assert infos["failed"].tolist() == [True, False]
    assert "not again" in str(infos["errors"][0])
    assert envs.step(np.array([1, 1]))[0][0] == 0  # it begins now, and is not played before
    envs.close()


def test_a_number_that_no_array_holds_is_an_error_of_its_environment_alone(serving):
    envs = FickleEnv(serving(create_app(FickleEnvironment))).vector(2, autoreset="disabled")
    for _ in range(3):
        observations, rewards, _, _, infos = envs.step(np.array([-(2**62), 0]))
    assert "x: -13835058055282163712 is not an array of numbers" in str(infos["errors"][0])
    assert (observations[1], rewards[1]) == (0, 1.0)
    assert infos["failed"].tolist() == [True, False]
    envs.close()


def test_environments_in_another_order_get_their_own_actions(vector):
    envs = vector(3, autoreset="disabled")
    envs.reset(seed=1)
    envs.send(np.array([1, 2, 3]), env_ids=[2, 0, 1])
    observations, *_, infos = envs.recv()
    assert (infos["env_ids"].tolist(), observations["total"].tolist()) == ([2, 0, 1], [1, 2, 3])
    assert envs.step(np.array([0, 0, 0]))[0]["total"].tolist() == [2, 3, 1]
    envs.send(np.array([9, 9]), env_ids=[0, 0])
    with pytest.raises(InvalidMessage, match="named twice"):
        envs.recv()


class Interrupting(CountingEnvironment):
    """The user presses Ctrl-C during a step."""

    def step(self, action, timeout_s=None, **kwargs):
        if action.mischief == "Ctrl-C":
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        return super().step(action, timeout_s, **kwargs)


def test_a_step_that_ctrl_c_has_interrupted_is_given_up(vector):
    envs = vector(3, Interrupting, num_sessions=3)
    envs.reset(seed=1)
    with pytest.raises(KeyboardInterrupt):
        envs.step(add(1, 1, 1, mischief=["", "Ctrl-C", ""]))
    observations, _ = envs.reset(seed=1)
    assert observations["total"].tolist() == [0, 0, 0]
    assert envs.step(np.array([2, 3, 4]))[0]["total"].tolist() == [2, 3, 4]


def test_what_was_sent_is_received_before_anything_else(vector):
    envs = vector(4, num_sessions=2)
    envs.reset(seed=1)
    envs.send(np.array([1]), env_ids=[0])
    for verb in (lambda: envs.step(np.ones(4, dtype=int)), envs.reset):
        with pytest.raises(RuntimeError, match=r"call recv\(\) first"):
            verb()
    assert envs.recv()[0]["total"].tolist() == [1]
    assert envs.step(np.ones(4, dtype=int))[0]["total"].tolist() == [2, 1, 1, 1]


@pytest.mark.parametrize("env_ids", [[], [-1], [4]])
def test_environments_that_are_not_there_are_named(vector, env_ids):
    envs = vector(4, num_sessions=2)
    with pytest.raises(ValueError, match="env_ids: give numbers from 0 to 3"):
        envs.send(np.ones(len(env_ids), dtype=int), env_ids=env_ids)
    with pytest.raises(ValueError, match="reset_mask"):
        envs.reset(options={"reset_mask": np.zeros(4, dtype=bool)})


def test_an_episode_that_is_over_stays_over_until_it_is_reset(vector):
    envs = vector(2, autoreset="disabled")
    envs.reset(seed=1)
    envs.step(np.array([10, 1]))
    for _ in range(3):
        assert isinstance(envs.step(np.array([1, 1]))[4]["errors"][0], EpisodeOver)


def test_a_failure_of_one_session_leaves_the_others_ready(vector):
    envs = vector(4, environment=ProcessEnvironment, num_sessions=2)
    envs.reset(seed=1)
    with pytest.raises(WorkerCrashed):
        envs.step(add(1, 1, 1, 1, mischief=["exit", "", "", ""]))
    assert envs.reset(seed=1)[0]["total"].tolist() == [0, 0, 0, 0]


def test_seeds_belong_to_environments(vector):
    envs = vector(3)
    mask = {"reset_mask": np.array([False, True, True])}
    assert envs.reset(seed=40, options=mask)[1]["seeds"].tolist() == [41, 42]
    assert envs.reset(seed=[7, 8, 9], options=mask)[1]["seeds"].tolist() == [8, 9]


def test_columns_that_are_no_columns_are_refused_and_the_session_lives(vector):
    envs = vector(2)
    envs.reset(seed=1)
    with pytest.raises(InvalidMessage, match=r"actions\.amount: give one value for each of 2 environments"):
        envs.step({"amount": np.array(1)})
    with pytest.raises(OpenEnvError):
        envs.step({"amount": np.zeros((70_000, 0))})
    assert envs.step({"amount": np.array([[1], [2]])})[4]["failed"].all()
    assert envs.step(np.array([1, 1]))[0]["total"].tolist() == [1, 1]


def test_a_column_without_rows_is_refused_and_the_session_lives(serving):
    url = serving(create_app(CountingEnvironment)).replace("http", "ws") + "/ws?num_envs=2"
    head = b'{"type":"step","id":"%d","data":{"actions":{"amount":{"$array":[0,"<i8",[%b]]}}}}'
    with connect(url, subprotocols=[ARRAYS_SUBPROTOCOL]) as socket:
        socket.recv()
        socket.send('{"type":"reset","id":"0","data":{"resets":[{},{}]}}')
        socket.recv()
        socket.send(pack(head % (1, b""), [bytes(8)]))
        assert "actions.amount: give one value" in socket.recv()
        socket.send(pack(head % (2, b"2"), [bytes(16)]))
        assert b'"id":"2"' in socket.recv(decode=False)


@pytest.mark.parametrize("stacked", ["", "&stacked=false"])
def test_each_environment_has_a_state_of_its_own(serving, stacked):
    address = CountEnv(serving(create_app(CountingEnvironment))).address
    session = BlockingSession(Endpoint(replace(address, query=f"num_envs=2{stacked}", reads_arrays=True)))
    session.request(Request("reset", {"resets": [{"start": 4}, {"start": 7}]}), dict)
    states = session.request(Request("state"), lambda data: data["states"])
    assert [state["total"] for state in states] == [4, 7]
    session.disconnect()


class Patient(InlineAsyncEnvironment):
    """A step waits until another session has spoken."""

    another_stepped = threading.Event()

    async def step_async(self, action, timeout_s=None, **kwargs):
        if not await asyncio.to_thread(self.another_stepped.wait, 20):
            raise TimeoutError("no other environment was stepped")
        return await super().step_async(action, timeout_s, **kwargs)


def test_environments_that_wait_do_not_hold_up_other_sessions(serving):
    url = serving(create_app(Patient))
    with CountEnv(url).vector(2) as envs, CountEnv(url) as other:
        envs.send(np.array([1, 3]))
        other.reset(seed=1)
        Patient.another_stepped.set()
        assert envs.recv()[0]["total"].tolist() == [1, 3]
