"""The games of RLCard that are played here: how each is made, and RLCard's words for its actions."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import rlcard

SUITS = "SHDC"


@dataclass(frozen=True, kw_only=True)
class Game:
    """What is known of a game without making it."""

    num_players: int
    """Seats, where the number is not chosen."""
    most_players: int | None = None
    """Seats that can be chosen, at most; None: the number is fixed."""
    rule_model: str | None = None
    """RLCard's name of the model whose rules opponents can play by."""
    word: Callable[[str], str] = str
    """Maps RLCard's word for an action to its name."""


def _uno_word(word: str) -> str:
    colour, _, rest = word.partition("-")
    if not rest:
        return word
    name = {"r": "red", "g": "green", "b": "blue", "y": "yellow"}[colour]
    rest = rest.replace("_", " ")
    return f"{rest} {name}" if rest.startswith("wild") else f"{name} {rest}"


def _holdem_word(word: str) -> str:
    return {"check_call": "check or call"}.get(word.lower(), word.lower().replace("_", " "))


def _spaced(word: str) -> str:
    """A combination of Dou Dizhu with its cards apart."""
    return word if word == "pass" else " ".join(word)


def _plain(word: str) -> str:
    return word.replace("_", " ").replace("-", " ")


GAMES: Mapping[str, Game] = {
    "blackjack": Game(num_players=1),
    "leduc-holdem": Game(num_players=2, rule_model="leduc-holdem-rule-v2"),
    "limit-holdem": Game(num_players=2, most_players=6, rule_model="limit-holdem-rule-v1"),
    "no-limit-holdem": Game(num_players=2, most_players=6, word=_holdem_word),
    "uno": Game(num_players=2, rule_model="uno-rule-v1", word=_uno_word),
    "gin-rummy": Game(num_players=2, rule_model="gin-rummy-novice-rule", word=_plain),
    "doudizhu": Game(num_players=3, rule_model="doudizhu-rule-v1", word=_spaced),
    "mahjong": Game(num_players=4, word=_plain),
}


def make_game(name: str, num_players: int, seed: int) -> Any:
    """RLCard's environment of a game. seed: not negative. A new one for each episode: some keep the dealer."""
    config = {"seed": seed}
    if GAMES[name].most_players is not None:
        config["game_num_players"] = num_players
    return rlcard.make(name, config=config)


def raw_word(env: Any, action_id: int) -> str:
    """RLCard's word for an action."""
    if env.name == "uno":
        from rlcard.games.uno.utils import ACTION_LIST

        return str(ACTION_LIST[action_id])
    if env.name == "gin-rummy":
        from rlcard.games.gin_rummy.utils.action_event import ActionEvent

        return str(ActionEvent.decode_action(action_id))
    if env.name == "doudizhu":
        return str(env._ID_2_ACTION[action_id])
    if env.name == "mahjong":
        return str(env.de_action_id[action_id])
    if env.name == "no-limit-holdem":
        return str(env.actions(action_id).name)
    return str(env.actions[action_id])


def action_name(env: Any, action_id: int) -> str:
    """The name of an action, in plain words."""
    return GAMES[env.name].word(raw_word(env, action_id))
