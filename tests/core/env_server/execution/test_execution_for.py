"""An inline environment declares for each call whether it takes long and runs in a thread."""

import threading
from typing import ClassVar

import pytest

from openenv.core.env_server import ServerConfig, create_app
from openenv.core.errors import EnvironmentFault
from openenv.core.session_pool import SessionPool
from tests.core.counting_env import CountAction, CountEnv, InlineEnvironment


class QuickButForSomeResets(InlineEnvironment):
    """A reset that starts above 5 takes long."""

    ran_in: ClassVar[list[threading.Thread]] = []

    def execution_for(self, verb, keywords):
        return "thread" if verb == "reset" and keywords.get("start", 0) > 5 else self.execution

    def reset(self, seed=None, episode_id=None, start=0):
        self.ran_in.append(threading.current_thread())
        return super().reset(seed=seed, episode_id=episode_id, start=start)

    def step(self, action, **kwargs):
        self.ran_in.append(threading.current_thread())
        return super().step(action, **kwargs)

    def close(self):
        self.ran_in.append(threading.current_thread())


@pytest.fixture
def ran_in():
    QuickButForSomeResets.ran_in.clear()
    return QuickButForSomeResets.ran_in


def test_only_the_calls_that_take_long_leave_the_event_loop(serving, ran_in):
    with CountEnv(serving(create_app(QuickButForSomeResets))) as env:
        env.reset()
        env.step(CountAction(amount=1))
        env.reset(start=6)
        env.step(CountAction(amount=1))
    loop = ran_in[0]
    assert [thread is loop for thread in ran_in] == [True, True, False, True, True], "closed where it was made"


def test_the_servers_configuration_overrides_the_environment(serving, ran_in):
    app = create_app(QuickButForSomeResets, config=ServerConfig(execution="inline"))
    with CountEnv(serving(app)) as env:
        env.reset()
        env.reset(start=6)
    assert len(set(ran_in)) == 1


class SlowToLoad(QuickButForSomeResets):
    """To continue from a snapshot takes long."""

    def execution_for(self, verb, keywords):
        assert verb in ("reset", "load"), "steps run where `execution` declares"
        return "thread" if verb == "load" else self.execution

    def save_state(self):
        return b"anything"

    def load_state(self, snapshot):
        self.ran_in.append(threading.current_thread())


def test_a_restore_leaves_the_event_loop_where_it_takes_long(serving, ran_in):
    with CountEnv(serving(create_app(SlowToLoad))) as env:
        env.reset()
        env.restore(env.save())
        env.step(CountAction(amount=1))
    assert [thread is ran_in[0] for thread in ran_in] == [True, False, True, True]


async def test_environments_that_share_a_session_leave_it_together_until_all_are_quick_again(serving, ran_in):
    async with SessionPool(CountEnv, serving(create_app(QuickButForSomeResets)), 2) as pool:
        await pool.reset({0: {}, 1: {}})
        await pool.reset({1: {"start": 6}})
        await pool.step({0: CountAction(amount=1)})
        refused = await pool.reset({1: {"speed": 7}})
        await pool.step({0: CountAction(amount=1)})
        await pool.reset({0: {}, 1: {}})
        await pool.step({0: CountAction(amount=1)})
    assert "speed" in str(refused[1])
    loop, steps_and_resets = ran_in[1], ran_in[1:-2]
    assert [thread is loop for thread in steps_and_resets] == [True, True, False, False, False, True, True, True]


@pytest.mark.parametrize("num_envs", [1, 2])
async def test_what_it_raises_is_the_answer_and_the_session_goes_on(serving, num_envs, ran_in):
    async with SessionPool(CountEnv, serving(create_app(QuickButForSomeResets)), num_envs) as pool:
        await pool.reset({0: {"start": 2}})
        results = await pool.reset({0: {"start": "six"}})
        assert isinstance(results[0], EnvironmentFault)
        assert "not supported between instances" in str(results[0])
        assert (await pool.step({0: CountAction(amount=1)}))[0].observation.total == 3
