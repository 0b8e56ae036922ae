"""What a seat sees at its first decision, remembered: the games of one kind begin in few ways, or in one."""

import functools
import json
from collections.abc import Mapping
from typing import Any

from openenv.envs.openspiel_env.server.games import MAX_CACHED_GAMES, load
from openenv.envs.openspiel_env.server.views import Sight, look, view_of

_MOST_REMEMBERED = 1 << 14
"""Of one game: numbers, and what is about as large as so many of them."""


class Openings:
    """Those of one game from one seat, by the moves before."""

    def __init__(self, game: Any, seat: int) -> None:
        """game: one that play does not change."""
        self._view = view_of(game, seat)
        self._known: dict[tuple[int, ...], Sight] = {}
        self._size = 0

    def look(self, state: Any) -> Sight:
        """What the seat sees. The lists are the caller's own."""
        history = tuple(state.history())
        known = self._known.get(history)
        if known is None:
            known = look(self._view, state, is_over=state.is_terminal())
            self._remember(history, known)
        legal, names, words, numbers = known
        return legal.copy(), names.copy(), words, numbers.copy()

    def _remember(self, history: tuple[int, ...], sight: Sight) -> None:
        legal, _, words, numbers = sight
        size = 32 + len(history) + 8 * len(legal) + len(words) // 8 + len(numbers)
        if self._size + size <= _MOST_REMEMBERED:
            self._size += size
            self._known[history] = sight


def openings_of(game_name: str, game_params: Mapping[str, Any], seat: int) -> Openings:
    """Those that all sessions of this process share."""
    return _openings_of(game_name, json.dumps(dict(game_params), sort_keys=True), seat)


@functools.lru_cache(maxsize=MAX_CACHED_GAMES)
def _openings_of(game_name: str, params_json: str, seat: int) -> Openings:
    return Openings(load(game_name, json.loads(params_json)), seat)
