"""What one seat may see of a game's state, as numbers and as words, chosen by what the game says it provides."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import pyspiel

from openenv.envs.openspiel_env.server.spiel import function_of, legal_actions

MAX_TENSOR_VALUES = 100_000
"""A larger view is left out (`info_state_kind` is then `string`): a step would carry half a megabyte of zeros."""

HIDES_THE_WORD = "python_hangman"
"""Calls itself a game of perfect information, and its information state tells which word is to be guessed."""

READS_BETTER_AS_OBSERVATION = frozenset({"blackjack", HIDES_THE_WORD})
"""Games whose information state says no more than the observation but in card numbers, or says too much."""

MOVES_ARE_PUBLIC = frozenset(
    {"kuhn_poker", "python_kuhn_poker", "leduc_poker", "repeated_leduc_poker", "universal_poker", "repeated_poker"}
    | {"liars_dice", "liars_dice_ir", "python_liars_poker"}
)
"""Games with hidden cards or dice in which each move is announced to the whole table."""

TensorKind = Literal["information_state_tensor", "observation_tensor", "string"]


Sight = tuple[list[int], list[str], str, list[float]]
"""Legal actions, none when the game is over, their names, and the seat's view in words and as numbers."""


@dataclass(frozen=True, slots=True)
class View:
    """How to look at the states of one game from one seat."""

    seat: int
    kind: TensorKind
    """What `numbers` gives."""
    numbers: Callable[[Any, int], list[float]]
    """From a state and the seat to its view as numbers; empty for `string`."""
    words: Callable[[Any, int], str]
    """From a state and the seat to its view in OpenSpiel's words."""
    name: Callable[[Any, int, int], str]
    """From a state, the seat and an action to the action's name."""
    shows_moves: bool
    """Whether the rules let every seat see every other seat's actions."""
    shows_history: bool
    """Whether the whole history, chance included, is known to every seat."""


def look(view: View, state: Any, *, is_over: bool) -> Sight:
    """What is seen of a state. is_over: whether it is a game's last."""
    seat = view.seat
    legal: list[int] = [] if is_over else legal_actions(state, seat)
    names = list(map(partial(view.name, state, seat), legal))
    numbers = view.numbers(state, seat)
    if type(numbers) is not list:  # games written in Python give arrays
        numbers = [float(value) for value in numbers]
    return legal, names, view.words(state, seat), numbers


def view_of(game: Any, seat: int) -> View:
    """The fullest view that `game` provides: information state before observation, numbers and words chosen apart."""
    game_type = game.get_type()
    kind = _tensor_kind(game)
    known = not _hides_anything(game_type) and HIDES_THE_WORD not in str(game)
    return View(
        seat=seat,
        kind=kind,
        numbers=(lambda _state, _seat: []) if kind == "string" else function_of(game, kind),
        words=_words(game),
        name=function_of(game, "action_to_string"),
        shows_moves=known or game_type.short_name in MOVES_ARE_PUBLIC,
        shows_history=known
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


def _hides_anything(game_type: Any) -> bool:
    return bool(game_type.information == pyspiel.GameType.Information.IMPERFECT_INFORMATION)


def _words(game: Any) -> Callable[[Any, int], str]:
    """The information state, which forgets nothing, where something is hidden; else the board, the shorter."""
    game_type = game.get_type()
    if game_type.information == pyspiel.GameType.Information.ONE_SHOT:
        return _whole  # names the payoffs, which the views leave out
    prefers_observation = not _hides_anything(game_type) or game_type.short_name in READS_BETTER_AS_OBSERVATION
    if game_type.provides_observation_string and (
        prefers_observation or not game_type.provides_information_state_string
    ):
        return function_of(game, "observation_string")
    if game_type.provides_information_state_string:
        return function_of(game, "information_state_string")
    return (lambda _state, _seat: "") if _hides_anything(game_type) else _whole


def _whole(state: Any, _seat: int) -> str:
    return str(state)
