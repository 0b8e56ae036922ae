"""Every game that OpenSpiel loads, through one real server: three random episodes each, and each of them twice."""

import hashlib
from collections import deque
from pathlib import Path
from random import Random
from typing import Any

import pytest

from openenv.core.containers.local_process import LocalServer
from openenv.core.errors import EnvironmentFault
from openenv.core.vector import SessionPool
from openenv.envs.openspiel_env import OpenSpielAction, OpenSpielEnv, OpenSpielText
from openenv.envs.openspiel_env.models import OpenSpielObservation
from openenv.envs.openspiel_env.server.environment import OpenSpielEnvironment
from openenv.envs.openspiel_env.server.games import game_types, load
from tests.envs.openspiel_env.conftest import SERVER_MODULE

SEEDS = range(3)
MAX_STEPS = 3000
"""No game needs it: the longest of these episodes are those of laser_tag, which always ends after 1,000 moves."""

REFUSED = {"crossword", "mfg_crowd_modelling", "mfg_crowd_modelling_2d", "mfg_dynamic_routing", "mfg_garnet"}
"""Mean-field games, and one whose moves have no numbers."""

NEED_PARAMS: dict[str, dict[str, Any]] = {
    "add_noise": {"game": {"name": "kuhn_poker"}, "epsilon": 1, "seed": 3},
    "cached_tree": {"game": {"name": "kuhn_poker"}},
    "coop_to_1p": {"game": {"name": "tiny_hanabi"}},
    "misere": {"game": {"name": "tic_tac_toe"}},
    "normal_form_extensive_game": {"game": {"name": "kuhn_poker"}},
    "repeated_game": {"stage_game": {"name": "matrix_pd"}, "num_repetitions": 3},
    "repeated_poker": {
        "max_num_hands": 3,
        "reset_stacks": True,
        "universal_poker_game_string": {"name": "universal_poker"},
    },
    "restricted_nash_response": {"game": {"name": "kuhn_poker"}},
    "start_at": {"game": {"name": "tic_tac_toe"}, "history": "0;1"},
    "turn_based_simultaneous_game": {"game": {"name": "goofspiel"}},
    "zerosum": {"game": {"name": "matrix_pd"}},
}
NEED_A_FILE = {
    "efg_game": 'EFG 2 R "Guess" { "A" "B" }\np "" 1 1 "" { "l" "r" } 0\np "" 2 1 "" { "L" "R" } 0\n'
    't "" 1 "" { 1 -1 }\nt "" 2 "" { -1 1 }\np "" 2 1 "" { "L" "R" } 0\nt "" 3 "" { -1 1 }\nt "" 4 "" { 1 -1 }\n',
    "nfg_game": 'NFG 1 R "Pennies" { "A" "B" } { 2 2 }\n1 -1 -1 1 -1 1 1 -1\n',
}
GAMES = sorted(set(game_types()) - REFUSED - set(NEED_A_FILE))

Episode = tuple[str, int]
"""A game and a seed; the agent's seat goes around with the seed."""


def _reset_kwargs(game: str, seed: int) -> dict[str, Any]:
    params = NEED_PARAMS.get(game, {})
    return {
        "seed": seed,
        "game_name": game,
        "game_params": params,
        "agent_player": seed % load(game, params).num_players(),
    }


class _Playing:
    """An episode, played at random, and the digest of all that it has shown."""

    def __init__(self, episode: Episode) -> None:
        self.episode = episode
        self.digest = hashlib.sha256()
        self.next_action: OpenSpielAction | None = None
        self._rng = Random(str(episode))
        self._text = OpenSpielText()
        self._num_seen = 0

    def see(self, result: Any) -> None:
        """Take in a result and choose the next action: None at the end."""
        assert not isinstance(result, Exception), f"{self.episode}: {result}"
        self._num_seen += 1
        assert self._num_seen <= MAX_STEPS, self.episode
        observation = result.observation
        self.digest.update(observation.model_dump_json().encode())
        replies = self._text.replies(observation)
        assert [action.action_id for action in replies.values()] == observation.legal_actions
        assert self._text.describe(observation) or not observation.legal_actions
        action_id = None if observation.done else self._rng.choice(observation.legal_actions)
        self.next_action = None if action_id is None else OpenSpielAction(action_id=action_id)


async def _digests(pool: SessionPool[Any, Any], episodes: list[Episode]) -> dict[Episode, str]:
    """Plays every episode; each session takes the next one as soon as its own is over."""
    waiting, running, ended = deque(episodes), dict[int, _Playing](), list[_Playing]()
    while waiting or running:
        free = [session for session in range(len(pool)) if session not in running]
        starting = {session: _Playing(waiting.popleft()) for session in free[: len(waiting)]}
        running |= starting
        results = await pool.reset({session: _reset_kwargs(*new.episode) for session, new in starting.items()})
        results |= await pool.step({s: p.next_action for s, p in running.items() if p.next_action})
        for session, result in results.items():
            running[session].see(result)
        ended += [playing for playing in running.values() if playing.next_action is None]
        running = {session: playing for session, playing in running.items() if playing.next_action}
    return {playing.episode: playing.digest.hexdigest() for playing in ended}


async def test_all_loadable_games_play_three_episodes_that_equal_seeds_repeat(openspiel_url: str) -> None:
    """First in one session, one after another; then in another order in 64 sessions at the same time."""
    episodes = [(game, seed) for game in GAMES for seed in SEEDS]
    async with SessionPool(OpenSpielEnv, openspiel_url, 1) as pool:
        alone = await _digests(pool, episodes)
    Random(0).shuffle(episodes)
    async with SessionPool(OpenSpielEnv, openspiel_url, 64, may_share=False) as pool:
        beside_others = await _digests(pool, episodes)

    assert len(GAMES) == 129
    assert len(alone) == 3 * len(GAMES)
    assert {episode for episode in episodes if alone[episode] != beside_others[episode]} == set()


def test_observations_that_nobody_checks_are_of_the_declared_types() -> None:
    env, rng = OpenSpielEnvironment(), Random(0)
    for game in GAMES:
        observation = env.reset(**_reset_kwargs(game, 0))
        for _ in range(3):
            assert OpenSpielObservation.model_validate(vars(observation), strict=True) == observation, game
            if observation.done:
                break
            observation = env.step(OpenSpielAction(action_id=rng.choice(observation.legal_actions)))


@pytest.mark.parametrize("game", NEED_A_FILE)
async def test_games_read_from_a_file_play_where_the_server_was_started_with_it(game: str, tmp_path: Path) -> None:
    path = tmp_path / "game.txt"
    path.write_text(NEED_A_FILE[game])
    params = f'{{"filename": "{path}"}}'
    with (
        LocalServer(SERVER_MODULE, ["--game", game, "--game-params", params]) as server,
        OpenSpielEnv(base_url=server.base_url) as env,
    ):
        for seed in SEEDS:
            result = env.reset(seed=seed)
            while not result.done:
                result = env.step(OpenSpielAction(action_id=result.observation.legal_actions[0]))
            assert result.reward in (1.0, -1.0)


async def test_games_that_cannot_be_played_are_refused_with_the_reason(openspiel_url: str) -> None:
    async with SessionPool(OpenSpielEnv, openspiel_url, len(REFUSED)) as pool:
        results = await pool.reset({i: {"game_name": game} for i, game in enumerate(sorted(REFUSED))})

    assert all(isinstance(result, EnvironmentFault) for result in results.values())
    assert all("mean-field" in str(result) or "no numbered actions" in str(result) for result in results.values())


@pytest.mark.parametrize("num_sessions", [64])
async def test_one_seed_gives_one_game_in_all_sessions_at_once(openspiel_url: str, num_sessions: int) -> None:
    async with SessionPool(OpenSpielEnv, openspiel_url, num_sessions, may_share=False) as pool:
        same = {session: {"seed": 7, "game_name": "backgammon"} for session in range(num_sessions)}
        results = await pool.reset(same)
        for _ in range(20):
            action = OpenSpielAction(action_id=results[0].observation.legal_actions[0])  # type: ignore[union-attr]
            results = await pool.step(dict.fromkeys(range(num_sessions), action))
            assert len({r.observation.model_dump_json() for r in results.values()}) == 1  # type: ignore[union-attr]
