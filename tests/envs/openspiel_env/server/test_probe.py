"""Parameters of a client are probed in another process before the server plays with them."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from openenv.core.errors import EnvironmentFault
from openenv.envs.openspiel_env.client import OpenSpielEnv
from openenv.envs.openspiel_env.models import OpenSpielAction
from openenv.envs.openspiel_env.server import probe
from openenv.envs.openspiel_env.server.environment import OpenSpielEnvironment


@pytest.mark.parametrize(
    ("game", "params", "reason"),
    [
        ("connect_four", {"rows": 0}, "was ended by signal"),
        ("hanabi", {"colors": 0}, "was ended by signal"),
        ("catch", {"columns": 0}, "failed: IndexError"),
        ("catch", {"columns": 1_000_000}, "failed: ValueError: an observation has [0-9,]+ bytes, at most 1,000,000"),
        ("deep_sea", {"size": 1_000_000}, "failed: MemoryError"),
    ],
)
def test_parameters_that_end_or_fill_a_process_are_refused_and_the_server_keeps_running(
    openspiel_url: str, game: str, params: dict[str, Any], reason: str
) -> None:
    with OpenSpielEnv(base_url=openspiel_url) as env:
        env.reset(seed=1)
        with pytest.raises(EnvironmentFault, match=f"cannot be played with these: a probe in another process {reason}"):
            env.reset(game_name=game, game_params=params)

        assert env.step(OpenSpielAction(action_id=1)).done is False


def test_a_probe_that_never_ends_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "TIMEOUT_S", 2.0)

    with pytest.raises(ValueError, match="timed out after 2 seconds"):
        OpenSpielEnvironment().reset(game_name="negotiation", game_params={"num_items": 0})


def test_other_sessions_continue_during_a_probe(openspiel_url: str) -> None:
    with OpenSpielEnv(base_url=openspiel_url) as env, OpenSpielEnv(base_url=openspiel_url) as other:
        env.reset(seed=1)
        other.reset(seed=1)
        with ThreadPoolExecutor(1) as thread:
            probing = thread.submit(other.reset, game_params={"rows": 11, "columns": 7})
            played = 0
            while not probing.done():
                env.reset(seed=played)
                played += 1
        probing.result()

    assert played > 20
