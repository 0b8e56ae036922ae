"""Many games stepped in one loop: numbers only, observed straight into the bytes that are sent."""

from collections.abc import Callable, Mapping, Sequence
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

Observe = Callable[[Any, int], bytes]
"""From a state and a seat to the seat's view as 32-bit floats."""


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
        self._observe = observer(self._default)
        self._num_actions = self._default.game.num_distinct_actions()
        self.ragged = frozenset({"legal_actions"}) if self._num_actions > WIDEST_MASK else frozenset()

    def action_fields(self) -> dict[str, Any]:
        return {"action_id": {"n": self._num_actions}}

    def reset(self, env_ids: Sequence[int], requests: Sequence[Mapping[str, Any]]) -> Batch:
        errors: dict[int, RequestRefused] = {}
        for row, (env_id, request) in enumerate(zip(env_ids, requests, strict=True)):
            try:
                self._seats[env_id] = self._begin(dict(request))
            except ValueError as error:
                errors[row] = EnvironmentFault(str(error))
        if len(errors) == len(env_ids):
            raise next(iter(errors.values()))
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
        rewards: list[float] = []
        errors: dict[int, RequestRefused] = {}
        for row, env_id in enumerate(env_ids):
            seat = seats[env_id]
            if seat is not None and chosen[row] in seat.legal:
                rewards.append(seat.play(chosen[row]))
            else:
                rewards.append(np.nan)
                errors[row] = _refusal(seat, chosen[row])
        return self._batch(env_ids, rewards, errors)

    def _begin(self, request: dict[str, Any]) -> "_Seat":
        seed = request.pop("seed")
        request.pop("episode_id", None)
        rng = rng_of(seed)
        table, observe = self._default, self._observe
        if request or table.is_changed_by_play:
            table = set_table(self._choose(request), rng)
            observe = observer(table)
        return _Seat(table, table.begin(rng, seed), observe)

    def _batch(self, env_ids: Sequence[int], rewards: list[float], errors: dict[int, RequestRefused]) -> Batch:
        seats = [seat for env_id in env_ids if (seat := self._seats[env_id]) is not None]
        num_rows = len(seats)
        if num_rows < len(env_ids):
            raise next(iter(errors.values()))
        views = bytearray().join([seat.view for seat in seats])
        if len(views) % num_rows or len({len(seat.view) for seat in seats}) > 1:
            raise EnvironmentFault("info_state: the games have views of different sizes: play one game in a session")
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
        try:
            mask[np.repeat(np.arange(len(seats)), list(map(len, legal))), list(chain.from_iterable(legal))] = True
        except IndexError:
            raise EnvironmentFault(
                "legal_actions: the games have different actions: play one game in a session"
            ) from None
        return mask


class _Seat:
    """One game, and what the agent sees of it."""

    __slots__ = (
        "_agent",
        "_ends_tell",
        "_episode",
        "_is_sequential",
        "_observe",
        "_shows_moves",
        "_table",
        "legal",
        "opponents_action",
        "view",
    )

    def __init__(self, table: Table, episode: Episode, observe: Observe) -> None:
        self._table = table
        self._episode = episode
        self._observe = observe
        self._agent = episode.choice.agent_player
        self._ends_tell, self._is_sequential = table.ends_tell, table.is_sequential
        self._shows_moves = table.view.shows_moves
        self.legal: list[int] = []
        """Empty when the game is over."""
        self.view = b""
        self.opponents_action = NO_ACTION
        self._look()

    def begin_next(self) -> None:
        """Another game at the same table."""
        episode, table = self._episode, self._table
        if table.is_changed_by_play:
            self._table = table = set_table(table.choice, episode.rng)
            self._observe = observer(table)
        episode.restart(table.game)
        self.opponents_action = NO_ACTION
        self._look()

    def play(self, action: int) -> float:
        """Play a legal action and all that follows until the next decision; returns what the agent gained."""
        if self._is_sequential:
            self._episode.state.apply_action(action)
        else:
            apply(self._episode, action)
        self._look()
        return 0.0 if self.legal and self._ends_tell else new_reward(self._episode)

    def _look(self) -> None:
        """Let the others move, and see what there is."""
        episode, agent = self._episode, self._agent
        state = episode.state
        if state.current_player() != agent:
            play_until_agent(episode)
            if self._shows_moves and episode.opponent_last_action is not None:
                self.opponents_action = episode.opponent_last_action
        self.legal = state.legal_actions(agent) if episode.phase != "terminal" else []
        self.view = self._observe(state, agent)

    def check(self, action: int) -> None:
        """Raises ValueError that says why an action may not be taken."""
        check_action(self._episode, OpenSpielAction(action_id=action))


def _refusal(seat: _Seat | None, action: Any) -> RequestRefused:
    if seat is None:
        return EnvironmentFault("step came before reset: there is no game yet. Call reset() first.")
    try:
        seat.check(action)
    except ValueError as error:
        return EnvironmentFault(str(error))
    raise AssertionError(f"{action} is legal")


def observer(table: Table) -> Observe:
    """How a table's games are seen: through OpenSpiel's own buffer where it gives what the view does, else by lists."""
    game, view = table.game, table.view
    if view.kind == "string":
        return lambda state, seat: b""

    def listed(state: Any, seat: int) -> bytes:
        return np.array(view.numbers(state, seat), dtype="<f4").tobytes()

    if game.get_type().short_name.startswith("python_") or not hasattr(pyspiel, "_Observation"):
        return listed
    kind = pyspiel.IIGObservationType(
        public_info=True,
        perfect_recall=view.kind == "information_state_tensor",
        private_info=pyspiel.PrivateInfoType.SINGLE_PLAYER,
    )
    try:
        buffer = pyspiel._Observation(game, game.make_observer(kind, {}))
    except (pyspiel.SpielError, RuntimeError, TypeError):
        return listed
    shown = memoryview(buffer)
    set_from, to_bytes = buffer.set_from, shown.tobytes

    def observe(state: Any, seat: int) -> bytes:
        set_from(state, seat)
        return to_bytes()

    return observe
