"""What fails after a step, or in an author's code, is that request's error: nothing runs twice, and nothing is lost."""

import shutil
from typing import ClassVar

import httpx
import numpy as np
import orjson
import pytest
from websockets.sync.client import connect

from openenv.core import Action, EnvClient, Environment, Observation, State
from openenv.core.env_server import ServerConfig, create_app
from openenv.core.errors import EnvironmentFault
from openenv.core.wire.constants import SUBPROTOCOL
from tests.core.env_server.probes import num_sessions, wait_until

EXECUTIONS = ["inline", "thread", "process"]


class Do(Action):
    """What to do."""

    what: str = ""


class Seen(Observation):
    """How many steps have run, and what else a step makes."""

    num_steps: int = 0
    other: object = None


class Unreadable:
    """Raises when it is read as JSON."""

    def tolist(self) -> object:
        raise LookupError("no sensor to read")


class Faulty(Environment[Do, Seen, State]):
    """Counts its steps; each fault comes after the step has happened."""

    rewards: ClassVar[dict[str, float]] = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}

    def __init__(self) -> None:
        self.num_steps = 0

    def reset(self, seed: int | None = None, episode_id: str | None = None) -> Seen:
        self.num_steps = 0
        return Seen()

    async def _later(self) -> Seen:
        return Seen()

    def step(self, action: Do, timeout_s: float | None = None) -> Seen:
        self.num_steps += 1
        if action.what == "two truths":
            fields = {"num_steps": self.num_steps, "other": None, "reward": 1.0, "done": np.array([True, False])}
            return Seen.construct_unchecked({**fields, "metadata": {}})
        if action.what == "complain":
            raise ValueError("no " * 40_000)
        if action.what == "object":
            raise ValueError("no")
        if action.what == "key":
            {}["level"]
        if action.what == "silence":
            raise RuntimeError
        if action.what == "field":
            return Seen(num_stepz=1)
        if action.what == "tuple":
            return Seen(), 1.0, False, {}
        if action.what == "coroutine":
            return self._later()
        other = Unreadable() if action.what == "unreadable" else None
        return Seen(num_steps=self.num_steps, other=other, reward=self.rewards.get(action.what, 1.0))

    @property
    def state(self) -> State:
        return State(step_count=self.num_steps)


class FaultyEnv(EnvClient[Do, Seen, State]):
    """Its client."""


@pytest.fixture(params=EXECUTIONS, scope="module")
def url(module_serving, request):
    return module_serving(create_app(Faulty, config=ServerConfig(execution=request.param)))


def _ask(socket, **message):
    socket.send(orjson.dumps(message).decode())
    return orjson.loads(socket.recv(timeout=20))


def test_an_error_without_a_reset_names_its_lack(url):
    with FaultyEnv(base_url=url) as env:
        with pytest.raises(EnvironmentFault, match=r"KeyError: 'level' \(no reset came before it: reset first\)"):
            env.step(Do(what="key"))
        env.reset()
        with pytest.raises(EnvironmentFault, match=r"KeyError: 'level'$"):
            env.step(Do(what="key"))


@pytest.fixture(params=EXECUTIONS)
def recorded(serving, request, tmp_path):
    """The URL of a server that records, and the folder of its records."""
    folder = tmp_path / "records"
    config = ServerConfig(execution=request.param, record_dir=folder)
    return serving(create_app(Faulty, config=config)).replace("http", "ws") + "/ws", folder


@pytest.mark.finding("an error after the step is that step's response, and nothing runs twice")
def test_a_step_that_cannot_be_recorded_runs_once_and_its_id_keeps_the_error(recorded):
    url, folder = recorded
    with connect(url, subprotocols=[SUBPROTOCOL]) as socket:
        socket.recv()
        _ask(socket, type="reset", id="r")
        shutil.rmtree(folder)
        failed = _ask(socket, type="step", id="s", data={})
        folder.mkdir()
        repeated = _ask(socket, type="step", id="s", data={})
        state = _ask(socket, type="state", id="t")

    assert (failed["type"], failed["validity"], failed["data"]["code"]) == ("error", "invalid", "EXECUTION_ERROR")
    assert repeated == failed
    assert state["data"]["step_count"] == 1


@pytest.mark.finding("recordings and tokens are kept from others")
def test_only_the_owner_reads_recordings(recorded):
    url, folder = recorded
    with connect(url) as socket:
        _ask(socket, type="reset")

    (record,) = folder.iterdir()
    assert (folder.stat().st_mode & 0o777, record.stat().st_mode & 0o777) == (0o700, 0o600)


@pytest.mark.finding("an unforeseen error is answered in the published dialect too")
def test_a_step_that_cannot_be_recorded_is_answered_in_the_published_dialect_too(recorded):
    url, folder = recorded
    with connect(url) as socket:
        _ask(socket, type="reset")
        shutil.rmtree(folder)
        failed = _ask(socket, type="step", data={})
        folder.mkdir()
        after = _ask(socket, type="step", data={})

    assert (failed["type"], failed["data"]["code"]) == ("error", "EXECUTION_ERROR")
    assert after["data"]["observation"]["num_steps"] == 2


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("key", r"^step\(\) raised KeyError: 'level'$"),
        ("silence", r"^step\(\) raised RuntimeError$"),
        ("field", r"^step\(\) raised ValidationError: Seen\.num_stepz: Extra inputs are not permitted$"),
        ("tuple", r"returned tuple: it must return an Observation: reward and done are fields of it$"),
        ("coroutine", r"returned coroutine: it must .*\. An asynchronous method is named step_async$"),
        ("object", r"^no$"),
    ],
)
def test_a_fault_of_the_code_names_the_method_and_the_exception_and_a_refusal_is_its_text(url, what, words):
    with FaultyEnv(url, message_timeout_s=20) as env:
        env.reset()
        with pytest.raises(EnvironmentFault, match=words):
            env.step(Do(what=what))


@pytest.mark.finding("an error after the step is that step's response, and nothing runs twice")
@pytest.mark.parametrize(("what", "words"), [("two truths", "truth value"), ("unreadable", "no sensor to read")])
def test_an_observation_that_cannot_be_encoded_is_that_steps_error_and_the_episode_goes_on(url, what, words):
    with FaultyEnv(url, message_timeout_s=20) as env:
        env.reset()
        with pytest.raises(EnvironmentFault, match=words):
            env.step(Do(what=what))

        assert env.state().step_count == 1
        assert env.step(Do()).observation.num_steps == 2


@pytest.mark.finding("an id that is used again with another body is refused")
@pytest.mark.parametrize("padding", [0, 10_000])
def test_an_id_that_is_used_again_for_another_request_is_refused(url, padding):
    one, other = {"what": "a" + padding * " "}, {"what": "b" + padding * " "}
    with connect(url.replace("http", "ws") + "/ws", subprotocols=[SUBPROTOCOL]) as socket:
        session_id = orjson.loads(socket.recv(timeout=20))["data"]["session_id"]
        _ask(socket, type="reset", id="r")
        first = _ask(socket, type="step", id="s", data=one)
        repeated = _ask(socket, type="step", id="s", data=one)
        refused = _ask(socket, type="step", id="s", data=other)
        body, headers = {"request_id": "s", "action": one}, {"X-Session-Id": session_id}
        over_http = httpx.post(f"{url}/step", json=body, headers=headers)
        state = _ask(socket, type="state", id="t")

    assert repeated == first
    assert (refused["validity"], refused["data"]["code"]) == ("refused", "VALIDATION_ERROR")
    assert "id='s' names another step already" in refused["data"]["message"]
    assert over_http.json()["observation"]["num_steps"] == state["data"]["step_count"] == 1


@pytest.mark.finding("an id that is used again with another body is refused")
def test_over_http_too_an_id_that_is_used_again_for_another_request_is_refused(url):
    headers = {"X-Session-Id": httpx.post(f"{url}/reset", headers={"X-Session-Id": "new"}).headers["x-session-id"]}

    def step(what):
        body = {"request_id": "s", "action": {"what": what}}
        return httpx.post(f"{url}/step", json=body, headers=headers)

    assert step("a").json()["observation"] == step("a").json()["observation"]
    assert (step("b").status_code, step("b").json()["code"]) == (422, "VALIDATION_ERROR")


@pytest.mark.finding("an id that is used again with another body is refused")
def test_a_repetition_may_have_another_time_limit_and_nan_in_its_data(url):
    with connect(url.replace("http", "ws") + "/ws", subprotocols=[SUBPROTOCOL]) as socket:
        socket.recv()
        _ask(socket, type="reset", id="r")
        results = []
        for limit in ("", '"timeout_s": 5, '):
            socket.send(f'{{"type": "step", {limit}"id": "s", "data": {{"metadata": {{"x": NaN}}, "what": ""}}}}')
            results.append(orjson.loads(socket.recv(timeout=20)))

    assert results[0] == results[1]
    assert results[0]["data"]["observation"]["num_steps"] == 1


@pytest.mark.finding("a reward that is no finite number is a fault, not a zero")
@pytest.mark.parametrize("what", Faulty.rewards)
def test_a_reward_that_is_no_finite_number_is_a_fault_that_names_the_field(url, what):
    with FaultyEnv(url) as env:
        env.reset()
        with pytest.raises(EnvironmentFault, match=f"reward={what}: a reward is a finite number"):
            env.step(Do(what=what))

        assert env.step(Do()).reward == 1.0


@pytest.mark.finding("refused requests cost little memory and short responses")
@pytest.mark.parametrize("what", ["object", "complain"])
def test_errors_are_cut_so_that_as_many_are_kept_as_of_small_responses(url, what):
    with connect(url.replace("http", "ws") + "/ws", subprotocols=[SUBPROTOCOL]) as socket:
        socket.recv()
        _ask(socket, type="reset", id="r")
        for number in range(45):
            answer = _ask(socket, type="step", id=f"{number}", data={"what": what})
            assert answer["type"] == "error"
            assert len(answer["data"]["message"]) <= 10_003
        _ask(socket, type="step", id="24", data={"what": what})  # 20 others came after it

        assert _ask(socket, type="state", id="s")["data"]["step_count"] == 45


@pytest.mark.finding("refused requests cost little memory and short responses")
@pytest.mark.parametrize(
    "data",
    [
        {f"unknown {number}": 1 for number in range(20_000)},
        {"what": list(range(300_000))},
        {"x" * 1_000_000: 1},
        {"what": {"a": "x" * 1_000_000}},
    ],
    ids=["many keys", "long list", "long name", "long text"],
)
def test_a_refused_request_is_answered_in_short(url, data):
    with connect(url.replace("http", "ws") + "/ws") as socket:
        _ask(socket, type="reset")
        socket.send(orjson.dumps({"type": "step", "data": data}).decode())
        response = socket.recv(timeout=20)
    over_http = httpx.post(f"{url}/step", json={"action": data})
    wrong_body = httpx.post(f"{url}/step", json={"action": [data] * 3})

    assert orjson.loads(response)["data"]["code"] == over_http.json()["code"] == "VALIDATION_ERROR"
    assert wrong_body.status_code == 422
    assert max(len(response), len(over_http.content), len(wrong_body.content)) < 50_000
    assert len(orjson.loads(response)["data"]["errors"]) <= 50


class ClosesBadly(Faulty):
    """Its `close` raises the given exception."""

    raised: ClassVar[type[BaseException]] = ValueError

    def close(self) -> None:
        raise self.raised("enough")


class ClosesWithInterrupt(ClosesBadly):
    """Raises what Ctrl-C does."""

    raised = KeyboardInterrupt


class ClosesWithAnything(ClosesBadly):
    """Raises what no `except Exception` catches."""

    raised = BaseException


@pytest.mark.finding("a close() that raises or hangs harms its own session alone")
@pytest.mark.parametrize("execution", EXECUTIONS)
@pytest.mark.parametrize("environment_cls", [ClosesBadly, ClosesWithInterrupt, ClosesWithAnything])
def test_a_close_that_raises_anything_ends_its_own_session_alone(serving, execution, environment_cls):
    config = ServerConfig(execution=execution, idle_timeout_s=0.6, reconnect_grace_s=0)
    url = serving(create_app(environment_cls, config=config))
    with FaultyEnv(url) as env:
        env.reset()
        wait_until(lambda: num_sessions(url) == 0)
    with FaultyEnv(url) as env:
        env.reset()

        assert env.step(Do()).observation.num_steps == 1
    wait_until(lambda: num_sessions(url) == 0)
