"""The `validity` of each answer: valid, truncated, refused, or invalid; an invalid one never has a reward."""

import json

import httpx
import pytest
from websockets.sync.client import connect

from openenv.core import EnvClient
from openenv.core.env_server import ServerConfig, create_app
from openenv.core.wire.constants import SUBPROTOCOL
from tests.core.counting_env import CountAction, CountingEnvironment, CountObservation, CountState


class ShortObservation(CountObservation):
    """Reports whether the episode was truncated."""

    truncated: bool = False


class ShortEnvironment(CountingEnvironment):
    """Cuts its episode short at the second step."""

    def step(self, action, timeout_s=None, **kwargs):
        seen = super().step(action, timeout_s)
        is_cut = self.state.step_count == 2
        return ShortObservation(total=seen.total, done=seen.done or is_cut, truncated=is_cut)

    def reset(self, seed=None, episode_id=None, start=0):
        return ShortObservation(total=super().reset(seed, episode_id, start).total)


class ShortEnv(EnvClient[CountAction, ShortObservation, CountState]):
    """Sees the field too."""


@pytest.fixture(scope="module")
def url(module_serving):
    config = ServerConfig(step_timeout_s=1)
    return module_serving(create_app(ShortEnvironment, CountAction, ShortObservation, config=config))


def test_an_episode_that_is_cut_short_is_truncated_and_not_terminated(url):
    with ShortEnv(url) as env:
        env.reset()
        first, second = (env.step(CountAction(amount=1)) for _ in range(2))
        env.reset()
        last = env.step(CountAction(amount=10))

    assert (first.validity, first.terminated, first.truncated) == ("valid", False, False)
    assert (second.validity, second.terminated, second.truncated, second.done) == ("truncated", False, True, True)
    assert (last.validity, last.terminated, last.truncated) == ("valid", True, False)


def test_answers_over_http_have_a_validity_too(url):
    with httpx.Client(base_url=url) as curl:
        curl.post("/reset")
        answers = [curl.post("/step", json={"action": {"amount": 1}}).json() for _ in range(2)]
    assert [answer["validity"] for answer in answers] == ["valid", "truncated"]


@pytest.mark.parametrize(
    ("action", "code", "validity"),
    [
        ({"amount": "x"}, "VALIDATION_ERROR", "refused"),
        ({"amount": 1, "mischief": "raise"}, "EXECUTION_ERROR", "refused"),
        ({"amount": 1, "mischief": "wrong type"}, "EXECUTION_ERROR", "invalid"),
        ({"amount": 1, "mischief": "forever"}, "TIMEOUT", "invalid"),
    ],
)
def test_the_validity_of_an_error_separates_wrong_requests_from_failures(url, action, code, validity):
    address = url.replace("http", "ws") + "/ws"
    with connect(address, subprotocols=[SUBPROTOCOL]) as connection:
        connection.recv()
        connection.send('{"type":"reset","id":"1"}')
        connection.recv()
        connection.send(json.dumps({"type": "step", "id": "2", "data": action}))
        answer = json.loads(connection.recv())

    assert (answer["type"], answer["data"]["code"], answer["validity"]) == ("error", code, validity)
    assert "reward" not in answer["data"]
