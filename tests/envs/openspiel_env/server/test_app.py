"""Configuration of the server: environment variables, command line, reset."""

import subprocess
import sys
from typing import Any

import pytest

from openenv.core.errors import EnvironmentFault, InvalidMessage
from openenv.envs.openspiel_env import OpenSpielAction, OpenSpielEnv
from openenv.envs.openspiel_env.server.app import OpenSpielSettings, program
from openenv.hosting.local_process import LocalServer
from tests.envs.openspiel_env.conftest import SERVER_MODULE

pytestmark = pytest.mark.process


def test_the_command_line_sets_game_seat_opponents_and_parameters() -> None:
    args = ["--game", "leduc_poker", "--agent-player", "2", "--opponent", "first,last"]
    with (
        LocalServer(SERVER_MODULE, [*args, "--game-params", '{"players": 3}']) as server,
        OpenSpielEnv(base_url=server.base_url) as env,
    ):
        env.reset(seed=1)
        state = env.state()

    assert (state.game_name, state.agent_player, state.num_players) == ("leduc_poker", 2, 3)
    assert (state.opponent_policy, state.game_params) == (["first", "last"], {"players": 3})


def test_environment_variables_set_the_same() -> None:
    env_vars = {"OPENSPIEL_GAME": "tic_tac_toe", "OPENSPIEL_AGENT_PLAYER": "1", "OPENSPIEL_OPPONENT_POLICY": "first"}
    with LocalServer(SERVER_MODULE, env_vars=env_vars) as server, OpenSpielEnv(base_url=server.base_url) as env:
        result = env.reset(seed=1)

    assert result.observation.metadata["text"] == "x..\n...\n..."


def test_the_default_game_is_catch() -> None:
    assert program.settings({}) == OpenSpielSettings(game_name="catch", agent_player=0, opponent_policy="random")


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"game_name": "cach"}, "Did you mean 'catch'"), ({"game_name": "cach", "tables": 9.0}, "Did you mean 'catch'")],
)
def test_a_wrong_setting_stops_the_server_before_it_listens(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        program.build(**settings)


def test_a_wrong_command_line_ends_with_one_error_line() -> None:
    command = [sys.executable, "-m", SERVER_MODULE, "--game", "cach"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert ended.returncode == 2
    assert "error: game_name='cach' is not known. Did you mean 'catch'?" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_an_illegal_action_reaches_the_client_as_an_error_and_the_session_continues(openspiel_url: str) -> None:
    with OpenSpielEnv(base_url=openspiel_url) as env:
        env.reset(seed=1)
        with pytest.raises(EnvironmentFault, match=r"action_id=7 is not legal now\. Legal: 0 \(LEFT\)"):
            env.step(OpenSpielAction(action_id=7))
        with pytest.raises(EnvironmentFault, match="Did you mean 'opponent_policy'"):
            env.reset(opponent_polcy="first")

        assert env.step(OpenSpielAction(action_id=2, game_name="catch")).done is False


def test_a_negative_action_is_an_invalid_message(openspiel_url: str) -> None:
    with OpenSpielEnv(base_url=openspiel_url) as env:
        env.reset(seed=1)
        with pytest.raises(InvalidMessage, match="action_id"):
            env.step(OpenSpielAction.model_construct(action_id=-1, game_name="", game_params={}, metadata={}))
