"""What one seat may observe of a game's state, as numbers and as text, and a cache of first observations."""

import functools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import pyspiel

from openenv.envs.openspiel_env.server.games import MAX_CACHED_GAMES, legal_actions, load_game, state_method
from openenv.formats.json_text import json_text

MAX_TENSOR_VALUES = 100_000
"""A larger tensor is left out (`info_state_kind` is then `string`): each step would send half a megabyte of zeros."""

HANGMAN = "python_hangman"
"""Declares perfect information, but its information state contains the word to guess."""

PREFERS_OBSERVATION = frozenset({"blackjack", HANGMAN})
"""Games with hidden information whose observation is the better text.

The information state of blackjack has the same content with numbered cards; that of hangman reveals the word.
"""

MOVES_ARE_PUBLIC = frozenset(
    {"kuhn_poker", "python_kuhn_poker", "leduc_poker", "repeated_leduc_poker", "universal_poker", "repeated_poker"}
    | {"liars_dice", "liars_dice_ir", "python_liars_poker"}
)
"""Games with hidden cards or dice in which every seat sees each move."""

MAX_OPENING_CACHE_SIZE = 1 << 14
"""Limit of one game's cache, in numbers and in values that need about as much memory as a number."""

TensorKind = Literal["information_state_tensor", "observation_tensor", "string"]


class SeatObservation(NamedTuple):
    """What a seat observes of one state."""

    legal_actions: list[int]
    """Empty when the game is over."""
    action_names: list[str]
    """OpenSpiel's name of each legal action."""
    text: str
    tensor: list[float]


@dataclass(frozen=True, slots=True)
class SeatView:
    """How one seat observes the states of one game."""

    seat: int
    kind: TensorKind
    """Which of OpenSpiel's tensors `tensor` returns."""
    tensor: Callable[[Any, int], list[float]]
    """Maps a state and the seat to numbers; an empty list where the kind is `string`."""
    text: Callable[[Any, int], str]
    """Maps a state and the seat to OpenSpiel's text."""
    action_name: Callable[[Any, int, int], str]
    """Maps a state, the seat and an action to the action's name."""
    shows_moves: bool
    """Whether the rules let every seat see every other seat's actions."""
    shows_history: bool
    """Whether every seat knows the whole history, chance included."""


def observe(view: SeatView, state: Any, *, is_over: bool) -> SeatObservation:
    """Return what the seat observes of a state. is_over: whether the state is terminal."""
    seat, name = view.seat, view.action_name
    legal: list[int] = [] if is_over else legal_actions(state, seat)
    tensor = view.tensor(state, seat)
    if type(tensor) is not list:  # games written in Python return arrays
        tensor = [float(value) for value in tensor]
    return SeatObservation(legal, [name(state, seat, action) for action in legal], view.text(state, seat), tensor)


def make_seat_view(game: Any, seat: int) -> SeatView:
    """Return the fullest view that a game provides.

    The tensor is the information state where the game has one, else the observation. The text is chosen separately.
    """
    game_type = game.get_type()
    kind = _tensor_kind(game)
    is_open = not _has_hidden_information(game_type) and HANGMAN not in str(game)
    return SeatView(
        seat=seat,
        kind=kind,
        tensor=(lambda _state, _seat: []) if kind == "string" else state_method(game, kind),
        text=_text_function(game),
        action_name=state_method(game, "action_to_string"),
        shows_moves=is_open or game_type.short_name in MOVES_ARE_PUBLIC,
        shows_history=is_open
        and game_type.dynamics == pyspiel.GameType.Dynamics.SEQUENTIAL
        and game_type.chance_mode != pyspiel.GameType.ChanceMode.SAMPLED_STOCHASTIC,
    )


def _tensor_kind(game: Any) -> TensorKind:
    game_type = game.get_type()
    if game_type.provides_information_state_tensor and 0 < game.information_state_tensor_size() <= MAX_TENSOR_VALUES:
        return "information_state_tensor"
    if game_type.provides_observation_tensor and 0 < game.observation_tensor_size() <= MAX_TENSOR_VALUES:
        return "observation_tensor"
    return "string"


def _has_hidden_information(game_type: Any) -> bool:
    return bool(game_type.information == pyspiel.GameType.Information.IMPERFECT_INFORMATION)


def _text_function(game: Any) -> Callable[[Any, int], str]:
    """The information state where something is hidden, because it keeps the past; else the shorter observation."""
    game_type = game.get_type()
    if game_type.information == pyspiel.GameType.Information.ONE_SHOT:
        return _state_text  # includes the payoffs, which the observation lacks
    prefers_observation = not _has_hidden_information(game_type) or game_type.short_name in PREFERS_OBSERVATION
    if game_type.provides_observation_string and (
        prefers_observation or not game_type.provides_information_state_string
    ):
        return state_method(game, "observation_string")
    if game_type.provides_information_state_string:
        return state_method(game, "information_state_string")
    return (lambda _state, _seat: "") if _has_hidden_information(game_type) else _state_text


def _state_text(state: Any, _seat: int) -> str:
    return str(state)


class OpeningCache:
    """Caches what one seat observes at its first decision. Most games begin in few ways."""

    def __init__(self, game: Any, seat: int) -> None:
        """game: one that is not stateful (`games.is_stateful`)."""
        self._view = make_seat_view(game, seat)
        self._by_history: dict[tuple[int, ...], SeatObservation] = {}
        self._size = 0

    def __len__(self) -> int:
        return len(self._by_history)

    def observe(self, state: Any) -> SeatObservation:
        """Return what the seat observes of a state. The caller owns the lists."""
        history = tuple(state.history())
        cached = self._by_history.get(history)
        if cached is None:
            cached = observe(self._view, state, is_over=state.is_terminal())
            self._put(history, cached)
        legal, names, text, tensor = cached
        return SeatObservation(legal.copy(), names.copy(), text, tensor.copy())

    def _put(self, history: tuple[int, ...], observation: SeatObservation) -> None:
        legal, _, text, tensor = observation
        size = 32 + len(history) + 8 * len(legal) + len(text) // 8 + len(tensor)
        if self._size + size <= MAX_OPENING_CACHE_SIZE:
            self._size += size
            self._by_history[history] = observation


def opening_cache_of(game_name: str, game_params: Mapping[str, Any], seat: int) -> OpeningCache:
    """Return the cache of a game and a seat, which all sessions of this process share."""
    return _opening_cache_of(game_name, json_text(dict(game_params), sort_keys=True), seat)


@functools.lru_cache(maxsize=MAX_CACHED_GAMES)
def _opening_cache_of(game_name: str, params_json: str, seat: int) -> OpeningCache:
    return OpeningCache(load_game(game_name, json.loads(params_json)), seat)
