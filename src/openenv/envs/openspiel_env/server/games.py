"""Loads OpenSpiel's games by name and parameters, and binds the methods of their states.

A game that cannot be loaded or played raises ValueError with the reason.
"""

import difflib
import functools
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import open_spiel.python.games  # noqa: F401  registers the games written in Python
import pyspiel

from openenv.core.outcomes import ANY_POSITIVE
from openenv.envs.openspiel_env.server.rng import Rng, random_bits
from openenv.formats.json_text import json_text

MAX_CACHED_GAMES = 64
PYTHON_GAME_PREFIX = "python_"
"""Prefix of the names of games that OpenSpiel implements in Python."""
STATEFUL_GAMES = (PYTHON_GAME_PREFIX, "add_noise")
"""Substrings of the descriptions of games whose object changes while it is played.

Games written in Python write all observations into one array, and python_dynamic_routing never clears it: a session
would observe another's game. add_noise samples the noise of a terminal state when any session first reaches it.
"""
INTERMEDIATE_REWARDS = (PYTHON_GAME_PREFIX, "repeated")
"""Substrings of the descriptions of games that may pay before the end although their type declares terminal rewards."""
FILE_PARAMETERS = frozenset({"boards_file", "filename", "instances_file", "puzzles_root", "word_list_file"})
"""Parameters that name a file on the server. Only the server's command line may set them, not a client."""
GAMES_WITH_PARAMETERS: dict[str, dict[str, Any]] = {
    "add_noise": {"game": {"name": "kuhn_poker"}, "epsilon": 1, "seed": 3},
    "cached_tree": {"game": {"name": "kuhn_poker"}},
    "coop_to_1p": {"game": {"name": "tiny_hanabi"}},
    "misere": {"game": {"name": "tic_tac_toe"}},
    "normal_form_extensive_game": {"game": {"name": "kuhn_poker"}},
    "repeated_game": {"stage_game": {"name": "matrix_pd"}, "num_repetitions": 3},
    "repeated_poker": {
        "max_num_hands": 3,
        "reset_stacks": True,
        "universal_poker_game_string": {"name": "universal_poker"},
    },
    "restricted_nash_response": {"game": {"name": "kuhn_poker"}},
    "start_at": {"game": {"name": "tic_tac_toe"}, "history": "0;1"},
    "turn_based_simultaneous_game": {"game": {"name": "goofspiel"}},
    "zerosum": {"game": {"name": "matrix_pd"}},
}
"""Transformations of other games, and one game without default parameters, with an example of their parameters."""


def _function(method: Any) -> Any:
    return method.__func__


# Methods of states as plain functions: looking a method up on a state makes each call half as slow again. OpenSpiel
# calls the hooks of games written in Python, such as `_legal_actions`.
apply_action = _function(pyspiel.State.apply_action)
chance_outcomes = _function(pyspiel.State.chance_outcomes)
current_player = _function(pyspiel.State.current_player)
legal_actions = _function(pyspiel.State.legal_actions)
new_initial_state = _function(pyspiel.Game.new_initial_state)
player_return = _function(pyspiel.State.player_return)


def state_method(game: Any, name: str) -> Callable[..., Any]:
    """Return a method of a game's states as a function. A game written in Python may override the method."""
    if type(game).__module__.partition(".")[0] != pyspiel.__name__:
        return lambda state, *arguments: getattr(state, name)(*arguments)
    function: Callable[..., Any] = _function(getattr(pyspiel.State, name))
    return function


@functools.cache
def game_types() -> dict[str, Any]:
    """Return the `pyspiel.GameType` of every registered game by its short name."""
    return {game_type.short_name: game_type for game_type in pyspiel.registered_games()}


def tasks() -> Mapping[str, Mapping[str, Any]]:
    """Reset keywords of each game. Games that need a file on the server, and those that no seat can play, are left
    out."""
    return {name: _keywords(name) for name in sorted(game_types()) if _is_playable(name)}


def _keywords(name: str) -> dict[str, Any]:
    params = GAMES_WITH_PARAMETERS.get(name)
    return {"game_name": name} if params is None else {"game_name": name, "game_params": params}


def _is_playable(name: str) -> bool:
    try:
        load_game(name, GAMES_WITH_PARAMETERS.get(name, {}))
    except ValueError:
        return False
    return True


_MOST_SHOWN = 20
"""Names in an error beside the nearest."""


def unknown_name(field: str, value: object, allowed: Iterable[str]) -> ValueError:
    """Return the error for a name that is not allowed, with the nearest allowed name, or those that are allowed.

    A long list would hide the nearest name.
    """
    names = sorted(allowed)
    near = difflib.get_close_matches(str(value), names, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    known = "" if near and len(names) > _MOST_SHOWN else f" Allowed: {', '.join(names) or 'none'}."
    return ValueError(f"{field}={value!r} is not known.{hint}{known}")


def load_game(game_name: str, game_params: Mapping[str, Any]) -> Any:
    """Return the `pyspiel.Game`, shared by all callers with equal arguments.

    Raises ValueError for an unknown name or parameter, for a value that OpenSpiel refuses, and for a game without
    seats that act one by one (mean-field games, games without numbered actions).
    """
    return _load_cached(game_name, json_text(dict(game_params), sort_keys=True))


def load_game_for_episode(game_name: str, game_params: Mapping[str, Any], rng: Rng) -> Any:
    """Return the shared game, or for a stateful game a new object that is seeded from `rng`."""
    game = load_game(game_name, game_params)
    if not is_stateful(game):
        return game
    return _load_new(game_name, _with_rng_seed(game_name, game_params, random_bits(rng, 30)))


def is_stateful(game: Any) -> bool:
    """Whether playing changes the game object, so that no other episode may use the same one."""
    samples_inside = game.get_type().chance_mode == pyspiel.GameType.ChanceMode.SAMPLED_STOCHASTIC
    return samples_inside or any(name in str(game) for name in STATEFUL_GAMES)


def rewards_only_at_end(game: Any) -> bool:
    """Whether all rewards before the end are certainly 0."""
    declares_it = game.get_type().reward_model == pyspiel.GameType.RewardModel.TERMINAL
    return declares_it and not any(name in str(game) for name in INTERMEDIATE_REWARDS)


def success_return_of(game: Any) -> float | None:
    """The return from which a game is won; None where returns are scores, such as the points of 2048."""
    is_contest = game.get_type().utility == pyspiel.GameType.Utility.ZERO_SUM
    return ANY_POSITIVE if is_contest or (game.min_utility(), game.max_utility()) == (-1, 1) else None


@functools.lru_cache(maxsize=MAX_CACHED_GAMES)
def _load_cached(game_name: str, params_json: str) -> Any:
    return _load_new(game_name, json.loads(params_json))


def _load_new(game_name: str, game_params: dict[str, Any]) -> Any:
    params = validate_params(game_name, game_params)
    game_type = game_types()[game_name]
    if not game_type.default_loadable and not params:
        raise ValueError(
            f"game_name={game_name!r} cannot be played without game_params: it takes "
            f"{_describe(game_type.parameter_specification)}. Write an inner game as an object with its name, as in "
            "{'game': {'name': 'kuhn_poker'}}."
        )
    try:
        game = pyspiel.load_game(game_name, params)
    except (pyspiel.SpielError, ValueError, TypeError) as error:
        raise ValueError(f"game_params={game_params!r} were refused by {game_name!r}: {str(error)[:300]}") from error
    _refuse_unplayable(game_name, game)
    return game


def validate_params(game_name: str, game_params: Mapping[str, Any], field: str = "game_params") -> dict[str, Any]:
    """Return `game_params` with whole numbers converted to floats where the game declares floats.

    Raises ValueError for an unknown game or parameter, and for a value of another type than the parameter's.
    """
    if game_name not in game_types():
        raise unknown_name("game_name", game_name, game_types())
    specification = game_types()[game_name].parameter_specification
    valid: dict[str, Any] = {}
    for name, value in game_params.items():
        if name not in specification:
            raise unknown_name(field, name, specification)
        valid[name] = _validate_value(f"{field}.{name}", value, specification[name])
    return valid


def _validate_value(field: str, value: Any, default: Any) -> Any:
    if isinstance(default, dict):
        if not isinstance(value, dict) or not isinstance(value.get("name"), str):
            raise ValueError(
                f"{field}={value!r}: expected a game, written as {{'name': 'kuhn_poker', ...its parameters}}."
            )
        inner = {key: item for key, item in value.items() if key != "name"}
        return {"name": value["name"], **validate_params(value["name"], inner, field)}
    if isinstance(default, float) and type(value) is int:
        return float(value)
    if type(value) is not type(default):
        raise ValueError(f"{field}={value!r}: expected {type(default).__name__}, got {type(value).__name__}.")
    return value


def names_a_file(game_params: Mapping[str, Any]) -> bool:
    """Whether any parameter, also of an inner game, names a file on the server's machine."""
    return any(
        name in FILE_PARAMETERS or (isinstance(value, dict) and names_a_file(value))
        for name, value in game_params.items()
    )


def _describe(specification: Mapping[str, Any]) -> str:
    return ", ".join(f"{k} ({'a game' if isinstance(v, dict) else type(v).__name__})" for k, v in specification.items())


def _refuse_unplayable(game_name: str, game: Any) -> None:
    if game.get_type().dynamics == pyspiel.GameType.Dynamics.MEAN_FIELD:
        raise ValueError(
            f"game_name={game_name!r} is a mean-field game: its player is a population, and each step needs the "
            "distribution of that population. A single seat cannot play it. Choose another game."
        )
    if game.num_distinct_actions() == 0:
        raise ValueError(
            f"game_name={game_name!r} has no numbered actions (its moves are structures), so an action_id cannot name "
            "a move. Choose another game."
        )


def _with_rng_seed(game_name: str, game_params: Mapping[str, Any], rng_seed: int) -> dict[str, Any]:
    """Return `game_params` with `rng_seed` added to the game and each inner game that takes one and has none."""
    seeded = dict(game_params)
    for name, default in game_types()[game_name].parameter_specification.items():
        if name == "rng_seed":
            seeded.setdefault(name, rng_seed)
        elif isinstance(default, dict) and isinstance(seeded.get(name), dict):
            inner = {key: item for key, item in seeded[name].items() if key != "name"}
            seeded[name] = {"name": seeded[name]["name"], **_with_rng_seed(seeded[name]["name"], inner, rng_seed)}
    return seeded
