"""Loads OpenSpiel's games by name and parameters, and says why where one cannot be played."""

import difflib
import functools
import json
from collections.abc import Iterable, Mapping
from typing import Any

import open_spiel.python.games  # noqa: F401  registers the games written in Python
import pyspiel

from openenv.envs.openspiel_env.server.draws import Draws, draw_bits
from openenv.envs.openspiel_env.server.spiel import WRITTEN_IN_PYTHON

MAX_CACHED_GAMES = 64
CHANGED_BY_PLAY = (WRITTEN_IN_PYTHON, "add_noise")
"""What the descriptions of games contain that playing changes: games written in Python write observations into one
array (python_dynamic_routing never clears it: sessions would see each other's), and add_noise draws the noise of an
ending when it is first reached, by whichever session."""
PAYS_ON_THE_WAY = (WRITTEN_IN_PYTHON, "repeated")
"""What the descriptions of games contain that may pay before the end although their type says that they do not."""
FILE_PARAMETERS = frozenset({"boards_file", "filename", "instances_file", "puzzles_root", "word_list_file"})
"""Parameters naming a file on the server: whoever starts the server may set them, a client may not."""


@functools.cache
def game_types() -> dict[str, Any]:
    """Every registered game's `pyspiel.GameType` by its short name."""
    return {game_type.short_name: game_type for game_type in pyspiel.registered_games()}


def unknown(field: str, got: object, allowed: Iterable[str]) -> ValueError:
    """The error for a name that is not among `allowed`: what came, the nearest allowed name, and what there is."""
    names = sorted(allowed)
    near = difflib.get_close_matches(str(got), names, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return ValueError(f"{field}={got!r} is not known.{hint} Allowed: {', '.join(names) or 'none'}.")


def load(game_name: str, game_params: Mapping[str, Any]) -> Any:
    """The loaded `pyspiel.Game`, shared by all who ask for the same name and parameters.

    Raises ValueError for an unknown name or parameter, a value that OpenSpiel refuses, and a game that cannot be
    played seat by seat (mean-field games, games without numbered actions).
    """
    return _load(game_name, json.dumps(dict(game_params), sort_keys=True))


def load_for_episode(game_name: str, game_params: Mapping[str, Any], draws: Draws) -> Any:
    """`load`, but a game with something inside that an episode changes is loaded afresh and seeded from `draws`.

    Those are the games that draw their chances from a generator of their own, and those of CHANGED_BY_PLAY.
    """
    game = load(game_name, game_params)
    if not is_changed_by_play(game):
        return game
    return _load_unshared(game_name, _with_rng_seed(game_name, game_params, draw_bits(draws, 30)))


def is_changed_by_play(game: Any) -> bool:
    """Whether an episode changes something inside the game, which no other episode may then see."""
    draws_inside = game.get_type().chance_mode == pyspiel.GameType.ChanceMode.SAMPLED_STOCHASTIC
    return draws_inside or any(name in str(game) for name in CHANGED_BY_PLAY)


def pays_at_the_end(game: Any) -> bool:
    """Whether nothing is gained or lost before the end, for certain."""
    says_so = game.get_type().reward_model == pyspiel.GameType.RewardModel.TERMINAL
    return says_so and not any(name in str(game) for name in PAYS_ON_THE_WAY)


@functools.lru_cache(maxsize=MAX_CACHED_GAMES)
def _load(game_name: str, params_json: str) -> Any:
    return _load_unshared(game_name, json.loads(params_json))


def _load_unshared(game_name: str, game_params: dict[str, Any]) -> Any:
    params = checked_params(game_name, game_params)
    game_type = game_types()[game_name]
    if not game_type.default_loadable and not params:
        raise ValueError(
            f"game_name={game_name!r} cannot be played without game_params: it takes "
            f"{_described(game_type.parameter_specification)}. A game inside it is an object with its name, as in "
            "{'game': {'name': 'kuhn_poker'}}."
        )
    try:
        game = pyspiel.load_game(game_name, params)
    except (pyspiel.SpielError, ValueError, TypeError) as error:
        raise ValueError(f"game_params={game_params!r} were refused by {game_name!r}: {str(error)[:300]}") from error
    _refuse_unplayable(game_name, game)
    return game


def checked_params(game_name: str, game_params: Mapping[str, Any], field: str = "game_params") -> dict[str, Any]:
    """`game_params` with whole numbers made floats where the game wants floats.

    Raises ValueError for an unknown game or parameter, or a value of another type than the parameter's.
    """
    if game_name not in game_types():
        raise unknown("game_name", game_name, game_types())
    specification = game_types()[game_name].parameter_specification
    checked: dict[str, Any] = {}
    for name, value in game_params.items():
        if name not in specification:
            raise unknown(field, name, specification)
        checked[name] = _checked_value(f"{field}.{name}", value, specification[name])
    return checked


def _checked_value(field: str, value: Any, default: Any) -> Any:
    if isinstance(default, dict):
        if not isinstance(value, dict) or not isinstance(value.get("name"), str):
            raise ValueError(
                f"{field}={value!r}: a game is wanted, written as {{'name': 'kuhn_poker', ...its parameters}}."
            )
        inner = {key: item for key, item in value.items() if key != "name"}
        return {"name": value["name"], **checked_params(value["name"], inner, field)}
    if isinstance(default, float) and type(value) is int:
        return float(value)
    if type(value) is not type(default):
        raise ValueError(f"{field}={value!r}: {type(default).__name__} is wanted, {type(value).__name__} came.")
    return value


def reads_files(game_params: Mapping[str, Any]) -> bool:
    """Whether any parameter, also of a game inside, names a file of the server's machine."""
    return any(name in FILE_PARAMETERS or (isinstance(v, dict) and reads_files(v)) for name, v in game_params.items())


def _described(specification: Mapping[str, Any]) -> str:
    return ", ".join(f"{k} ({'a game' if isinstance(v, dict) else type(v).__name__})" for k, v in specification.items())


def _refuse_unplayable(game_name: str, game: Any) -> None:
    if game.get_type().dynamics == pyspiel.GameType.Dynamics.MEAN_FIELD:
        raise ValueError(
            f"game_name={game_name!r} is a mean-field game: its player is a whole population, whose distribution must "
            "be given at each step; no single seat can play an episode of it. Choose another game."
        )
    if game.num_distinct_actions() == 0:
        raise ValueError(
            f"game_name={game_name!r} has no numbered actions (its moves are structures), so no action_id can name a "
            "move. Choose another game."
        )


def _with_rng_seed(game_name: str, game_params: Mapping[str, Any], rng_seed: int) -> dict[str, Any]:
    """`game_params` with `rng_seed` set wherever the game, or a game inside it, takes one and none was given."""
    seeded = dict(game_params)
    for name, default in game_types()[game_name].parameter_specification.items():
        if name == "rng_seed":
            seeded.setdefault(name, rng_seed)
        elif isinstance(default, dict) and isinstance(seeded.get(name), dict):
            inner = {key: item for key, item in seeded[name].items() if key != "name"}
            seeded[name] = {"name": seeded[name]["name"], **_with_rng_seed(seeded[name]["name"], inner, rng_seed)}
    return seeded
