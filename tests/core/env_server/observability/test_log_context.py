"""The server's log records name session and episode, wherever the environment runs."""

import json
import logging
import sys

import httpx
import pytest

from openenv.core.env_server.observability.log_context import EpisodeContext, EpisodeFilter, JsonLines, current_episode
from openenv.core.errors import EnvironmentFault, InvalidMessage
from openenv.core.generic_client import GenericEnvClient
from openenv.hosting.local_process import LocalServer
from tests.core.counting_env import CountAction, CountEnv

pytestmark = pytest.mark.process


def lines_of(environment):
    """What a server of its own logs while a client plays an episode and makes its environment raise."""
    arguments = ["--serve", environment, "--log-level", "info", "--log-format", "json"]
    with LocalServer("tests.core.counting_env", arguments) as server:
        with CountEnv(server.base_url) as env:
            env.reset(seed=3, episode_id="mine")
            session = env.session_id
            with pytest.raises(EnvironmentFault):
                env.step(CountAction(amount=1, mischief="raise"))
            env.step(CountAction(amount=10))
        output = server.output()
    return session, [json.loads(line) for line in output.splitlines() if line.startswith("{")]


@pytest.mark.parametrize("environment", ["InlineEnvironment", "CountingEnvironment", "ProcessEnvironment"])
def test_every_line_of_an_episode_names_its_session_and_episode(environment):
    session, lines = lines_of(environment)
    ours = [line for line in lines if line.get("session") == session]
    logged = {line["message"]: line for line in ours}

    assert {line["episode"] for line in ours} == {"mine"}
    assert "episode begins: seed=3" in logged
    assert "episode is over: terminated" in logged
    assert any(message.startswith("step failed: EXECUTION_ERROR") for message in logged)
    raised = logged["step raised"]
    assert "ValueError: amount=1 is not to my taste" in raised["traceback"]


def test_a_line_is_one_json_object_whatever_is_in_it():
    try:
        raise ValueError("two\nlines")
    except ValueError:
        record = logging.LogRecord("openenv", logging.ERROR, "x.py", 1, "text %s", ("a\nb",), sys.exc_info())
    token = current_episode.set(EpisodeContext("s", "e"))
    EpisodeFilter().filter(record)
    current_episode.reset(token)
    line = JsonLines().format(record)

    assert "\n" not in line
    assert json.loads(line)["message"] == "text a\nb"
    assert json.loads(line)["session"] == "s"


FORGED = "x\n2030-01-01 00:00:00,000 ERROR root: forged\r\x1b[2K\u2028"


@pytest.mark.finding("no request can forge a log line")
def test_no_text_of_a_client_begins_a_line_of_the_log():
    arguments = ["--serve", "InlineEnvironment", "--log-level", "info"]
    with LocalServer("tests.core.counting_env", arguments) as server:
        httpx.get(f"{server.base_url}/state", headers={"Origin": "http://evil.example/%0aERROR forged"})
        httpx.get(f"{server.base_url}/state%0aERROR%20forged", headers={"Sec-Fetch-Site": "cross-site"})
        with GenericEnvClient(server.base_url) as env:
            env.reset(episode_id=FORGED)
            with pytest.raises(EnvironmentFault):
                env.step({"amount": 1, "mischief": "echo", "metadata": {"text": FORGED}})
            with pytest.raises(InvalidMessage):
                env.reset(seed=FORGED)
        lines = server.output().splitlines()

    assert any("forged" in line for line in lines)
    assert not [line for line in lines if line.startswith(("ERROR", "2030", "forged"))]
    assert not [line for line in lines if not line.isprintable()]


def test_outside_an_episode_nothing_is_claimed():
    record = logging.LogRecord("openenv", logging.INFO, "x.py", 1, "hello", (), None)
    EpisodeFilter().filter(record)
    assert record.where == ""
    assert "session" not in json.loads(JsonLines().format(record))
