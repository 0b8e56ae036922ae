"""OpenSpielEnvironment: reset, step and state; seats, seeds and opponents."""

import random
from dataclasses import fields

import numpy as np
import pytest

from openenv.core.outcomes import ANY_POSITIVE
from openenv.envs.openspiel_env.models import OpenSpielAction, OpenSpielObservation, OpenSpielState
from openenv.envs.openspiel_env.server.environment import OpenSpielEnvironment
from tests.envs.openspiel_env.playing import play, random_episode


def test_message_fields_are_the_published_ones_in_order() -> None:
    assert [f.name for f in fields(OpenSpielAction)] == ["metadata", "action_id", "game_name", "game_params"]
    assert [f.name for f in fields(OpenSpielObservation)] == [
        "done",
        "reward",
        "metadata",
        "info_state",
        "legal_actions",
        "game_phase",
        "current_player_id",
        "opponent_last_action",
    ]
    assert [f.name for f in fields(OpenSpielState)] == [
        "episode_id",
        "step_count",
        "game_name",
        "agent_player",
        "opponent_policy",
        "game_params",
        "num_players",
    ]


def test_a_game_begins_with_the_agents_first_decision_and_no_reward() -> None:
    observation = OpenSpielEnvironment("catch").reset(seed=3)

    assert (observation.done, observation.reward, observation.game_phase) == (False, None, "initial")
    assert observation.legal_actions == [0, 1, 2]
    assert observation.metadata["legal_action_names"] == ["LEFT", "STAY", "RIGHT"]
    assert observation.metadata["seed"] == 3
    assert (len(observation.info_state), sum(observation.info_state)) == (50, 2.0)


def test_catch_pays_once_at_the_end_plus_or_minus_one() -> None:
    episodes = [random_episode(OpenSpielEnvironment("catch"), seed) for seed in range(20)]

    assert {e[-1].reward for e in episodes} == {1.0, -1.0}
    assert {o.reward for e in episodes for o in e[1:-1]} == {0.0}
    assert {(e[-1].game_phase, e[-1].current_player_id, len(e)) for e in episodes} == {("terminal", -4, 10)}


@pytest.mark.parametrize("game", ["blackjack", "backgammon", "hearts", "goofspiel", "tarok", "negotiation"])
def test_equal_seeds_give_equal_games_on_a_used_instance_and_other_seeds_others(game: str) -> None:
    used = OpenSpielEnvironment(game)
    random_episode(used, 99)

    assert random_episode(used, 7) == random_episode(OpenSpielEnvironment(game), 7)
    assert random_episode(used, 7) != random_episode(used, 8)


def test_equal_seeds_give_equal_games_while_other_instances_play() -> None:
    alone = random_episode(OpenSpielEnvironment("tarok"), 7)
    first, second = OpenSpielEnvironment("tarok"), OpenSpielEnvironment("tarok")
    rng, observation = random.Random(7), first.reset(seed=7)
    interleaved = [observation]

    while not interleaved[-1].done:
        second.reset(seed=8)
        interleaved.append(play(first, observation, rng.choice(interleaved[-1].legal_actions)))

    assert interleaved == alone


def test_no_global_random_state_is_touched() -> None:
    random.seed(1)
    np.random.seed(1)
    before = random.getstate(), np.random.get_state()[1].tolist()  # type: ignore[index,union-attr]

    for game in ("blackjack", "tic_tac_toe", "tarok", "python_hangman"):
        random_episode(OpenSpielEnvironment(game), 3)
    random_episode(OpenSpielEnvironment("connect_four", opponent_policy="mcts"), 3)

    assert (random.getstate(), np.random.get_state()[1].tolist()) == before  # type: ignore[index,union-attr]


def test_without_a_seed_the_metadata_has_a_random_one_which_gives_the_same_game_again() -> None:
    env = OpenSpielEnvironment("blackjack")
    first, second = env.reset(), env.reset()

    assert first.metadata["seed"] != second.metadata["seed"]
    assert env.reset(seed=first.metadata["seed"]) == first


def test_a_players_own_generator_of_the_same_seed_does_not_predict_the_deal() -> None:
    env, seeds = OpenSpielEnvironment("catch"), range(300)
    predicted = 0
    for seed in seeds:
        ball = env.reset(seed=seed).info_state.index(1.0)
        predicted += ball == int(random.Random(seed).random() * 5)

    assert predicted < 100  # 60 expected by chance


def test_the_other_seats_move_first_when_the_agent_sits_second() -> None:
    observation = OpenSpielEnvironment("tic_tac_toe", agent_player=1, opponent_policy="first").reset(seed=0)

    assert observation.metadata["text"] == "x..\n...\n..."
    assert (observation.current_player_id, observation.opponent_last_action) == (1, 0)


def test_each_seat_may_have_a_policy_of_its_own() -> None:
    env = OpenSpielEnvironment()
    env.reset(seed=0, game_name="hearts", agent_player=1, opponent_policy=["first", "last", "random"])

    assert env.state.opponent_policy == ["first", "last", "random"]
    assert env.state.num_players == 4


def test_first_and_last_take_the_lowest_and_the_highest_legal_action() -> None:
    env = OpenSpielEnvironment("tic_tac_toe")
    after_first = play(env, env.reset(seed=0, opponent_policy="first"), 4)
    after_last = play(env, env.reset(seed=0, opponent_policy="last"), 4)

    assert (after_first.opponent_last_action, after_last.opponent_last_action) == (0, 8)


def test_tree_search_beats_random_play_and_runs_in_a_thread() -> None:
    env = OpenSpielEnvironment("tic_tac_toe", opponent_policy="mcts")

    rewards = [random_episode(env, seed)[-1].reward for seed in range(30)]

    assert sum(filter(None, rewards)) <= -20
    assert env.execution == "thread"
    env.reset(seed=0, opponent_policy="random")
    assert env.execution == "inline"


def test_simultaneous_moves_are_hidden_until_both_are_made() -> None:
    env = OpenSpielEnvironment("matrix_pd", opponent_policy="last")
    start = env.reset(seed=0)

    end = play(env, start, 0)

    assert (start.current_player_id, start.opponent_last_action) == (-2, None)
    assert "Utility matrix" in start.metadata["text"]
    assert (end.done, end.reward, end.opponent_last_action) == (True, 0.0, 1)


def test_reset_may_choose_another_game_for_one_episode() -> None:
    env = OpenSpielEnvironment("tic_tac_toe", agent_player=1)

    env.reset(seed=0, game_name="catch", game_params={"rows": 5, "columns": 3})
    chosen = env.state.model_dump(exclude={"episode_id"})
    env.reset(seed=0)

    assert chosen == {
        "step_count": 0,
        "game_name": "catch",
        "agent_player": 0,
        "opponent_policy": "random",
        "game_params": {"rows": 5, "columns": 3},
        "num_players": 1,
    }
    assert (env.state.game_name, env.state.agent_player) == ("tic_tac_toe", 1)


def test_state_counts_the_agents_steps_and_names_the_episode() -> None:
    env = OpenSpielEnvironment("tic_tac_toe")
    env.reset(seed=0, episode_id="mine")
    play(env, env.reset(seed=0, episode_id="mine"), 4)

    assert (env.state.episode_id, env.state.step_count) == ("mine", 1)
    env.reset(seed=0)
    assert env.state.episode_id not in (None, "mine")
    assert env.state.step_count == 0


def test_the_history_of_an_open_game_is_in_the_metadata_on_request() -> None:
    env = OpenSpielEnvironment("catch")
    assert "history" not in env.reset(seed=4).metadata
    observation = play(env, env.reset(seed=4, reveal_history=True), 0, 0)

    assert observation.metadata["history"][1:] == [0, 0]


def test_an_episode_without_an_id_gets_one_that_stays() -> None:
    env = OpenSpielEnvironment()
    assert env.state.episode_id is None
    env.reset(seed=0)
    episode_id = env.state.episode_id
    assert episode_id
    assert env.state.episode_id == episode_id
    other = OpenSpielEnvironment()
    other.load_state(env.save_state())
    assert other.state.episode_id == episode_id
    env.reset(seed=0)
    assert env.state.episode_id not in (None, episode_id)
    env.reset(seed=0, episode_id="mine")
    assert env.state.episode_id == "mine"


@pytest.mark.parametrize(
    ("game", "declared"),
    [("tic_tac_toe", ANY_POSITIVE), ("kuhn_poker", ANY_POSITIVE), ("blackjack", ANY_POSITIVE), ("catch", ANY_POSITIVE),
     ("2048", None), ("cliff_walking", None), ("hanabi", None), ("matrix_pd", None)],
)  # fmt: skip
def test_a_game_that_is_won_or_lost_declares_it_and_one_with_scores_does_not(game: str, declared: float | None) -> None:
    env = OpenSpielEnvironment()
    env.reset(seed=0, game_name="catch" if declared is None else "2048")

    env.reset(seed=0, game_name=game)

    assert env.success_return == declared
