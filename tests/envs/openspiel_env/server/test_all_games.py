"""Every game that OpenSpiel loads plays equal random episodes in this process and on a busy server."""

import hashlib
from collections import deque
from pathlib import Path
from random import Random
from typing import Any

import pytest

from openenv.core.errors import EnvironmentFault
from openenv.core.session_pool import SessionPool
from openenv.envs.openspiel_env import OpenSpielAction, OpenSpielEnv, OpenSpielText
from openenv.envs.openspiel_env.models import OpenSpielObservation
from openenv.envs.openspiel_env.server.environment import OpenSpielEnvironment
from openenv.envs.openspiel_env.server.games import game_types
from openenv.hosting.local_process import LocalServer
from tests.envs.openspiel_env.conftest import SERVER_MODULE
from tests.envs.openspiel_env.playing import GAMES, NEED_A_FILE, REFUSED, choice_of

pytestmark = pytest.mark.process

SEEDS = range(3)
MAX_STEPS = 3000
"""An upper bound: laser_tag has the longest of these episodes and always ends after 1,000 moves."""
NUM_STRICT = 4
"""The number of an episode's observations whose types are checked."""
SLOW_TO_SCORE = "bridge_uncontested_bidding"
"""Takes up to 4 seconds at the end of each game, and is played once."""
DIFFERS_BY_PROCESS = "add_noise"
"""OpenSpiel samples its noise differently in each process, even for an equal seed."""

Episode = tuple[str, int]
"""A game and a seed."""


class RandomPlayer:
    """Plays one episode at random and computes the digest of all observations."""

    def __init__(self, episode: Episode) -> None:
        self.episode = episode
        self.digest = hashlib.sha256()
        self.next_action: OpenSpielAction | None = None
        self._rng = Random(str(episode))
        self._text = OpenSpielText()
        self._num_seen = 0

    def see(self, observation: OpenSpielObservation) -> None:
        """Add an observation and choose the next action: None at the end."""
        self._num_seen += 1
        assert self._num_seen <= MAX_STEPS, self.episode
        self.digest.update(observation.model_dump_json().encode())
        replies = self._text.replies(observation)
        assert [action.action_id for action in replies.values()] == observation.legal_actions
        assert self._text.describe(observation) or not observation.legal_actions
        action_id = None if observation.done else self._rng.choice(observation.legal_actions)
        self.next_action = None if action_id is None else OpenSpielAction(action_id=action_id)


def digest_in_this_process(game: str, seed: int) -> str:
    """Play an episode without a server; the first observations have exactly the declared types."""
    player = RandomPlayer((game, seed))
    env = OpenSpielEnvironment(**choice_of(game, seed))
    observation = env.reset(seed=seed)
    if env.success_return is not None:
        observation.metadata["success_return"] = env.success_return  # as a server does
    for number in range(MAX_STEPS):
        if number < NUM_STRICT:
            assert OpenSpielObservation.model_validate(vars(observation), strict=True) == observation, game
        player.see(observation)
        if player.next_action is None:
            break
        observation = env.step(player.next_action)
    return player.digest.hexdigest()


async def digests_on_server(pool: SessionPool[Any, Any], episodes: list[Episode]) -> dict[Episode, str]:
    """Play every episode. A session starts the next one as soon as its own has ended."""
    waiting, running, ended = deque(episodes), dict[int, RandomPlayer](), list[RandomPlayer]()
    while waiting or running:
        free = [session for session in range(len(pool)) if session not in running]
        starting = {session: RandomPlayer(waiting.popleft()) for session in free[: len(waiting)]}
        running |= starting
        results = await pool.reset({session: reset_kwargs(new.episode) for session, new in starting.items()})
        results |= await pool.step({s: p.next_action for s, p in running.items() if p.next_action})
        for session, result in results.items():
            assert not isinstance(result, Exception), f"{running[session].episode}: {result}"
            running[session].see(result.observation)
        ended += [player for player in running.values() if player.next_action is None]
        running = {session: player for session, player in running.items() if player.next_action}
    return {player.episode: player.digest.hexdigest() for player in ended}


def reset_kwargs(episode: Episode) -> dict[str, Any]:
    game, seed = episode
    return {"seed": seed, **choice_of(game, seed)}


async def test_all_loadable_games_play_three_equal_episodes_alone_and_beside_sixty_three_others(
    openspiel_url: str,
) -> None:
    episodes = [(game, seed) for game in GAMES for seed in SEEDS if game != SLOW_TO_SCORE or seed == 0]
    alone = {episode: digest_in_this_process(*episode) for episode in episodes if episode[0] != DIFFERS_BY_PROCESS}
    async with SessionPool(OpenSpielEnv, openspiel_url, 1) as pool:
        alone |= await digests_on_server(pool, [episode for episode in episodes if episode not in alone])
    Random(0).shuffle(episodes)
    async with SessionPool(OpenSpielEnv, openspiel_url, 64, may_share=False) as pool:
        beside_others = await digests_on_server(pool, episodes)

    assert len(GAMES) == 129
    assert len(alone) == 3 * len(GAMES) - 2
    assert {episode for episode in episodes if alone[episode] != beside_others[episode]} == set()


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


def test_every_registered_game_is_a_task_unless_it_needs_a_file_or_cannot_be_played() -> None:
    assert set(GAMES) == set(game_types()) - REFUSED - set(NEED_A_FILE)


async def test_games_that_cannot_be_played_are_refused_with_the_reason(openspiel_url: str) -> None:
    async with SessionPool(OpenSpielEnv, openspiel_url, len(REFUSED)) as pool:
        results = await pool.reset({i: {"game_name": game} for i, game in enumerate(sorted(REFUSED))})

    assert all(isinstance(result, EnvironmentFault) for result in results.values())
    assert all("mean-field" in str(result) or "no numbered actions" in str(result) for result in results.values())


async def test_one_seed_gives_one_game_in_all_sessions_at_once(openspiel_url: str) -> None:
    sessions = range(64)
    async with SessionPool(OpenSpielEnv, openspiel_url, len(sessions), may_share=False) as pool:
        results = await pool.reset({session: {"seed": 7, "game_name": "backgammon"} for session in sessions})
        for _ in range(20):
            action = OpenSpielAction(action_id=results[0].observation.legal_actions[0])  # type: ignore[union-attr]
            results = await pool.step(dict.fromkeys(sessions, action))
            assert len({r.observation.model_dump_json() for r in results.values()}) == 1  # type: ignore[union-attr]
