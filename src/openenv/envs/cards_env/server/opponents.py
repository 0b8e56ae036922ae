"""The seats that the agent does not play: at random, or by RLCard's rule model of the game."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from random import Random
from typing import Any

import numpy as np

from openenv.envs.cards_env.server.games import GAMES, raw_word

RANDOM, RULE = "random", "rule"

Opponent = Callable[[Any, dict[str, Any], int], int]
"""Maps RLCard's environment, the state of the seat to act, and the seat, to the number of an action."""

_GLOBAL_NUMPY = threading.Lock()
"""Held while RLCard's rules draw from numpy's global random numbers."""


def policies_of(game: str) -> list[str]:
    """The policies that the other seats of a game can play by."""
    return [RANDOM] if GAMES[game].rule_model is None else [RANDOM, RULE]


def make_opponent(game: str, policy: str, rng: Random) -> Opponent:
    """A policy for all other seats, which takes its random numbers from `rng`."""

    def at_random(env: Any, state: dict[str, Any], seat: int) -> int:
        action_id: int = rng.choice(sorted(state["legal_actions"]))
        return action_id

    if policy == RANDOM:
        return at_random
    agents = _rule_agents(str(GAMES[game].rule_model))

    def by_rule(env: Any, state: dict[str, Any], seat: int) -> int:
        legal: list[int] = sorted(state["legal_actions"])
        with _seeded_numpy(rng.getrandbits(32)):
            chosen = agents[seat % len(agents)].step(_ordered(state))
        named = chosen if isinstance(chosen, str) else raw_word(env, int(chosen))
        played: int = next((action_id for action_id in legal if raw_word(env, action_id) == named), legal[0])
        return played

    return by_rule


@lru_cache
def _rule_agents(model: str) -> list[Any]:
    from rlcard import models  # takes seconds: it loads torch where that is installed

    return list(models.load(model).agents)


def _ordered(state: dict[str, Any]) -> dict[str, Any]:
    """A state whose lists of actions have the same order in every process: Dou Dizhu takes them from a set."""
    ordered = {**state, "raw_legal_actions": sorted(state["raw_legal_actions"])}
    if isinstance(state["raw_obs"], dict) and "actions" in state["raw_obs"]:
        ordered["raw_obs"] = {**state["raw_obs"], "actions": sorted(state["raw_obs"]["actions"])}
    return ordered


@contextmanager
def _seeded_numpy(seed: int) -> Iterator[None]:
    """Seed numpy's global random numbers for a moment; they are as before afterwards."""
    with _GLOBAL_NUMPY:
        before = np.random.get_state()
        np.random.seed(seed)
        try:
            yield
        finally:
            np.random.set_state(before)


def tasks() -> Mapping[str, Mapping[str, Any]]:
    """The reset keywords of each game from each seat, and of each game against RLCard's rules."""
    by_seat = {
        f"{game}/seat-{seat}": {"game": game, "agent_player": seat}
        for game, known in GAMES.items()
        for seat in range(known.num_players)
    }
    by_rule = {f"{game}/rule": {"game": game, "opponent_policy": RULE} for game in GAMES if RULE in policies_of(game)}
    six = {f"{game}/six-seats": {"game": game, "num_players": 6} for game, known in GAMES.items() if known.most_players}
    return {**by_seat, **by_rule, **six}
