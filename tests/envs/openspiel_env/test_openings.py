"""What a seat sees first is remembered, and nobody sees a difference."""

import pytest

from openenv.envs.openspiel_env.server import openings
from openenv.envs.openspiel_env.server.draws import draws_of
from openenv.envs.openspiel_env.server.environment import OpenSpielEnvironment
from openenv.envs.openspiel_env.server.episode import GameChoice, play_until_agent, set_table
from openenv.envs.openspiel_env.server.views import look
from tests.envs.openspiel_env.test_all_games import GAMES, _reset_kwargs


def test_a_remembered_sight_is_that_of_the_game_in_every_game() -> None:
    remembered = 0
    for game in GAMES:
        kwargs = _reset_kwargs(game, 0)
        del kwargs["seed"]
        table = set_table(GameChoice(**kwargs), draws_of(0))
        if table.openings is None:
            continue
        remembered += 1
        for seed in (0, 1, 0, 1):
            episode = table.begin(draws_of(seed), seed)
            play_until_agent(episode)
            seen = look(table.view, episode.state, is_over=episode.state.is_terminal())
            assert table.openings.look(episode.state) == seen, (game, seed)
    assert remembered > 60


def test_whoever_changes_an_observation_changes_nobody_elses() -> None:
    env = OpenSpielEnvironment("tic_tac_toe")
    first = env.reset(seed=0)
    whole = first.model_dump()
    first.legal_actions.clear()
    first.info_state.clear()
    first.metadata["legal_action_names"].clear()
    first.metadata["text"] = ""

    assert OpenSpielEnvironment("tic_tac_toe").reset(seed=0).model_dump() == whole


@pytest.mark.parametrize("game", ["cribbage", "coin_game", "blackjack"])
def test_of_games_that_begin_in_many_ways_few_are_remembered(game: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openings, "_MOST_REMEMBERED", 2000)
    env = OpenSpielEnvironment(game)
    known = openings.openings_of(game, {}, 0)
    known._known.clear()
    known._size = 0
    seen = [env.reset(seed=seed) for seed in range(100)]

    assert 0 < len(known._known) < 60
    assert [env.reset(seed=seed) for seed in range(100)] == seen


def test_an_episode_without_a_name_gets_one_that_stays() -> None:
    env = OpenSpielEnvironment()
    assert env.state.episode_id is None
    env.reset(seed=0)
    name = env.state.episode_id
    assert name
    assert env.state.episode_id == name
    other = OpenSpielEnvironment()
    other.load_state(env.save_state())
    assert other.state.episode_id == name
    env.reset(seed=0)
    assert env.state.episode_id not in (None, name)
    env.reset(seed=0, episode_id="mine")
    assert env.state.episode_id == "mine"
