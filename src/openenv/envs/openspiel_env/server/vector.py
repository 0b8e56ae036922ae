"""Many games stepped in one loop: numbers only, observed straight into the bytes that are sent."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from operator import attrgetter, not_
from typing import Any

import numpy as np
import pyspiel

from openenv.core.env_server.each_in_turn import next_seed
from openenv.core.env_server.vector_environment import Batch, Column, GoneOn, VectorEnvironment, merged
from openenv.core.errors import EnvironmentFault, RequestRefused
from openenv.envs.openspiel_env.models import OpenSpielAction
from openenv.envs.openspiel_env.server.draws import draws_of
from openenv.envs.openspiel_env.server.episode import (
    CHANCE,
    Episode,
    GameChoice,
    Table,
    advance,
    chance_action,
    check_action,
    new_reward,
    play_until_agent,
    set_table,
)
from openenv.envs.openspiel_env.server.opponents import RANDOM
from openenv.envs.openspiel_env.server.spiel import WRITTEN_IN_PYTHON, apply_action, current_player, legal_actions

WIDEST_MASK = 10_000
"""Actions of a game above which its legal ones are lists instead of a mask."""
NO_ACTION = -1
_NOTHING: list[int] = []
_BYTE_VALUES = 256
_FLOATS = np.dtype("<f4")
_view, _legal, _opponents_action = attrgetter("view"), attrgetter("legal"), attrgetter("opponents_action")


class OpenSpielVector(VectorEnvironment):
    """Games of one kind. Equal seeds give the episodes that `OpenSpielEnvironment` plays.

    An observation is `info_state` (32-bit floats), `legal_actions` (a mask over all actions; lists where a game has
    more than WIDEST_MASK of them) and `opponent_last_action` (-1: none, or none that may be seen).
    """

    def __init__(self, choose: Callable[[dict[str, Any]], GameChoice], num_envs: int) -> None:
        """choose: what a reset with those keywords plays."""
        self._choose = choose
        self._seats: list[_Seat | None] = [None] * num_envs
        self._default = set_table(choose({}), draws_of(0))
        self._seen = seen_of(self._default)
        self._num_actions = 0
        self._has_quick_starts = True
        """Whether to begin the next game is nothing that takes long, or may fail."""

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
        self._has_quick_starts = not any(seat is not None and seat.is_changed_by_play for seat in seats)
        most = max(max(seat.legal, default=0) for seat in seats if seat is not None)
        is_wide = self._num_actions > WIDEST_MASK or most >= self._num_actions  # chat_game has more than it says
        self.ragged = frozenset({"legal_actions"}) if is_wide else frozenset()
        return self._batch(self._seated(env_ids), [np.nan] * len(env_ids), errors)

    def begin_next(self, env_ids: Sequence[int]) -> Batch:
        """Their random numbers go on. Who was never reset begins as environments that are stepped in turn do."""
        unbegun = [env_id for env_id in env_ids if self._seats[env_id] is None]
        refused: RequestRefused | None = None
        if unbegun:
            try:
                self.reset(unbegun, [{"seed": next_seed(0)}] * len(unbegun))
            except RequestRefused as error:  # beside games of another size
                if len(unbegun) == len(env_ids):
                    raise
                refused = error
        for seat in self._seated(set(env_ids).difference(unbegun)):
            seat.begin_next()
        rows = [row for row, env_id in enumerate(env_ids) if self._seats[env_id] is not None]
        begun = self._batch(self._seated([env_ids[row] for row in rows]), [np.nan] * len(rows), {})
        if refused is None:
            return begun
        batch = merged(len(env_ids), [(rows, begun)])
        batch.errors = dict.fromkeys(set(range(len(env_ids))).difference(rows), refused)
        return batch

    def step(self, env_ids: Sequence[int], actions: Mapping[str, Any]) -> Batch:
        seats, rewards, errors = self._play(env_ids, actions)
        return self._batch(seats, rewards, errors)

    def step_and_begin_next(self, env_ids: Sequence[int], actions: Mapping[str, Any]) -> GoneOn | None:
        if not self._has_quick_starts:
            return None
        seats, rewards, errors = self._play(env_ids, actions)
        over = _over(seats)
        ended = over.nonzero()[0].tolist()
        last = self._observation([seats[row] for row in ended]) if ended else {}
        for row in ended:
            seats[row].begin_next()
        batch = Batch(self._observation(seats), np.array(rewards), over, np.zeros(len(seats), np.bool_), errors)
        return GoneOn(batch, ended, last, [row for row in ended if not seats[row].legal])

    def _play(
        self, env_ids: Sequence[int], actions: Mapping[str, Any]
    ) -> "tuple[list[_Seat], list[float], dict[int, RequestRefused]]":
        """Take the actions that are legal. Who played, rewards, and errors by row. Raises EnvironmentFault for another
        column."""
        if actions.keys() != {"action_id"}:
            raise EnvironmentFault(f"actions: one column is wanted, action_id, not {', '.join(sorted(actions))}")
        column = actions["action_id"]
        chosen = column.tolist() if isinstance(column, np.ndarray) else column
        seats = self._seated(env_ids)
        rewards: list[float] = []
        errors: dict[int, RequestRefused] = {}
        for seat, action in zip(seats, chosen, strict=True):
            if type(action) is int and action in seat.legal:
                rewards.append(seat.play(action))
            else:
                errors[len(rewards)] = _refusal(seat, action)
                rewards.append(np.nan)
        return seats, rewards, errors

    def _begin(self, request: dict[str, Any]) -> "_Seat":
        seed = request.pop("seed")
        request.pop("episode_id", None)
        if request.pop("reveal_history", False):
            raise ValueError("reveal_history=True: a vector shows numbers only. Leave it out.")
        draws = draws_of(seed)
        table, seen = self._default, self._seen
        if request or table.is_changed_by_play:
            table = set_table(self._choose(request), draws)
            seen = seen_of(table)
        return _Seat(table, table.begin(draws, seed), seen)

    def _batch(self, seats: Sequence["_Seat"], rewards: list[float], errors: dict[int, RequestRefused]) -> Batch:
        over, truncated = _over(seats), np.zeros(len(seats), np.bool_)
        return Batch(self._observation(seats), np.array(rewards), over, truncated, errors)

    def _seated(self, env_ids: Iterable[int]) -> list["_Seat"]:
        """The games of environments that were reset: no others are stepped."""
        return list(map(self._seats.__getitem__, env_ids))  # type: ignore[arg-type]

    def _observation(self, seats: Sequence["_Seat"]) -> dict[str, Column]:
        views, legal = bytearray().join(map(_view, seats)), list(map(_legal, seats))
        return {
            "info_state": np.frombuffer(views, _FLOATS).reshape(len(seats), -1),
            "legal_actions": legal if self.ragged else self._mask(legal),
            "opponent_last_action": np.fromiter(map(_opponents_action, seats), np.int64, len(seats)),
        }

    def _mask(self, legal: Sequence[Sequence[int]]) -> np.ndarray[Any, np.dtype[np.bool_]]:
        width = self._num_actions
        mask = np.zeros(len(legal) * width, dtype=np.bool_)
        if any(legal):
            actions = chain.from_iterable(legal)
            is_narrow = width <= _BYTE_VALUES  # their numbers are collected as bytes, in two thirds of the time
            columns = np.frombuffer(bytes(actions), np.uint8) if is_narrow else np.fromiter(actions, np.intp)
            places = np.arange(0, len(mask), width).repeat(np.fromiter(map(len, legal), np.intp, len(legal)))
            places += columns
            mask[places] = True
        return mask.reshape(len(legal), width)


class _Seat:
    """One game, and what the agent sees of it. Its verbs are the innermost loop: what they need lies at hand, and what
    could be two methods is one."""

    __slots__ = (
        "_agent", "_draws", "_episode", "_is_sequential", "_opening", "_opponents", "_pays_at_the_end", "_set_from",
        "_shows_moves", "_state", "_table", "_to_bytes",
        "is_changed_by_play", "legal", "opponents_action", "view",
    )  # fmt: skip

    def __init__(self, table: Table, episode: Episode, seen: "Seen") -> None:
        self._episode = episode
        self._agent = episode.table.agent
        self._opponents = episode.opponents
        self._draws = episode.draws if set(table.opponents) == {RANDOM} else None
        """Where all other seats play at random: what they draw from, without a call for each move."""
        self.legal: list[int] = []
        """Empty when the game is over."""
        self.view = b""
        self._sit_down(table, seen)

    def _sit_down(self, table: Table, seen: "Seen") -> None:
        self._table = table
        self.is_changed_by_play = table.is_changed_by_play
        """Whether every game at this table needs a table of its own."""
        self._is_sequential, self._pays_at_the_end = table.is_sequential, table.pays_at_the_end
        self._set_from, self._to_bytes, self._shows_moves = seen.set_from, seen.to_bytes, seen.shows_moves
        self._opening = seen.opening
        self._begin()

    def _begin(self) -> None:
        self._state = self._episode.state
        self.opponents_action = NO_ACTION
        if self._opening is None:
            self.play(None)
        else:
            self.legal, self.view = self._opening

    @property
    def num_actions(self) -> int:
        """Actions of the game, legal ones or not."""
        return int(self._table.game.num_distinct_actions())

    def begin_next(self) -> None:
        """Another game at the same table."""
        episode, table = self._episode, self._table
        if self.is_changed_by_play:
            table = set_table(table.choice, episode.draws)
            episode.restart(table)
            self._sit_down(table, seen_of(table))
        else:
            episode.restart(table)
            self._begin()

    def play(self, action: int | None) -> float:
        """Play a legal action, or none to begin with, and all that follows until the next decision, and look; returns
        what the agent gained. As `play_until_agent` where seats move one at a time."""
        agent, state, begins = self._agent, self._state, action is None
        if self._is_sequential:
            if action is not None:
                apply_action(state, action)
            while (player := current_player(state)) != agent:
                if player >= 0:
                    if self._draws is None:
                        action = self._opponents[player](state, player)
                    else:
                        legal = legal_actions(state)
                        action = legal[next(self._draws) % len(legal)]
                    apply_action(state, action)
                    if self._shows_moves:
                        self.opponents_action = action
                elif player == CHANCE:
                    apply_action(state, chance_action(state, self._episode.draws))
                else:
                    self.legal = _NOTHING
                    break
            else:
                self.legal = legal_actions(state)
        else:
            self._play_together(action)
        self._set_from(state, agent)
        self.view = self._to_bytes()
        if begins or (self._pays_at_the_end and self.legal):
            return 0.0  # what was gained before the first decision is told after it
        return new_reward(self._episode)

    def _play_together(self, action: int | None) -> None:
        episode, agent = self._episode, self._agent
        if action is not None:
            advance(episode, action)
        else:
            play_until_agent(episode)
        if self._shows_moves and episode.opponent_last_action is not None:
            self.opponents_action = episode.opponent_last_action
        self.legal = self._state.legal_actions(agent) if episode.phase != "terminal" else _NOTHING

    def check(self, action: int) -> None:
        """Raises ValueError that says why an action may not be taken."""
        check_action(self._episode, OpenSpielAction(action_id=action))


def _over(seats: Sequence[_Seat]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Whose game has ended."""
    return np.frombuffer(bytearray(map(not_, map(_legal, seats))), np.bool_)


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
    opening: tuple[list[int], bytes] | None = None
    """Legal actions and view in which every game begins; None: others move first."""


def seen_of(table: Table) -> Seen:
    """How the games of a table are seen, and what is seen first where that is always the same."""
    seen = _seen_of(table)
    if table.is_changed_by_play or not table.is_sequential:
        return seen
    state, agent = table.game.new_initial_state(), table.agent
    if state.current_player() != agent:
        return seen
    seen.set_from(state, agent)
    return replace(seen, opening=(state.legal_actions(), seen.to_bytes()))


def _seen_of(table: Table) -> Seen:
    """Through OpenSpiel's own buffer where it gives what the view does, else by way of lists."""
    game, view = table.game, table.view
    numbers = np.zeros(_size(game, view.kind), dtype="<f4")

    def set_from(state: Any, seat: int) -> None:
        numbers[:] = view.numbers(state, seat)

    is_listed = view.kind == "string" or game.get_type().short_name.startswith(WRITTEN_IN_PYTHON)
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
