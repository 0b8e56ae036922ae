"""What is refused, and whether the message names the field, what is allowed, and what came."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from openenv.core.errors import EnvironmentFault
from openenv.envs.openspiel_env.client import OpenSpielEnv
from openenv.envs.openspiel_env.models import OpenSpielAction
from openenv.envs.openspiel_env.server import trial
from openenv.envs.openspiel_env.server.environment import OpenSpielEnvironment

REFUSALS: list[tuple[dict[str, Any], str]] = [
    ({"game_name": "cach"}, r"game_name='cach' is not known\. Did you mean 'catch'\? Allowed: 2048, .*y, yacht"),
    ({"game_name": 7}, r"game_name=7: a string is wanted"),
    ({"game_nam": "catch"}, r"'game_nam' is not known\. Did you mean 'game_name'\?"),
    ({"agent_player": 1}, r"agent_player=1: 'catch' has seat 0 only"),
    ({"agent_player": -1}, r"agent_player=-1"),
    ({"agent_player": True}, r"agent_player=True: an int is wanted"),
    ({"agent_player": "0"}, r"agent_player='0': an int is wanted"),
    ({"game_name": "hearts", "agent_player": 4}, r"agent_player=4: 'hearts' has seats 0 to 3"),
    ({"opponent_policy": "mtcs"}, r"opponent_policy='mtcs' is not known\. Did you mean 'mcts'\?"),
    ({"opponent_policy": 3}, r"opponent_policy=3: a string or a list is wanted"),
    ({"game_name": "hearts", "opponent_policy": ["first"]}, r"names 1 seats, but this game has 3"),
    ({"game_name": "kuhn_poker", "opponent_policy": "mcts"}, r"'mcts' cannot play 'kuhn_poker'"),
    ({"game_name": "matrix_pd", "opponent_policy": "mcts"}, r"'mcts' cannot play 'matrix_pd'"),
    ({"game_params": {"rowz": 3}}, r"game_params='rowz' is not known\. Did you mean 'rows'\? Allowed: columns, rows"),
    ({"game_params": {"rows": "x"}}, r"game_params\.rows='x': int is wanted, str came"),
    ({"game_params": {"rows": True}}, r"game_params\.rows=True: int is wanted, bool came"),
    ({"game_params": [3]}, r"game_params=\[3\]: an object is wanted"),
    ({"game_name": "kuhn_poker", "game_params": {"players": 99}}, r"(?s)were refused by 'kuhn_poker': .*players_ = 99"),
    ({"game_name": "misere"}, r"cannot be played without game_params: it takes game \(a game\)"),
    ({"game_name": "misere", "game_params": {"game": "go"}}, r"game_params\.game='go': a game is wanted"),
    ({"game_name": "misere", "game_params": {"game": {"name": "goo"}}}, r"game_name='goo' .*Did you mean 'go'"),
    ({"game_name": "efg_game", "game_params": {"filename": "/etc/passwd"}}, r"names a file can only be set where"),
    (
        {"game_name": "misere", "game_params": {"game": {"name": "efg_game", "filename": "/etc/passwd"}}},
        r"names a file can only be set where",
    ),
    ({"game_name": "kuhn_poker", "reveal_history": True}, r"'kuhn_poker' hides something"),
    ({"game_name": "python_hangman", "reveal_history": True}, r"'python_hangman' hides something"),
    ({"game_name": "stones_and_gems", "reveal_history": True}, r"draws its chances inside itself"),
    ({"game_name": "mfg_crowd_modelling"}, r"is a mean-field game: its player is a whole population"),
    ({"game_name": "mfg_crowd_modelling_2d"}, r"is a mean-field game"),
    ({"game_name": "mfg_dynamic_routing"}, r"is a mean-field game"),
    ({"game_name": "mfg_garnet"}, r"is a mean-field game"),
    ({"game_name": "crossword"}, r"has no numbered actions"),
]


@pytest.mark.parametrize(("reset_kwargs", "message"), REFUSALS)
def test_a_wrong_reset_names_the_field_and_leaves_the_old_episode(reset_kwargs: dict[str, Any], message: str) -> None:
    env = OpenSpielEnvironment("catch")
    env.reset(seed=1)
    before = env.state.model_dump()

    with pytest.raises(ValueError, match=message):
        env.reset(seed=2, **reset_kwargs)

    assert env.state.model_dump() == before
    assert env.step(OpenSpielAction(action_id=1)).done is False


def test_an_illegal_action_is_named_with_the_legal_ones_and_changes_nothing() -> None:
    env, twin = OpenSpielEnvironment("tic_tac_toe"), OpenSpielEnvironment("tic_tac_toe")
    for each in (env, twin):
        each.reset(seed=1, opponent_policy="first")
        each.step(OpenSpielAction(action_id=4))

    with pytest.raises(ValueError, match=r"action_id=4 is not legal now\. Legal: 1 \(x\(0,1\)\), 2 \(x\(0,2\)\), 3 "):
        env.step(OpenSpielAction(action_id=4))

    assert env.state.step_count == 1
    assert env.step(OpenSpielAction(action_id=8)) == twin.step(OpenSpielAction(action_id=8))


def test_a_step_before_the_first_reset_is_refused() -> None:
    with pytest.raises(ValueError, match="step came before reset"):
        OpenSpielEnvironment("catch").step(OpenSpielAction(action_id=1))


def test_a_step_after_the_end_is_refused() -> None:
    env = OpenSpielEnvironment("blackjack")
    env.reset(seed=1)
    env.step(OpenSpielAction(action_id=1))

    with pytest.raises(ValueError, match="game is over"):
        env.step(OpenSpielAction(action_id=1))


def test_an_action_may_name_its_game_and_must_name_the_right_one() -> None:
    env = OpenSpielEnvironment("catch")
    env.reset(seed=1)

    with pytest.raises(ValueError, match="game_name='chess': this session plays 'catch'"):
        env.step(OpenSpielAction(action_id=2, game_name="chess"))
    with pytest.raises(ValueError, match="game_params="):
        env.step(OpenSpielAction(action_id=2, game_params={"rows": 3}))
    assert env.step(OpenSpielAction(action_id=2, game_name="catch")).done is False


@pytest.mark.parametrize("arguments", [{"game_name": "cach"}, {"agent_player": 3}, {"opponent_policy": "smart"}])
def test_a_wrong_configuration_is_refused_when_the_environment_is_made(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(arguments))}="):
        OpenSpielEnvironment(**arguments)


def test_whoever_starts_the_server_may_name_a_file_and_clients_then_play_it(tmp_path: Any) -> None:
    path = tmp_path / "pennies.nfg"
    path.write_text('NFG 1 R "Pennies" { "Even" "Odd" } { 2 2 }\n1 -1 -1 1 -1 1 1 -1\n')

    env = OpenSpielEnvironment("nfg_game", game_params={"filename": str(path)})

    assert len(env.reset(seed=1).legal_actions) == 2


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
def test_parameters_that_end_or_fill_a_process_are_refused_and_the_server_lives(
    openspiel_url: str, game: str, params: dict[str, Any], reason: str
) -> None:
    with OpenSpielEnv(base_url=openspiel_url) as env:
        env.reset(seed=1)
        with pytest.raises(EnvironmentFault, match=f"cannot be played with these: a trial in another process {reason}"):
            env.reset(game_name=game, game_params=params)

        assert env.step(OpenSpielAction(action_id=1)).done is False


def test_parameters_that_run_for_ever_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "TIMEOUT_S", 3.0)

    with pytest.raises(ValueError, match="did not end within 3 seconds"):
        OpenSpielEnvironment().reset(game_name="negotiation", game_params={"num_items": 0})


def test_other_sessions_play_on_while_parameters_are_tried(openspiel_url: str) -> None:
    with OpenSpielEnv(base_url=openspiel_url) as env, OpenSpielEnv(base_url=openspiel_url) as other:
        env.reset(seed=1)
        other.reset(seed=1)
        with ThreadPoolExecutor(1) as thread:
            trying = thread.submit(other.reset, game_params={"rows": 11, "columns": 7})
            played = 0
            while not trying.done():
                env.reset(seed=played)
                played += 1
        trying.result()

    assert played > 20
