"""A session over WebSocket: typed, isolated, and alive after every error."""

import random
import shutil
import threading
import time

import httpx
import pytest

from openenv.core.env_server import ServerConfig, create_app
from openenv.core.env_server.runner.environment_calls import without_paths
from openenv.core.errors import (
    AnswerTimeout,
    CapacityReached,
    EnvironmentFault,
    EpisodeOver,
    FactoryFault,
    InvalidMessage,
    ServerUnreachable,
    SessionGone,
)
from openenv.core.generic_client import GenericEnvClient
from tests.core.counting_env import CountAction, CountEnv, CountingEnvironment
from tests.core.env_server.probes import wait_for_running_verbs, wait_until


@pytest.fixture(scope="module")
def url(module_serving):
    return module_serving(create_app(CountingEnvironment))


def test_an_episode_is_played_with_typed_messages(url):
    with CountEnv(url) as env:
        first = env.reset(seed=1, episode_id="e1")
        result = env.step(CountAction(amount=4, metadata={"why": "because"}))

        assert (first.observation.total, first.reward, first.done) == (0, None, False)
        assert (result.observation.total, result.reward, result.done) == (4, 4.0, False)
        assert result.metadata == {"why": "because"}
        assert (env.state().episode_id, env.state().step_count, env.state().total) == ("e1", 1, 4)


def test_each_session_has_an_environment_of_its_own(url):
    with CountEnv(url) as one, CountEnv(url) as other:
        one.reset()
        other.reset()
        one.step(CountAction(amount=4))

        assert other.step(CountAction(amount=1)).observation.total == 1


def test_equal_seeds_give_equal_episodes(url):
    def draws(seed):
        with CountEnv(url) as env:
            return [env.reset(seed=seed).observation.draw, env.step(CountAction(amount=1)).observation.draw]

    assert draws(5) == draws(5) != draws(6)


def test_reset_passes_further_keywords(url):
    with CountEnv(url) as env:
        assert env.reset(start=7).observation.total == 7


@pytest.mark.parametrize("execution", ["inline", "thread"])
@pytest.mark.parametrize("keyword", ["verb", "method", "call", "name"])
def test_a_keyword_of_reset_may_have_any_name(serving, execution, keyword):
    class TakesAll(CountingEnvironment):
        def reset(self, seed=None, episode_id=None, **kwargs):
            return super().reset(seed, episode_id, start=kwargs[keyword])

    url = serving(create_app(TakesAll, config=ServerConfig(execution=execution)))
    with GenericEnvClient(url) as env:
        assert env.reset(**{keyword: 7}).observation["total"] == 7


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"amount": "many"}, "amount: Input should be a valid integer"),
        ({}, "amount: Field required"),
        ({"amount": 1, "ammount": 2}, "ammount: Extra inputs are not permitted (got 2)"),
        ({"amount": 13}, "amount: Value error, thirteen is unlucky (got 13)"),
    ],
)
def test_a_wrong_field_is_named_and_the_session_lives(url, fields, words):
    with GenericEnvClient(url) as env:
        env.reset(start=2)
        with pytest.raises(InvalidMessage) as caught:
            env.step(fields)

        assert words in str(caught.value)
        assert env.step({"amount": 1}).observation["total"] == 3


@pytest.mark.parametrize(
    ("keywords", "words"),
    [
        ({"strat": 1}, "strat: reset() takes episode_id, seed, start"),
        ({"seed": "x"}, "seed: Input should be a valid integer"),
        ({"seed": True}, "seed: Input should be a valid integer"),
        ({"seed": "5"}, "seed: Input should be a valid integer"),
        ({"seed": -1}, "seed: Input should be greater than or equal to 0"),
    ],
)
def test_a_wrong_keyword_of_reset_is_named(url, keywords, words):
    with CountEnv(url) as env:
        with pytest.raises(InvalidMessage) as caught:
            env.reset(**keywords)

        assert words in str(caught.value)
        assert env.reset().observation.total == 0


def test_what_the_environment_raises_reaches_the_client_and_the_session_lives(url):
    with CountEnv(url) as env:
        env.reset()
        with pytest.raises(EnvironmentFault, match="amount=3 is not to my taste"):
            env.step(CountAction(amount=3, mischief="raise"))

        assert env.step(CountAction(amount=1)).observation.total == 1


@pytest.mark.parametrize(
    ("mischief", "words"), [("unserialisable", "cannot be sent as JSON"), ("wrong type", "must return an Observation")]
)
def test_a_broken_answer_is_an_error_and_the_session_lives(url, mischief, words):
    with CountEnv(url) as env:
        env.reset()
        with pytest.raises(EnvironmentFault, match=words):
            env.step(CountAction(amount=1, mischief=mischief))
        assert env.state().episode_id is None


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("boom /etc/secret path", "boom <path> path"),
        ("cannot open '/srv/data/board.bin'", "cannot open '<path>'"),
        ("1/2 of and/or at http://host/a/b", "1/2 of and/or at http://host/a/b"),
    ],
)
def test_paths_of_the_server_stay_on_the_server(text, sent):
    assert without_paths(text) == sent


def test_numpy_travels_as_lists_and_numbers(url):
    with CountEnv(url) as env:
        env.reset()
        payload = env.step(CountAction(amount=1, mischief="numpy")).observation.payload

        assert payload == {"array": [[0.0, 1.0], [2.0, 3.0]], "scalar": 3}


def test_a_step_after_the_end_is_refused_until_reset(url):
    with CountEnv(url) as env:
        env.reset()
        assert env.step(CountAction(amount=10)).done
        with pytest.raises(EpisodeOver, match="reset before the next step"):
            env.step(CountAction(amount=1))

        env.reset()
        assert env.step(CountAction(amount=1)).observation.total == 1


def test_an_environment_may_allow_steps_after_the_end(serving):
    class Endless(CountingEnvironment):
        ALLOWS_STEP_AFTER_DONE = True

    with CountEnv(serving(create_app(Endless))) as env:
        env.reset()
        env.step(CountAction(amount=10))
        assert env.step(CountAction(amount=1)).observation.total == 11


def test_a_session_runs_in_one_thread_of_its_own(url):
    with CountEnv(url) as env:
        env.reset()
        names = {env.step(CountAction(amount=0, mischief="thread")).observation.payload for _ in range(5)}

        assert len(names) == 1
        assert names != {threading.current_thread().name}


def test_an_inline_environment_runs_in_the_event_loop(serving):
    class Inline(CountingEnvironment):
        execution = "inline"

    with CountEnv(serving(create_app(Inline))) as one, CountEnv(one.base_url) as other:
        threads = set()
        for env in (one, other):
            env.reset()
            threads.add(env.step(CountAction(amount=0, mischief="thread")).observation.payload)

        assert len(threads) == 1


def test_a_sleeping_session_does_not_hold_up_another(url):
    with CountEnv(url) as sleeper, CountEnv(url) as other:
        sleeper.reset()
        other.reset()
        asleep = threading.Thread(target=lambda: sleeper.step(CountAction(amount=1, mischief="sleep")))
        asleep.start()
        for _ in range(5):
            other.step(CountAction(amount=1))

        assert asleep.is_alive()
        asleep.join()


def test_a_full_server_refuses_with_its_capacity(serving):
    url = serving(create_app(CountingEnvironment, config=ServerConfig(max_sessions=1)))
    with CountEnv(url) as env:
        env.reset()
        with pytest.raises(CapacityReached, match="1/1 sessions active") as caught, CountEnv(url) as second:
            second.reset()

        assert caught.value.details == {"active_sessions": 1, "max_sessions": 1}
        assert env.step(CountAction(amount=1)).observation.total == 1


def test_a_closed_session_makes_room(serving):
    app = create_app(CountingEnvironment, config=ServerConfig(max_sessions=1))
    url = serving(app)
    for _ in range(3):
        with CountEnv(url) as env:
            env.reset()
        wait_until(lambda: len(app.state.sessions) == 0)


def test_an_environment_that_cannot_be_made_is_an_error_with_its_reason(serving):
    class Broken(CountingEnvironment):
        def __init__(self):
            raise OSError("no board")

    with (
        pytest.raises(FactoryFault, match="Broken could not be made: no board"),
        CountEnv(serving(create_app(Broken))) as env,
    ):
        env.reset()


def test_environments_are_closed_with_their_sessions(serving):
    closed = []

    class Closing(CountingEnvironment):
        def close(self):
            closed.append(threading.current_thread().name)

    with CountEnv(serving(create_app(Closing))) as env:
        env.reset()
        own_thread = env.step(CountAction(amount=0, mischief="thread")).observation.payload
    wait_until(lambda: closed)
    assert closed == [own_thread]


def test_an_idle_session_ends(serving):
    app = create_app(CountingEnvironment, config=ServerConfig(idle_timeout_s=0.2))
    with CountEnv(serving(app)) as env:
        env.reset()
        wait_until(lambda: len(app.state.sessions) == 0)
        with pytest.raises(SessionGone, match="reset"):
            env.step(CountAction(amount=1))

        assert env.reset(start=2).observation.total == 2


def test_a_late_answer_is_dropped_and_the_episode_lives(url):
    with CountEnv(url, message_timeout_s=0.2) as env:
        env.reset()
        with pytest.raises(AnswerTimeout):
            env.step(CountAction(amount=4, mischief="sleep"))
        wait_for_running_verbs(url, env.session_id)

        assert env.step(CountAction(amount=1)).observation.total == 5


class Sluggish(CountingEnvironment):
    """Takes its time to be made."""

    def __init__(self):
        time.sleep(0.6)
        super().__init__()


@pytest.mark.parametrize("is_async", [False, True])
async def test_an_environment_may_take_longer_to_be_made_than_a_connection(serving, is_async):
    env = CountEnv(serving(create_app(Sluggish)), connect_timeout_s=0.3)
    if is_async:
        async with env:
            assert (await env.reset()).observation.total == 0
    else:
        assert env.reset().observation.total == 0
        env.close()


async def test_an_environment_that_takes_longer_to_be_made_than_the_message_timeout_is_an_error_with_the_limit(serving):
    url = serving(create_app(Sluggish))
    words = r"no session in 0\.2 s: raise message_timeout_s"
    with pytest.raises(AnswerTimeout, match=words):
        CountEnv(url, message_timeout_s=0.2).reset()
    with pytest.raises(AnswerTimeout, match=words):
        await CountEnv(url, message_timeout_s=0.2)


@pytest.mark.parametrize("is_async", [False, True])
async def test_integers_beyond_64_bits_travel_exactly_both_ways(url, is_async):
    large = {"list": [2**64, -(2**63) - 1], "number": 2**70 + 1, "fraction": 0.1}
    if is_async:
        async with CountEnv(url) as env:
            await env.reset(seed=2**64)
            result = await env.step(CountAction(amount=1, metadata=large))
    else:
        with CountEnv(url) as env:
            assert env.reset(seed=2**70).observation.draw == random.Random(2**70).random()
            assert env.reset(seed=2**70 + 1).observation.draw == random.Random(2**70 + 1).random()
            result = env.step(CountAction(amount=1, metadata=large))

    assert result.metadata == large


def test_what_json_has_no_word_for_is_a_type_error_beside_large_integers_too(url):
    with GenericEnvClient(url) as env:
        env.reset()
        with pytest.raises(TypeError):
            env.step({"amount": 2**70, "metadata": {"what": object()}})


def test_an_address_without_a_server_is_an_error_with_a_remedy():
    with pytest.raises(ServerUnreachable, match="is the server running"), CountEnv("http://127.0.0.1:9") as env:
        env.reset()


@pytest.mark.parametrize("wrong", ["ftp://x", "", "http://"])
def test_a_wrong_base_url_is_named(wrong):
    with pytest.raises(ValueError, match="base_url"):
        CountEnv(wrong)


@pytest.mark.parametrize("execution", ["inline", "thread"])
def test_a_step_that_fails_after_it_ran_is_not_run_again_when_it_is_repeated(serving, tmp_path, execution):
    folder = tmp_path / "records"
    url = serving(create_app(CountingEnvironment, config=ServerConfig(execution=execution, record_dir=folder)))
    with httpx.Client(base_url=url) as http:
        http.post("/reset", json={}).raise_for_status()
        shutil.move(folder, tmp_path / "elsewhere")
        step = {"action": {"amount": 4}, "request_id": "one"}
        answers = [http.post("/step", json=step) for _ in range(2)]
        assert [(answer.status_code, answer.json()["code"]) for answer in answers] == [(500, "EXECUTION_ERROR")] * 2
        assert http.get("/state").json()["step_count"] == 1
