"""Refused resets, steps and configurations: the message names the field, what is allowed, and the value."""

from typing import Any

import pytest

from openenv.envs.openspiel_env.models import OpenSpielAction
from openenv.envs.openspiel_env.server.environment import OpenSpielEnvironment

REFUSALS: list[tuple[dict[str, Any], str]] = [
    ({"game_name": "cach"}, r"game_name='cach' is not known\. Did you mean 'catch'\?$"),
    ({"game_name": 7}, r"game_name=7: expected a string\."),
    ({"game_nam": "catch"}, r"'game_nam' is not known\. Did you mean 'game_name'\?"),
    ({"agent_player": 1}, r"agent_player=1: 'catch' has seat 0 only"),
    ({"agent_player": -1}, r"agent_player=-1"),
    ({"agent_player": True}, r"agent_player=True: expected an int"),
    ({"agent_player": "0"}, r"agent_player='0': expected an int"),
    ({"game_name": "hearts", "agent_player": 4}, r"agent_player=4: 'hearts' has seats 0 to 3"),
    ({"opponent_policy": "mtcs"}, r"opponent_policy='mtcs' is not known\. Did you mean 'mcts'\?"),
    ({"opponent_policy": 3}, r"opponent_policy=3: expected a string or a list"),
    ({"game_name": "hearts", "opponent_policy": ["first"]}, r"names 1 seats, but this game has 3"),
    ({"game_name": "kuhn_poker", "opponent_policy": "mcts"}, r"'mcts' cannot play 'kuhn_poker'"),
    ({"game_name": "matrix_pd", "opponent_policy": "mcts"}, r"'mcts' cannot play 'matrix_pd'"),
    ({"game_params": {"rowz": 3}}, r"game_params='rowz' is not known\. Did you mean 'rows'\? Allowed: columns, rows"),
    ({"game_params": {"rows": "x"}}, r"game_params\.rows='x': expected int, got str"),
    ({"game_params": {"rows": True}}, r"game_params\.rows=True: expected int, got bool"),
    ({"game_params": [3]}, r"game_params=\[3\]: expected an object"),
    ({"game_name": "kuhn_poker", "game_params": {"players": 99}}, r"(?s)were refused by 'kuhn_poker': .*players_ = 99"),
    ({"game_name": "misere"}, r"cannot be played without game_params: it takes game \(a game\)"),
    ({"game_name": "misere", "game_params": {"game": "go"}}, r"game_params\.game='go': expected a game"),
    ({"game_name": "misere", "game_params": {"game": {"name": "goo"}}}, r"game_name='goo' .*Did you mean 'go'"),
    ({"game_name": "efg_game", "game_params": {"filename": "/etc/passwd"}}, r"names a file can only be set where"),
    (
        {"game_name": "misere", "game_params": {"game": {"name": "efg_game", "filename": "/etc/passwd"}}},
        r"names a file can only be set where",
    ),
    ({"game_name": "kuhn_poker", "reveal_history": True}, r"'kuhn_poker' hides something"),
    ({"game_name": "python_hangman", "reveal_history": True}, r"'python_hangman' hides something"),
    ({"game_name": "stones_and_gems", "reveal_history": True}, r"samples its chance events inside"),
    ({"game_name": "mfg_crowd_modelling"}, r"is a mean-field game: its player is a population"),
    ({"game_name": "mfg_crowd_modelling_2d"}, r"is a mean-field game"),
    ({"game_name": "mfg_dynamic_routing"}, r"is a mean-field game"),
    ({"game_name": "mfg_garnet"}, r"is a mean-field game"),
    ({"game_name": "crossword"}, r"has no numbered actions"),
]


@pytest.mark.parametrize(("reset_kwargs", "message"), REFUSALS)
def test_a_wrong_reset_names_the_field_and_keeps_the_old_episode(reset_kwargs: dict[str, Any], message: str) -> None:
    env = OpenSpielEnvironment("catch")
    env.reset(seed=1)
    before = env.state.model_dump()

    with pytest.raises(ValueError, match=message):
        env.reset(seed=2, **reset_kwargs)

    assert env.state.model_dump() == before
    assert env.step(OpenSpielAction(action_id=1)).done is False


def test_an_illegal_action_raises_with_the_legal_ones_and_changes_nothing() -> None:
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


def test_the_servers_configuration_may_name_a_file(tmp_path: Any) -> None:
    path = tmp_path / "pennies.nfg"
    path.write_text('NFG 1 R "Pennies" { "Even" "Odd" } { 2 2 }\n1 -1 -1 1 -1 1 1 -1\n')

    env = OpenSpielEnvironment("nfg_game", game_params={"filename": str(path)})

    assert len(env.reset(seed=1).legal_actions) == 2
