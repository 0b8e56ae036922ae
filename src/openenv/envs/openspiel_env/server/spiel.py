"""OpenSpiel's methods as functions, for where steps are made: looked up on a state each costs half as much again.

Games written in Python answer through the hooks that OpenSpiel calls, such as `_legal_actions` and `current_player`.
"""

from collections.abc import Callable
from typing import Any

import pyspiel

WRITTEN_IN_PYTHON = "python_"
"""How the names of games begin that OpenSpiel has in Python."""


def _function(method: Any) -> Any:
    return method.__func__


apply_action = _function(pyspiel.State.apply_action)
chance_outcomes = _function(pyspiel.State.chance_outcomes)
current_player = _function(pyspiel.State.current_player)
legal_actions = _function(pyspiel.State.legal_actions)
new_initial_state = _function(pyspiel.Game.new_initial_state)
player_return = _function(pyspiel.State.player_return)


def function_of(game: Any, name: str) -> Callable[..., Any]:
    """A method of the states of a game: those of a game written in Python may have one of their own."""
    if type(game).__module__.partition(".")[0] != pyspiel.__name__:
        return lambda state, *arguments: getattr(state, name)(*arguments)
    function: Callable[..., Any] = _function(getattr(pyspiel.State, name))
    return function
