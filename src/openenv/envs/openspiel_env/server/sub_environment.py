"""One game of a vector, observed straight into the bytes that the server sends."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyspiel

from openenv.envs.openspiel_env.models import OpenSpielAction
from openenv.envs.openspiel_env.server.episode import (
    CHANCE,
    Episode,
    advance,
    check_action,
    collect_reward,
    play_until_agent,
    sample_chance,
)
from openenv.envs.openspiel_env.server.games import PYTHON_GAME_PREFIX, apply_action, current_player, legal_actions
from openenv.envs.openspiel_env.server.opponents import RANDOM
from openenv.envs.openspiel_env.server.prepared_game import PreparedGame, prepare_game

NO_ACTION = -1
_NO_ACTIONS: list[int] = []


@dataclass(frozen=True, slots=True)
class TensorReader:
    """Reads the agent's view of a state as bytes. All games of one kind share a reader."""

    read: Callable[[Any, int], None]
    """Writes what a seat sees of a state into the buffer."""
    to_bytes: Callable[[], bytes]
    """Returns the buffer as little-endian 32-bit floats."""
    shows_moves: bool
    """Whether the agent sees the other seats' actions."""
    opening: tuple[list[int], bytes] | None = None
    """Legal actions and view of every first decision; None where chance or another seat moves first."""


def make_tensor_reader(prepared: PreparedGame) -> TensorReader:
    """Return the reader of a game, with the first observation where that is always the same."""
    reader = _make_reader(prepared)
    if prepared.is_stateful or not prepared.is_sequential:
        return reader
    state, agent = prepared.game.new_initial_state(), prepared.agent
    if state.current_player() != agent:
        return reader
    reader.read(state, agent)
    return replace(reader, opening=(state.legal_actions(), reader.to_bytes()))


def _make_reader(prepared: PreparedGame) -> TensorReader:
    """Use OpenSpiel's own buffer where it holds what the view returns, else copy the view's list into an array."""
    game, view = prepared.game, prepared.view
    numbers = np.zeros(_tensor_size(game, view.kind), dtype="<f4")

    def read(state: Any, seat: int) -> None:
        numbers[:] = view.tensor(state, seat)

    copies = TensorReader(read, numbers.tobytes, view.shows_moves)
    is_python_game = game.get_type().short_name.startswith(PYTHON_GAME_PREFIX)
    if view.kind == "string" or is_python_game or prepared.is_stateful:  # making an observer draws from stateful games
        return copies
    kind = pyspiel.IIGObservationType(
        public_info=True,
        perfect_recall=view.kind == "information_state_tensor",
        private_info=pyspiel.PrivateInfoType.SINGLE_PLAYER,
    )
    try:
        buffer = pyspiel._Observation(game, game.make_observer(kind, {}))
    except (pyspiel.SpielError, RuntimeError, TypeError):
        return copies
    return TensorReader(buffer.set_from, memoryview(buffer).tobytes, view.shows_moves)


def _tensor_size(game: Any, kind: str) -> int:
    if kind == "string":
        return 0
    is_information_state = kind == "information_state_tensor"
    return int(game.information_state_tensor_size() if is_information_state else game.observation_tensor_size())


class SubEnvironment:
    """One game of a vector, and what the agent observes of it.

    `play` is the innermost loop of a vector step. For its sake the attributes of the episode and the reader are copied
    here, and it repeats `play_until_agent`.
    """

    __slots__ = (
        "_agent", "_episode", "_is_sequential", "_opening", "_opponents", "_prepared", "_random_moves", "_read",
        "_rewards_only_at_end", "_shows_moves", "_state", "_to_bytes",
        "is_stateful", "legal", "opponent_action", "view",
    )  # fmt: skip

    def __init__(self, episode: Episode, reader: TensorReader) -> None:
        """Play the episode up to the agent's first decision."""
        prepared = episode.prepared
        self._episode = episode
        self._agent = prepared.agent
        self._opponents = episode.opponents
        self._random_moves = episode.rng if set(prepared.opponents) == {RANDOM} else None
        """Random numbers where all other seats play at random: their moves then need no call of a policy."""
        self.legal: list[int] = []
        """The agent's legal actions; empty when the game is over."""
        self.view = b""
        """The agent's view as bytes."""
        self._use(prepared, reader)
        self._start()

    def _use(self, prepared: PreparedGame, reader: TensorReader) -> None:
        self._prepared = prepared
        self.is_stateful = prepared.is_stateful
        self._is_sequential, self._rewards_only_at_end = prepared.is_sequential, prepared.rewards_only_at_end
        self._read, self._to_bytes, self._shows_moves = reader.read, reader.to_bytes, reader.shows_moves
        self._opening = reader.opening

    def _start(self) -> None:
        self._state = self._episode.state
        self.opponent_action = NO_ACTION
        if self._opening is None:
            self.play(None)
        else:
            self.legal, self.view = self._opening

    @property
    def num_actions(self) -> int:
        """The number of actions of the game, legal or not."""
        return int(self._prepared.game.num_distinct_actions())

    def begin_next(self) -> None:
        """Start the next episode of the same game."""
        episode, prepared = self._episode, self._prepared
        if prepared.is_stateful:
            prepared = prepare_game(prepared.choice, episode.rng)
            self._use(prepared, make_tensor_reader(prepared))
        episode.restart(prepared)
        self._start()

    def play(self, action: int | None) -> float:
        """Apply a legal action and all moves until the agent's next decision; return the reward.

        action: None to reach the first decision; the reward is then 0, and the first step reports what was gained.
        """
        agent, state, starts = self._agent, self._state, action is None
        if self._is_sequential:
            if action is not None:
                apply_action(state, action)
            while (player := current_player(state)) != agent:
                if player >= 0:
                    if self._random_moves is None:
                        action = self._opponents[player](state, player)
                    else:
                        legal = legal_actions(state)
                        action = legal[next(self._random_moves) % len(legal)]
                    apply_action(state, action)
                    if self._shows_moves:
                        self.opponent_action = action
                elif player == CHANCE:
                    apply_action(state, sample_chance(state, self._episode.rng))
                else:
                    self.legal = _NO_ACTIONS
                    break
            else:
                self.legal = legal_actions(state)
        else:
            self._play_jointly(action)
        self._read(state, agent)
        self.view = self._to_bytes()
        if starts or (self._rewards_only_at_end and self.legal):
            return 0.0
        return collect_reward(self._episode)

    def _play_jointly(self, action: int | None) -> None:
        episode, agent = self._episode, self._agent
        if action is not None:
            advance(episode, action)
        else:
            play_until_agent(episode)
        if self._shows_moves and episode.opponent_last_action is not None:
            self.opponent_action = episode.opponent_last_action
        self.legal = self._state.legal_actions(agent) if episode.phase != "terminal" else _NO_ACTIONS

    def check(self, action: int) -> None:
        """Raise ValueError, listing the legal actions, unless the action may be taken now."""
        check_action(self._episode, OpenSpielAction(action_id=action))
