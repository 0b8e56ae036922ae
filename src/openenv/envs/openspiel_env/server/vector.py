"""Many games stepped in one loop: numbers only, observed straight into the bytes that are sent."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pyspiel

from openenv.core.env_server.vector_environment import Batch, VectorEnvironment
from openenv.core.errors import EnvironmentFault, RequestRefused
from openenv.envs.openspiel_env.models import OpenSpielAction
from openenv.envs.openspiel_env.server.episode import (
    Episode,
    GameChoice,
    Table,
    apply,
    check_action,
    new_reward,
    play_until_agent,
    rng_of,
    set_table,
)

WIDEST_MASK = 10_000
"""Actions of a game above which its legal ones are lists instead of a mask."""
NO_ACTION = -1


class OpenSpielVector(VectorEnvironment):
    """Games of one kind. Equal seeds give the episodes that `OpenSpielEnvironment` plays.

    An observation is `info_state` (32-bit floats), `legal_actions` (a mask over all actions; lists where a game has
    more than WIDEST_MASK of them) and `opponent_last_action` (-1: none, or none that may be seen).
    """

    def __init__(self, choose: Callable[[dict[str, Any]], GameChoice], num_envs: int) -> None:
        """choose: what a reset with those keywords plays."""
        self._choose = choose
        self._seats: list[_Seat | None] = [None] * num_envs
        self._default = set_table(choose({}), rng_of(0))
        self._seen = seen_of(self._default)
        self._num_actions = 0

    def action_fields(self) -> dict[str, Any]:
        return {"action_id": {"n": self._num_actions}}

    def reset(self, env_ids: Sequence[int], requests: Sequence[Mapping[str, Any]]) -> Batch:
        seats, errors = list(self._seats), dict[int, RequestRefused]()
        for row, (env_id, request) in enumerate(zip(env_ids, requests, strict=True)):
            try:
                seats[env_id] = self._begin(dict(request))
            except ValueError as error:
                errors[row] = EnvironmentFault(str(error))
        if errors and any(seats[env_id] is None for env_id in env_ids):
            raise next(iter(errors.values()))
        sizes = {(seat.num_actions, len(seat.view)) for seat in seats if seat is not None}
        if len(sizes) > 1:
            raise EnvironmentFault("game_name: games of different sizes do not stack: play one game in a session")
        self._seats, self._num_actions = seats, next(iter(sizes))[0]
        most = max(max(seat.legal, default=0) for seat in seats if seat is not None)
        is_wide = self._num_actions > WIDEST_MASK or most >= self._num_actions  # chat_game has more than it says
        self.ragged = frozenset({"legal_actions"}) if is_wide else frozenset()
        return self._batch(env_ids, [np.nan] * len(env_ids), errors)

    def begin_next(self, env_ids: Sequence[int]) -> Batch:
        """Their random numbers go on: a seed is spread over the whole generator only once."""
        for env_id in env_ids:
            seat = self._seats[env_id]
            if seat is not None:
                seat.begin_next()
        return self._batch(env_ids, [np.nan] * len(env_ids), {})

    def step(self, env_ids: Sequence[int], actions: Mapping[str, Any]) -> Batch:
        if actions.keys() != {"action_id"}:
            raise EnvironmentFault(f"actions: one column is wanted, action_id, not {', '.join(sorted(actions))}")
        column = actions["action_id"]
        chosen = column.tolist() if isinstance(column, np.ndarray) else column
        seats = self._seats
        unbegun = [env_id for env_id in env_ids if seats[env_id] is None]
        if unbegun:
            raise EnvironmentFault(f"step came before reset: environments {unbegun[:10]} have no game yet")
        rewards: list[float] = []
        errors: dict[int, RequestRefused] = {}
        for env_id, action in zip(env_ids, chosen, strict=True):
            seat = seats[env_id]
            assert seat is not None, "it was looked at above"
            if type(action) is int and action in seat.legal:
                rewards.append(seat.play(action))
            else:
                errors[len(rewards)] = _refusal(seat, action)
                rewards.append(np.nan)
        return self._batch(env_ids, rewards, errors)

    def _begin(self, request: dict[str, Any]) -> "_Seat":
        seed = request.pop("seed")
        request.pop("episode_id", None)
        if request.pop("reveal_history", False):
            raise ValueError("reveal_history=True: a vector shows numbers only. Leave it out.")
        rng = rng_of(seed)
        table, seen = self._default, self._seen
        if request or table.is_changed_by_play:
            table = set_table(self._choose(request), rng)
            seen = seen_of(table)
        return _Seat(table, table.begin(rng, seed), seen)

    def _batch(self, env_ids: Sequence[int], rewards: list[float], errors: dict[int, RequestRefused]) -> Batch:
        seats = [seat for env_id in env_ids if (seat := self._seats[env_id]) is not None]
        num_rows = len(seats)
        views = bytearray().join([seat.view for seat in seats])
        over = np.array([not seat.legal for seat in seats], dtype=np.bool_)
        observation: dict[str, Any] = {
            "info_state": np.frombuffer(views, np.dtype("<f4")).reshape(num_rows, -1),
            "legal_actions": [seat.legal for seat in seats] if self.ragged else self._mask(seats),
            "opponent_last_action": np.array([seat.opponents_action for seat in seats], dtype=np.int64),
        }
        return Batch(observation, np.array(rewards), over, np.zeros(num_rows, dtype=np.bool_), errors)

    def _mask(self, seats: Sequence["_Seat"]) -> np.ndarray[Any, np.dtype[np.bool_]]:
        legal = [seat.legal for seat in seats]
        mask = np.zeros((len(seats), self._num_actions), dtype=np.bool_)
        counts = list(map(len, legal))
        columns = np.fromiter(chain.from_iterable(legal), np.intp, sum(counts))
        mask[np.repeat(np.arange(len(seats)), counts), columns] = True
        return mask


class _Seat:
    """One game, and what the agent sees of it. Its verbs are the innermost loop: what they need lies at hand."""

    __slots__ = (
        "_agent", "_episode", "_seen", "_state", "_table",
        "legal", "opponents_action", "view",
    )  # fmt: skip

    def __init__(self, table: Table, episode: Episode, seen: "Seen") -> None:
        self._table, self._episode, self._seen = table, episode, seen
        self._agent = episode.choice.agent_player
        self.legal: list[int] = []
        """Empty when the game is over."""
        self.view = b""
        self.opponents_action = NO_ACTION
        self._state = episode.state
        self._look()

    @property
    def num_actions(self) -> int:
        """Actions of the game, legal ones or not."""
        return int(self._table.game.num_distinct_actions())

    def begin_next(self) -> None:
        """Another game at the same table."""
        episode, table = self._episode, self._table
        if table.is_changed_by_play:
            self._table = table = set_table(table.choice, episode.rng)
            self._seen = seen_of(table)
        episode.restart(table.game)
        self.opponents_action = NO_ACTION
        self._state = episode.state
        self._look()

    def play(self, action: int) -> float:
        """Play a legal action and all that follows until the next decision; returns what the agent gained."""
        episode, state = self._episode, self._state
        if self._table.is_sequential:
            state.apply_action(action)
        else:
            apply(episode, action)
        self._look()
        return 0.0 if state.returns()[self._agent] == episode.total_reward else new_reward(episode)

    def _look(self) -> None:
        """Let the others move, and see what there is."""
        agent, state, seen = self._agent, self._state, self._seen
        episode = self._episode
        play_until_agent(episode)
        if seen.shows_moves and episode.opponent_last_action is not None:
            self.opponents_action = episode.opponent_last_action
        self.legal = state.legal_actions(agent) if episode.phase != "terminal" else []
        seen.set_from(state, agent)
        self.view = seen.to_bytes()

    def check(self, action: int) -> None:
        """Raises ValueError that says why an action may not be taken."""
        check_action(self._episode, OpenSpielAction(action_id=action))


def _refusal(seat: _Seat, action: Any) -> RequestRefused:
    if type(action) is not int:
        return EnvironmentFault(f"action_id={str(action)[:80]}: a whole number is wanted")
    try:
        seat.check(action)
    except ValueError as error:
        return EnvironmentFault(str(error))
    raise AssertionError(f"{action} is legal")


@dataclass(frozen=True, slots=True)
class Seen:
    """How the games of a table are seen."""

    set_from: Callable[[Any, int], None]
    """Looks at a state from a seat."""
    to_bytes: Callable[[], bytes]
    """What was seen last, as 32-bit floats."""
    shows_moves: bool


def seen_of(table: Table) -> Seen:
    """Through OpenSpiel's own buffer where it gives what the view does, else by way of lists."""
    game, view = table.game, table.view
    numbers = np.zeros(_size(game, view.kind), dtype="<f4")

    def set_from(state: Any, seat: int) -> None:
        numbers[:] = view.numbers(state, seat)

    is_listed = view.kind == "string" or game.get_type().short_name.startswith("python_")
    if is_listed or table.is_changed_by_play:  # to make an observer draws from what such a game has inside
        return Seen(set_from, numbers.tobytes, view.shows_moves)
    kind = pyspiel.IIGObservationType(
        public_info=True,
        perfect_recall=view.kind == "information_state_tensor",
        private_info=pyspiel.PrivateInfoType.SINGLE_PLAYER,
    )
    try:
        buffer = pyspiel._Observation(game, game.make_observer(kind, {}))
    except (pyspiel.SpielError, RuntimeError, TypeError):
        return Seen(set_from, numbers.tobytes, view.shows_moves)
    return Seen(buffer.set_from, memoryview(buffer).tobytes, view.shows_moves)


def _size(game: Any, kind: str) -> int:
    if kind == "string":
        return 0
    is_whole = kind == "information_state_tensor"
    return int(game.information_state_tensor_size() if is_whole else game.observation_tensor_size())
