"""A factory is called when a session opens; what only its environment declares is known from then on."""

import functools
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from openenv.core.env_server import ServerConfig, create_app
from openenv.core.env_server.http_server import HTTPEnvServer
from openenv.core.errors import CapacityReached, EpisodeOver, FactoryFault
from tests.core.counting_env import (
    AsyncEnvironment,
    CountAction,
    CountEnv,
    CountingEnvironment,
    CountObservation,
    InlineEnvironment,
    ProcessEnvironment,
)
from tests.core.env_server.probes import num_sessions, wait_until

pytestmark = pytest.mark.finding("no factory is called before a session opens")

MESSAGES = (CountAction, CountObservation)


class Goes(CountingEnvironment):
    ALLOWS_STEP_AFTER_DONE = True


class Alone(CountingEnvironment):
    SUPPORTS_CONCURRENT_SESSIONS = False


class OneThread(CountingEnvironment):
    REQUIRES_SINGLE_THREAD_EXECUTOR = True


def counted(environment_cls):
    """A factory without a return annotation, and the list of what it has made."""
    made = []

    def make():
        made.append(environment_cls())
        return made[-1]

    return make, made


def mischief(env: CountEnv, name: str) -> object:
    return env.step(CountAction(amount=1, mischief=name)).observation.payload


def test_a_factory_is_called_once_for_each_session_and_not_before(serving):
    make, made = counted(CountingEnvironment)
    url = serving(create_app(make, *MESSAGES))
    assert made == []

    for number in (1, 2):
        with CountEnv(url) as env:
            env.reset()
            assert env.step(CountAction(amount=2)).observation.total == 2
            assert len(made) == number


def test_a_question_about_the_environment_leaves_none_beside_the_first_session(serving):
    closed = []

    class AloneUntilClosed(Alone):
        def close(self) -> None:
            closed.append(self)

    make, made = counted(AloneUntilClosed)
    url = serving(create_app(make, *MESSAGES))
    assert httpx.get(f"{url}/metadata").json()["name"] == "AloneUntilClosed"
    assert closed == made

    with CountEnv(url) as env:
        env.reset()
        assert httpx.get(f"{url}/metadata").status_code == 200
        assert len(made) == 2


def test_a_server_in_an_application_of_ones_own_calls_no_factory_either():
    make, made = counted(CountingEnvironment)
    server = HTTPEnvServer(make, *MESSAGES, max_concurrent_envs=4)

    assert (server.max_concurrent_envs, made) == (4, [])


@pytest.mark.parametrize("environment_cls", [CountingEnvironment, InlineEnvironment, OneThread, AsyncEnvironment])
def test_its_environment_runs_where_its_class_declares(serving, environment_cls):
    make, _ = counted(environment_cls)
    url = serving(create_app(make, *MESSAGES))
    with CountEnv(url) as first, CountEnv(url) as second:
        threads = []
        for env in (first, second):
            env.reset()
            threads.append(mischief(env, "thread"))

    shares_one = environment_cls is not CountingEnvironment
    assert (threads[0] == threads[1]) is shares_one


def test_its_environment_runs_in_a_process_where_its_class_declares_that(serving):
    url = serving(create_app(functools.partial(_make, ProcessEnvironment), *MESSAGES))
    with CountEnv(url) as first, CountEnv(url) as second:
        pids = set()
        for env in (first, second):
            env.reset()
            pids.add(mischief(env, "pid"))

    assert len(pids) == 2


@pytest.mark.parametrize("execution", ["thread", "process"])
def test_its_environment_may_be_stepped_after_done_where_its_class_declares_that(serving, execution):
    url = serving(create_app(functools.partial(_make, Goes), *MESSAGES, config=ServerConfig(execution=execution)))
    with CountEnv(url) as env:
        env.reset()
        assert env.step(CountAction(amount=10)).done
        assert env.step(CountAction(amount=1)).observation.total == 11


def test_its_environment_may_not_be_stepped_after_done_otherwise(serving):
    with CountEnv(serving(create_app(counted(CountingEnvironment)[0], *MESSAGES))) as env:
        env.reset()
        env.step(CountAction(amount=10))
        with pytest.raises(EpisodeOver):
            env.step(CountAction(amount=1))


def test_a_server_holds_one_session_where_the_class_allows_one(serving):
    make, made = counted(Alone)
    url = serving(create_app(make, *MESSAGES))
    with CountEnv(url) as env:
        env.reset()
        with pytest.raises(CapacityReached, match="1/1"):
            CountEnv(url).reset()
    with CountEnv(url) as env:
        env.reset()

    assert len(made) == 2


def test_callers_that_come_while_the_first_environment_is_made_get_theirs_or_are_refused(serving):
    may_be_made = threading.Event()
    for environment_cls, expected in ((CountingEnvironment, 4), (Alone, 1)):
        make, made = counted(environment_cls)

        def slow(make=make):
            may_be_made.wait(30)
            return make()

        url = serving(create_app(slow, *MESSAGES))
        may_be_made.clear()
        clients = [CountEnv(url) for _ in range(4)]
        with ThreadPoolExecutor(4) as pool:
            opened = [pool.submit(client.reset) for client in clients]
            may_be_made.set()
            refused = [future for future in opened if isinstance(future.exception(30), CapacityReached)]

        assert len(opened) - len(refused) == len(made) == expected
        for client in clients:
            client.close()


def test_callers_that_come_while_the_first_environment_is_made_wait_in_the_queue(serving):
    may_be_made = threading.Event()
    make, made = counted(Alone)

    def slow():
        may_be_made.wait(30)
        return make()

    url = serving(create_app(slow, *MESSAGES, config=ServerConfig(max_queue=2)))
    clients = [CountEnv(url) for _ in range(4)]

    def play(client):
        client.reset()
        wait_until(lambda: is_one_refused.is_set())
        client.close()

    is_one_refused = threading.Event()
    with ThreadPoolExecutor(4) as pool:
        played = [pool.submit(play, client) for client in clients]
        may_be_made.set()
        wait_until(lambda: any(future.done() for future in played))
        is_one_refused.set()
        refused = [future for future in played if isinstance(future.exception(30), CapacityReached)]

    assert (len(refused), len(made)) == (1, 3)
    with CountEnv(url) as env:
        env.reset()
    wait_until(lambda: num_sessions(url) == 0)


def test_the_next_session_makes_the_environment_that_the_first_could_not(serving):
    failures = [OSError("no device")]
    make, made = counted(CountingEnvironment)

    def fails_once():
        if failures:
            raise failures.pop()
        return make()

    url = serving(create_app(fails_once, *MESSAGES))
    with pytest.raises(FactoryFault, match="no device"):
        CountEnv(url).reset()
    with CountEnv(url) as env:
        env.reset()

    assert len(made) == 1


def test_a_factory_that_returns_no_environment_is_an_error_with_the_rule(serving):
    with pytest.raises(FactoryFault, match="returned int: it must return an Environment"):
        CountEnv(serving(create_app(lambda: 3, *MESSAGES))).reset()


@pytest.mark.parametrize("known", [{}, {"action_cls": CountAction}, {"observation_cls": CountObservation}])
def test_messages_that_cannot_be_known_are_refused_with_both_remedies(known):
    with pytest.raises(TypeError, match=r"Pass action_cls and observation_cls, or write `def make\(\) -> "):
        create_app(lambda: CountingEnvironment(), **known)


def _make(environment_cls):
    return environment_cls()


def test_the_class_of_a_partial_and_of_a_callable_object_is_known():
    class Makes:
        def __call__(self) -> CountingEnvironment:
            raise AssertionError("called too early")

    for factory in (functools.partial(CountingEnvironment), Makes()):
        assert HTTPEnvServer(factory).max_concurrent_envs > 1
