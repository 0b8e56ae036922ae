"""What a client, a result and a message look like where they are printed."""

from typing import Any

from openenv import Observation, StepResult
from openenv.core.env_server import create_app
from openenv.core.generic_client import GenericEnvClient
from tests.core.counting_env import CountingEnvironment


class Board(Observation):
    cells: list[float]
    text: str = ""
    rows: Any = None


def test_a_client_shows_its_server_and_its_session(serving):
    url = serving(create_app(CountingEnvironment))
    env = GenericEnvClient(base_url=url)
    assert repr(env) == f"<GenericEnvClient at {url}, no session>"
    assert repr(env.sync()) == f"<SyncEnvClient of {env!r}>"
    with env:
        env.reset()
        assert repr(env) == f"<GenericEnvClient at {url}, session {env.session_id}>"


def test_a_long_observation_is_shown_by_its_beginning():
    seen = Board(cells=[0.0] * 190, text="x" * 5000, metadata={"a": 1})
    shown = repr(StepResult(seen, 1.0, True, {"a": 1}))
    assert shown.startswith("StepResult(observation=Board(")
    assert "..." in shown
    assert len(shown) < 600
    assert shown.count("'a'") == 1


def test_the_text_of_an_observation_is_whole():
    seen = Board(cells=[0.0] * 190, text="x" * 5000)
    assert "x" * 5000 in str(seen)
    assert f"{seen}".count("0.0") == 190
    assert "x" * 5000 in f"{Board(cells=[], rows=[seen])}"


def test_a_client_that_was_not_made_has_a_repr():
    assert "GenericEnvClient" in repr(GenericEnvClient.__new__(GenericEnvClient))


def test_a_short_observation_is_shown_whole():
    assert "cells=[1.0, 2.0]" in repr(Board(cells=[1.0, 2.0]))
