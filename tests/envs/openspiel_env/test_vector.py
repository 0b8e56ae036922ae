"""Games stepped in one loop are the games that one environment plays, and say what is wrong with an action."""

import select
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest

from openenv.core.env_server.each_in_turn import next_seed
from openenv.core.errors import EnvironmentFault
from openenv.core.vector_session import VectorSession
from openenv.envs.openspiel_env import OpenSpielAction, OpenSpielEnv
from openenv.envs.openspiel_env.server.draws import draws_of
from openenv.envs.openspiel_env.server.environment import OpenSpielEnvironment
from openenv.envs.openspiel_env.server.episode import GameChoice, set_table
from openenv.envs.openspiel_env.server.vector import OpenSpielVector, seen_of
from tests.envs.openspiel_env.test_all_games import GAMES, _reset_kwargs

MAX_STEPS = 60
"""Of an episode: the longest games are compared as far as this."""


def _legal(batch: Any, row: int) -> list[int]:
    column = batch.observation["legal_actions"]
    return list(column[row]) if isinstance(column, list) else np.flatnonzero(column[row]).tolist()


def _compare(env: OpenSpielEnvironment, observation: Any, batch: Any, game: str) -> None:
    seen = batch.observation
    np.testing.assert_array_equal(np.array(observation.info_state, dtype=np.float32), seen["info_state"][0], game)
    assert _legal(batch, 0) == sorted(observation.legal_actions), game
    last = observation.opponent_last_action
    assert seen["opponent_last_action"][0] == (-1 if last is None else last), game
    assert batch.terminated[0] == observation.done, game
    if observation.reward is not None and not np.isnan(batch.reward[0]):
        assert batch.reward[0] == observation.reward, game


def test_every_game_is_the_one_that_a_single_environment_plays() -> None:
    for game in GAMES:
        kwargs = _reset_kwargs(game, 1)
        env, vector = OpenSpielEnvironment(), OpenSpielVector(OpenSpielEnvironment().choose, 1)
        if game == "add_noise":  # its noise is drawn by the process, at the first end that is reached
            continue
        observation, batch, rng = env.reset(**kwargs), vector.reset([0], [kwargs]), Random(game)
        for _ in range(MAX_STEPS):
            _compare(env, observation, batch, game)
            if observation.done:
                break
            action_id = rng.choice(observation.legal_actions)
            observation = env.step(OpenSpielAction(action_id=action_id))
            batch = vector.step([0], {"action_id": [action_id]})


def test_openings_that_are_kept_are_those_of_every_game() -> None:
    kept = []
    for game in GAMES:
        kwargs = _reset_kwargs(game, 0)
        del kwargs["seed"]
        table = set_table(GameChoice(**kwargs), draws_of(0))
        seen = seen_of(table)
        if seen.opening is None:
            continue
        kept.append(game)
        for _ in range(3):
            state = table.game.new_initial_state()
            seen.set_from(state, 0)
            assert (state.current_player(), state.legal_actions(), seen.to_bytes()) == (0, *seen.opening), game
    assert {"connect_four", "go", "tic_tac_toe"} < set(kept)
    assert not {"catch", "blackjack", "bridge_uncontested_bidding"} & set(kept)


@pytest.mark.parametrize("game", ["catch", "tic_tac_toe", "blackjack", "goofspiel", "2048", "python_liars_poker"])
def test_episodes_that_follow_by_themselves_are_fixed_by_the_seed_and_differ(game: str) -> None:
    def played(seed: int) -> list[tuple[Any, ...]]:
        environment = OpenSpielEnvironment(game)
        vector, rng = environment.vectorized(2), Random(0)
        batch = vector.reset([0, 1], [{"seed": seed}, {"seed": seed + 1}])
        seen = []
        for _ in range(60):
            seen.append((batch.observation["info_state"].tobytes(), str(batch.reward), _legal(batch, 0)))
            batch = vector.step([0, 1], {"action_id": [rng.choice(_legal(batch, row)) for row in (0, 1)]})
            over = np.flatnonzero(batch.over).tolist()
            if over:
                batch.put(over, vector.begin_next(over))
        return seen

    assert played(5) == played(5)
    assert played(5) != played(6)


def test_an_episode_that_is_over_before_the_agent_moves_is_followed_by_another(openspiel_url: str) -> None:
    envs = OpenSpielEnv(openspiel_url).vector(16, autoreset="same_step", options={"game_name": "euchre"})
    observations, infos = envs.reset(seed=0)
    begun_over = 0
    for _ in range(24):
        legal = observations["legal_actions"]
        begun_over += int((~legal.any(axis=1)).sum())
        observations, *_, infos = envs.step(legal.argmax(axis=1))
        assert "errors" not in infos, infos["errors"]
    assert begun_over > 0
    envs.close()


def test_the_way_in_one_pass_is_of_games_that_begin_quickly() -> None:
    vector = OpenSpielVector(OpenSpielEnvironment("tic_tac_toe").choose, 1)
    for game, is_quick in (("tic_tac_toe", True), ("python_tic_tac_toe", False)):
        vector.reset([0], [{"seed": 1, "game_name": game}])
        assert (vector.step_and_begin_next([0], {"action_id": [4]}) is not None) is is_quick


def test_an_action_that_is_not_legal_is_named_and_the_others_go_on(openspiel_url: str) -> None:
    envs = OpenSpielEnv(openspiel_url).vector(3, options={"game_name": "tic_tac_toe"})
    before, _ = envs.reset(seed=1)
    _, rewards, _, _, infos = envs.step(np.array([4, 40, 4]))
    assert "action_id=40 is not legal now" in str(infos["errors"][1])
    assert infos["failed"].tolist() == [False, True, False]
    assert np.isnan(rewards[1])
    after, *_ = envs.step(np.array([0, 4, 0]))
    assert before["info_state"].shape == after["info_state"].shape == (3, 27)
    with pytest.raises(EnvironmentFault, match="action_id"):
        envs.step({"action": np.array([1, 2, 3])})
    envs.close()


def test_different_games_do_not_stack(openspiel_url: str) -> None:
    envs = OpenSpielEnv(openspiel_url).vector(2, options={"game_name": "catch"})
    with pytest.raises(EnvironmentFault, match="play one game in a session"):
        envs.reset(options={"game_name": "tic_tac_toe", "reset_mask": np.array([True, False])})
    assert envs.step(np.array([0, 0]))[0]["info_state"].shape == (2, 50)
    assert envs.reset(options={"game_name": "tic_tac_toe"})[0]["info_state"].shape == (2, 27)
    envs.close()


@pytest.mark.parametrize("autoreset", ["next_step", "same_step", "disabled"])
def test_games_that_were_never_reset_begin_by_themselves_or_say_that_they_must_be(
    openspiel_url: str, autoreset: str
) -> None:
    address = OpenSpielEnv(openspiel_url)._address
    session = VectorSession(replace(address, query=f"num_envs=2&autoreset={autoreset}", reads_arrays=True), 2)
    session.send("reset", {"env_ids": [0], "resets": [{"seed": 1}]})
    session.receive(10)
    played = []
    for _ in range(2):
        session.send("step", {"actions": {"action_id": [1, 1]}})
        played.append(session.receive(10))
    session.close()
    codes = [error["code"] for answer in played for error in answer.get("errors", {}).values()]
    if autoreset == "disabled":
        assert codes == ["EPISODE_OVER"] * 2
        return
    assert not codes
    with OpenSpielEnv(openspiel_url) as env:
        for row, seed in enumerate((1, next_seed(0))):
            alone = [env.reset(seed=seed), *(env.step(OpenSpielAction(action_id=1)) for _ in range(2))]
            shown = [answer["observation"]["info_state"][row].tolist() for answer in played]
            assert shown == [result.observation.info_state for result in alone[1 - row : 3 - row]]


@pytest.mark.parametrize("autoreset", ["next_step", "same_step"])
def test_who_cannot_begin_beside_the_others_says_so_and_they_go_on(openspiel_url: str, autoreset: str) -> None:
    address = OpenSpielEnv(openspiel_url)._address
    session = VectorSession(replace(address, query=f"num_envs=2&autoreset={autoreset}", reads_arrays=True), 2)
    session.send("reset", {"env_ids": [0], "resets": [{"seed": 1, "game_name": "tic_tac_toe"}]})
    legal = session.receive(10)["observation"]["legal_actions"][0]
    num_legal, num_ended = [], 0
    for _ in range(12):
        session.send("step", {"actions": {"action_id": [int(legal.argmax()), 1]}})
        answer = session.receive(10)
        assert answer["errors"].keys() == {"1"}
        assert "play one game in a session" in answer["errors"]["1"]["message"]
        legal = answer["observation"]["legal_actions"][0]
        num_legal.append(int(legal.sum()))
        num_ended += bool(answer["terminated"][0])
    session.close()
    assert num_legal[0] == 9 - 2, "its step was taken, and told"
    assert num_ended >= 2, "the game after the first began, too"


def test_the_space_is_the_games_own(openspiel_url: str) -> None:
    envs = OpenSpielEnv(openspiel_url).vector(4, autoreset="same_step")
    assert envs.single_action_space.n == 3
    assert envs.single_observation_space["info_state"].shape == (50,)
    observations, _ = envs.reset(seed=3)
    assert observations["legal_actions"].all()
    for _ in range(9):
        _, rewards, terminated, _, infos = envs.step(np.array([1, 1, 1, 1]))
    assert terminated.all()
    assert set(rewards.tolist()) <= {1.0, -1.0}
    assert all(final["info_state"].shape == (50,) for final in infos["final_obs"])
    envs.close()


def test_tree_search_of_a_vector_does_not_hold_up_other_sessions(openspiel_url: str) -> None:
    options = {"game_name": "tic_tac_toe", "opponent_policy": "mcts"}
    with OpenSpielEnv(openspiel_url).vector(1024, options=options) as slow, OpenSpielEnv(openspiel_url) as quick:
        slow.send(np.zeros(1024, dtype=np.int64))
        quick.reset()
        assert not select.select([slow._sessions[0].fileno()], [], [], 0)[0], "its answer was not waited for"
        slow.recv()


def test_to_begin_takes_nothing_of_what_the_first_step_will_be_told_as_gained(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[object] = []
    monkeypatch.setattr("openenv.envs.openspiel_env.server.vector.new_reward", lambda _: told.append(1) or 0.0)
    for game in ("catch", "2048", "matrix_pd"):
        OpenSpielEnvironment(game).vectorized(2).reset([0, 1], [{"seed": 0}, {"seed": 1}])
    assert told == []
