"""Many games of one kind, stepped in one loop. Observations contain numbers only."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from operator import attrgetter, not_
from typing import Any

import numpy as np

from openenv.core.env_server.runner.sync_vector import next_seed
from openenv.core.env_server.vector_environment import AutoresetBatch, Column, VectorBatch, VectorEnvironment, merged
from openenv.core.errors import EnvironmentFault, RequestRefused
from openenv.envs.openspiel_env.server.episode import start_episode
from openenv.envs.openspiel_env.server.prepared_game import GameChoice, prepare_game
from openenv.envs.openspiel_env.server.rng import make_rng
from openenv.envs.openspiel_env.server.sub_environment import SubEnvironment, make_tensor_reader

MAX_MASK_WIDTH = 10_000
"""Number of actions of a game above which the legal ones are sent as lists instead of a mask."""
_BYTE_VALUES = 256
_FLOAT = np.dtype("<f4")
_view, _legal, _opponent_action = attrgetter("view"), attrgetter("legal"), attrgetter("opponent_action")


class OpenSpielVector(VectorEnvironment):
    """Games of one kind. Equal seeds give the episodes that `OpenSpielEnvironment` plays.

    An observation is `info_state` (32-bit floats), `legal_actions` (a mask over all actions; lists where a game has
    more than MAX_MASK_WIDTH of them) and `opponent_last_action` (-1 where there is none or the rules hide it).
    """

    def __init__(self, resolve_choice: Callable[[Mapping[str, Any]], GameChoice], num_envs: int) -> None:
        """resolve_choice: maps reset keywords to what they play, as `OpenSpielEnvironment.resolve_choice` does."""
        self._resolve_choice = resolve_choice
        self._games: list[SubEnvironment | None] = [None] * num_envs
        self._default = prepare_game(resolve_choice({}), make_rng(0))
        self._default_reader = make_tensor_reader(self._default)
        self._num_actions = 0
        self._restarts_inline = True
        """Whether every game can start its next episode quickly and without an error."""

    def action_fields(self) -> dict[str, Any]:
        """`action_id` is below the number of actions of the game."""
        return {"action_id": {"n": self._num_actions}}

    def reset(self, env_ids: Sequence[int], requests: Sequence[Mapping[str, Any]]) -> VectorBatch:
        """Raises EnvironmentFault where a game that was never reset cannot start, or where sizes differ."""
        games, errors = list(self._games), dict[int, RequestRefused]()
        for row, (env_id, request) in enumerate(zip(env_ids, requests, strict=True)):
            try:
                games[env_id] = self._start(dict(request))
            except ValueError as error:
                errors[row] = EnvironmentFault(str(error))
        if errors and any(games[env_id] is None for env_id in env_ids):
            raise next(iter(errors.values()))
        started = [game for game in games if game is not None]
        sizes = {(game.num_actions, len(game.view)) for game in started}
        if len(sizes) > 1:
            raise EnvironmentFault("game_name: games of different sizes do not stack: play one game in a session")
        self._games, self._num_actions = games, next(iter(sizes))[0]
        self._restarts_inline = not any(game.is_stateful for game in started)
        largest = max(max(game.legal, default=0) for game in started)
        # chat_game has larger action numbers than it declares
        is_wide = self._num_actions > MAX_MASK_WIDTH or largest >= self._num_actions
        self.ragged_fields = frozenset({"legal_actions"}) if is_wide else frozenset()
        return self._batch(self._started(env_ids), [np.nan] * len(env_ids), errors)

    def autoreset(self, env_ids: Sequence[int]) -> VectorBatch:
        """Random streams continue. A game that was never reset starts with `next_seed(0)`."""
        never_reset = [env_id for env_id in env_ids if self._games[env_id] is None]
        refused: RequestRefused | None = None
        if never_reset:
            try:
                self.reset(never_reset, [{"seed": next_seed(0)}] * len(never_reset))
            except RequestRefused as error:  # the other games have another size
                if len(never_reset) == len(env_ids):
                    raise
                refused = error
        for game in self._started(set(env_ids).difference(never_reset)):
            game.begin_next()
        rows = [row for row, env_id in enumerate(env_ids) if self._games[env_id] is not None]
        started = self._batch(self._started([env_ids[row] for row in rows]), [np.nan] * len(rows), {})
        if refused is None:
            return started
        batch = merged(len(env_ids), [(rows, started)])
        batch.errors = dict.fromkeys(set(range(len(env_ids))).difference(rows), refused)
        return batch

    def step(self, env_ids: Sequence[int], actions: Mapping[str, Any]) -> VectorBatch:
        """An action that is not legal is an error of its row; the game does not change."""
        return self._batch(*self._play(env_ids, actions))

    def step_with_autoreset(self, env_ids: Sequence[int], actions: Mapping[str, Any]) -> AutoresetBatch | None:
        """Returns None for stateful games, which load a game object for each episode."""
        if not self._restarts_inline:
            return None
        games, rewards, errors = self._play(env_ids, actions)
        done = _done(games)
        ended = done.nonzero()[0].tolist()
        last = self._observation([games[row] for row in ended]) if ended else {}
        for row in ended:
            games[row].begin_next()
        batch = VectorBatch(self._observation(games), np.array(rewards), done, np.zeros(len(games), np.bool_), errors)
        return AutoresetBatch(batch, ended, last, [row for row in ended if not games[row].legal])

    def _play(
        self, env_ids: Sequence[int], actions: Mapping[str, Any]
    ) -> tuple[list[SubEnvironment], list[float], dict[int, RequestRefused]]:
        """Apply the legal actions; return the games, their rewards, and errors by row.

        Raises EnvironmentFault for any column but `action_id`.
        """
        if actions.keys() != {"action_id"}:
            raise EnvironmentFault(f"actions: expected one column, action_id, got {', '.join(sorted(actions))}")
        column = actions["action_id"]
        chosen = column.tolist() if isinstance(column, np.ndarray) else column
        games = self._started(env_ids)
        rewards: list[float] = []
        errors: dict[int, RequestRefused] = {}
        for game, action in zip(games, chosen, strict=True):
            if type(action) is int and action in game.legal:
                rewards.append(game.play(action))
            else:
                errors[len(rewards)] = _refusal(game, action)
                rewards.append(np.nan)
        return games, rewards, errors

    def _start(self, request: dict[str, Any]) -> SubEnvironment:
        seed = request.pop("seed")
        request.pop("episode_id", None)
        if request.pop("reveal_history", False):
            raise ValueError("reveal_history=True: a vector observes numbers only. Leave it out.")
        rng = make_rng(seed)
        prepared, reader = self._default, self._default_reader
        if request or prepared.is_stateful:
            prepared = prepare_game(self._resolve_choice(request), rng)
            reader = make_tensor_reader(prepared)
        return SubEnvironment(start_episode(prepared, rng, seed), reader)

    def _batch(
        self, games: Sequence[SubEnvironment], rewards: list[float], errors: dict[int, RequestRefused]
    ) -> VectorBatch:
        done, truncated = _done(games), np.zeros(len(games), np.bool_)
        return VectorBatch(self._observation(games), np.array(rewards), done, truncated, errors)

    def _started(self, env_ids: Iterable[int]) -> list[SubEnvironment]:
        """Return games that have been reset; the server steps no others."""
        return list(map(self._games.__getitem__, env_ids))  # type: ignore[arg-type]

    def _observation(self, games: Sequence[SubEnvironment]) -> dict[str, Column]:
        views, legal = bytearray().join(map(_view, games)), list(map(_legal, games))
        return {
            "info_state": np.frombuffer(views, _FLOAT).reshape(len(games), -1),
            "legal_actions": legal if self.ragged_fields else self._mask(legal),
            "opponent_last_action": np.fromiter(map(_opponent_action, games), np.int64, len(games)),
        }

    def _mask(self, legal: Sequence[Sequence[int]]) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Return a boolean row for each list of legal actions."""
        width = self._num_actions
        mask = np.zeros(len(legal) * width, dtype=np.bool_)
        if any(legal):
            actions = chain.from_iterable(legal)
            # small action numbers are collected as bytes, in two thirds of the time
            columns = (
                np.frombuffer(bytes(actions), np.uint8) if width <= _BYTE_VALUES else np.fromiter(actions, np.intp)
            )
            indices = np.arange(0, len(mask), width).repeat(np.fromiter(map(len, legal), np.intp, len(legal)))
            indices += columns
            mask[indices] = True
        return mask.reshape(len(legal), width)


def _done(games: Sequence[SubEnvironment]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    return np.frombuffer(bytearray(map(not_, map(_legal, games))), np.bool_)


def _refusal(game: SubEnvironment, action: Any) -> RequestRefused:
    if type(action) is not int:
        return EnvironmentFault(f"action_id={str(action)[:80]}: expected a whole number", refused=True)
    try:
        game.check(action)
    except ValueError as error:
        return EnvironmentFault(str(error), refused=True)
    raise AssertionError(f"{action} is legal")
