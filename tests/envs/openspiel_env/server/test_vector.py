"""Games of a vector equal the games of single environments; errors and autoreset of vector sessions."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from random import Random
from typing import Any

import numpy as np
import pytest
from websockets.sync.client import connect

from openenv.core.env_server.runner.sync_vector import next_seed
from openenv.core.errors import EnvironmentFault
from openenv.core.wire.arrays import unpacked
from openenv.core.wire.constants import ARRAYS_SUBPROTOCOL
from openenv.envs.openspiel_env import OpenSpielAction, OpenSpielEnv
from openenv.envs.openspiel_env.server.environment import OpenSpielEnvironment
from openenv.envs.openspiel_env.server.prepared_game import GameChoice, prepare_game
from openenv.envs.openspiel_env.server.rng import make_rng
from openenv.envs.openspiel_env.server.sub_environment import make_tensor_reader
from openenv.envs.openspiel_env.server.vector import OpenSpielVector
from tests.envs.openspiel_env.playing import GAMES, choice_of

MAX_STEPS = 60
"""Longer episodes are compared up to this step."""


class VectorDialogue:
    """A vector session of two games, driven with raw messages: it can reset one game alone."""

    def __init__(self, socket: Any) -> None:
        self._socket = socket
        socket.recv()  # the session message

    def request(self, kind: str, data: dict[str, Any]) -> Any:
        """Send a message and return the data of its answer."""
        self._socket.send(json.dumps({"type": kind, "data": data}))
        return unpacked(self._socket.recv())["data"]


@contextmanager
def vector_dialogue(url: str, autoreset: str) -> Iterator[VectorDialogue]:
    address = f"{url.replace('http', 'ws', 1)}/ws?num_envs=2&autoreset={autoreset}"
    with connect(address, subprotocols=[ARRAYS_SUBPROTOCOL]) as socket:  # type: ignore[list-item]
        yield VectorDialogue(socket)


def legal_of(batch: Any, row: int) -> list[int]:
    column = batch.observation["legal_actions"]
    return list(column[row]) if isinstance(column, list) else np.flatnonzero(column[row]).tolist()


def assert_equal(env: OpenSpielEnvironment, observation: Any, batch: Any, game: str) -> None:
    seen = batch.observation
    np.testing.assert_array_equal(np.array(observation.info_state, dtype=np.float32), seen["info_state"][0], game)
    assert legal_of(batch, 0) == sorted(observation.legal_actions), game
    last = observation.opponent_last_action
    assert seen["opponent_last_action"][0] == (-1 if last is None else last), game
    assert batch.terminated[0] == observation.done, game
    if observation.reward is not None and not np.isnan(batch.reward[0]):
        assert batch.reward[0] == observation.reward, game


def test_every_game_is_the_one_that_a_single_environment_plays() -> None:
    for game in GAMES:
        if game == "add_noise":  # OpenSpiel samples its noise again for each game object
            continue
        env = OpenSpielEnvironment(**choice_of(game, 1))
        vector = OpenSpielVector(env.resolve_choice, 1)
        observation, batch, rng = env.reset(seed=1), vector.reset([0], [{"seed": 1}]), Random(game)
        for _ in range(MAX_STEPS):
            assert_equal(env, observation, batch, game)
            if observation.done:
                break
            action_id = rng.choice(observation.legal_actions)
            observation = env.step(OpenSpielAction(action_id=action_id))
            batch = vector.step([0], {"action_id": [action_id]})


def test_an_opening_that_is_always_the_same_is_read_once() -> None:
    kept = []
    for game in GAMES:
        prepared = prepare_game(GameChoice(**choice_of(game, 0)), make_rng(0))
        reader = make_tensor_reader(prepared)
        if reader.opening is None:
            continue
        kept.append(game)
        for _ in range(3):
            state = prepared.game.new_initial_state()
            reader.read(state, 0)
            assert (state.current_player(), state.legal_actions(), reader.to_bytes()) == (0, *reader.opening), game
    assert {"connect_four", "go", "tic_tac_toe"} < set(kept)
    assert not {"catch", "blackjack", "bridge_uncontested_bidding"} & set(kept)


@pytest.mark.parametrize("game", ["catch", "tic_tac_toe", "blackjack", "goofspiel", "2048", "python_liars_poker"])
def test_the_seed_fixes_the_episodes_after_an_autoreset(game: str) -> None:
    def played(seed: int) -> list[tuple[Any, ...]]:
        vector, rng = OpenSpielEnvironment(game).vectorized(2), Random(0)
        batch = vector.reset([0, 1], [{"seed": seed}, {"seed": seed + 1}])
        seen = []
        for _ in range(60):
            seen.append((batch.observation["info_state"].tobytes(), str(batch.reward), legal_of(batch, 0)))
            batch = vector.step([0, 1], {"action_id": [rng.choice(legal_of(batch, row)) for row in (0, 1)]})
            over = np.flatnonzero(batch.done).tolist()
            if over:
                batch.put(over, vector.autoreset(over))
        return seen

    assert played(5) == played(5)
    assert played(5) != played(6)


def test_an_episode_that_ends_before_the_agent_moves_is_followed_by_another(openspiel_url: str) -> None:
    envs = OpenSpielEnv(openspiel_url).vector(16, autoreset="same_step", options={"game_name": "euchre"})
    observations, infos = envs.reset(seed=0)
    num_over_at_start = 0
    for _ in range(24):
        legal = observations["legal_actions"]
        num_over_at_start += int((~legal.any(axis=1)).sum())
        observations, *_, infos = envs.step(legal.argmax(axis=1))
        assert "errors" not in infos, infos["errors"]
    assert num_over_at_start > 0
    envs.close()


def test_only_stateless_games_step_and_restart_in_one_call() -> None:
    vector = OpenSpielVector(OpenSpielEnvironment("tic_tac_toe").resolve_choice, 1)
    for game, is_stateless in (("tic_tac_toe", True), ("python_tic_tac_toe", False)):
        vector.reset([0], [{"seed": 1, "game_name": game}])
        assert (vector.step_with_autoreset([0], {"action_id": [4]}) is not None) is is_stateless


def test_an_illegal_action_is_an_error_of_its_row_and_the_others_continue(openspiel_url: str) -> None:
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
    with pytest.raises(EnvironmentFault, match=r"info_state: shape \(27,\) is not in the observation space"):
        envs.reset(options={"game_name": "tic_tac_toe"})
    envs.close()


@pytest.mark.parametrize("autoreset", ["next_step", "same_step", "disabled"])
def test_games_without_a_reset_start_with_autoreset_and_fail_without(openspiel_url: str, autoreset: str) -> None:
    with vector_dialogue(openspiel_url, autoreset) as session:
        session.request("reset", {"env_ids": [0], "resets": [{"seed": 1}]})
        played = [session.request("step", {"actions": {"action_id": [1, 1]}}) for _ in range(2)]
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
def test_a_game_of_another_size_fails_to_start_and_the_others_continue(openspiel_url: str, autoreset: str) -> None:
    num_legal, num_ended = [], 0
    with vector_dialogue(openspiel_url, autoreset) as session:
        first = session.request("reset", {"env_ids": [0], "resets": [{"seed": 1, "game_name": "tic_tac_toe"}]})
        legal = first["observation"]["legal_actions"][0]
        for _ in range(12):
            answer = session.request("step", {"actions": {"action_id": [int(legal.argmax()), 1]}})
            assert answer["errors"].keys() == {"1"}
            assert "play one game in a session" in answer["errors"]["1"]["message"]
            legal = answer["observation"]["legal_actions"][0]
            num_legal.append(int(legal.sum()))
            num_ended += bool(answer["terminated"][0])
    assert num_legal[0] == 9 - 2, "the step of the other game was applied and observed"
    assert num_ended >= 2, "the game after the first started too"


def test_the_spaces_are_those_of_the_game(openspiel_url: str) -> None:
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


def test_tree_search_of_a_vector_does_not_delay_other_sessions(openspiel_url: str) -> None:
    options = {"game_name": "tic_tac_toe", "opponent_policy": "mcts"}
    with (
        OpenSpielEnv(openspiel_url).vector(1024, options=options) as slow,
        OpenSpielEnv(openspiel_url) as quick,
        ThreadPoolExecutor(1) as thread,
    ):
        slow.send(np.zeros(1024, dtype=np.int64))
        receiving = thread.submit(slow.recv)
        quick.reset()
        assert not receiving.done(), "the reset returned after the tree search"
        receiving.result()


def test_the_first_step_reports_the_rewards_before_it() -> None:
    env = OpenSpielEnvironment("hanabi", agent_player=1)
    vector = env.vectorized(1)
    first = env.reset(seed=14)
    started = vector.reset([0], [{"seed": 14}])
    stepped = vector.step([0], {"action_id": [first.legal_actions[0]]})

    assert np.isnan(started.reward[0])
    assert stepped.reward[0] == env.step(OpenSpielAction(action_id=first.legal_actions[0])).reward == 2.0
