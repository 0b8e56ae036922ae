"""Hands of the small poker games in words, from OpenSpiel's text of what a seat sees."""

import re

from openenv.envs.openspiel_env.models import OpenSpielObservation
from openenv.text.sentences import enumeration, legal_replies

_RANKS = ("K", "Q", "J", "10", "9", "8", "7", "6", "5", "4", "3", "2")
"""The highest first."""
_STACK = 100
"""Chips of each player of Leduc poker before the hand."""
_FIELD = re.compile(r"\[(\w+): ([^\]]*)\]")


def describe_kuhn(observation: OpenSpielObservation) -> str:
    """Such as `You hold Q. You pass, the other bets.` OpenSpiel's text is the card's number and a letter a move."""
    text = observation.metadata["text"]
    card = text.rstrip("pb")
    players, seat = _num_players(observation), observation.metadata["agent_player"]
    done = [_kuhn_move(mover % players, seat, players, move) for mover, move in enumerate(text[len(card) :])]
    said = ", ".join(done).capitalize() if done else "No player has moved"
    return f"You hold {_card(int(card), players)}. {said}." if card else f"{said}."


def _kuhn_move(mover: int, seat: int, players: int, move: str) -> str:
    verb = {"p": "pass", "b": "bet"}[move]
    if mover == seat:
        return f"you {verb}"
    return f"{_other(mover, players)} {verb}{'es' if verb == 'pass' else 's'}"


def describe_leduc(observation: OpenSpielObservation) -> str:
    """Such as `You hold Q. The public card is K. Paid: you 3, the other 1.` and the legal replies."""
    metadata = observation.metadata
    fields = dict(_FIELD.findall(metadata["text"]))
    money = [float(chips) for chips in fields["Money"].split()]
    players, seat = len(money), metadata["agent_player"]
    is_by_rank = bool(metadata.get("game_params", {}).get("suit_isomorphism"))
    own, public = (_leduc_card(fields.get(name), players, is_by_rank) for name in ("Private", "Public"))
    said = [f"You hold {own}.", f"The public card is {public}." if public else "There is no public card yet."]
    if not observation.legal_actions:
        return " ".join([*said, f"You leave with {money[seat]:g} of {_STACK} chips."])
    paid = [f"you {_STACK - money[seat]:g}"]
    paid += [f"{_other(mover, players)} {_STACK - chips:g}" for mover, chips in enumerate(money) if mover != seat]
    return (
        " ".join([*said, f"Paid: {enumeration(paid)}."])
        + "\n"
        + legal_replies(name.lower() for name in metadata["legal_action_names"])
    )


def _leduc_card(number: str | None, players: int, is_by_rank: bool) -> str | None:
    """The rank of a card, of which there are two suits; None where there is no card."""
    if number is None or int(number) < 0:
        return None
    return _card(int(number) if is_by_rank else int(number) // 2, players)


def _card(rank: int, players: int) -> str:
    """The name of a rank, counted from the lowest: there is one more than players."""
    return _RANKS[players - rank]


def _other(mover: int, players: int) -> str:
    return "the other" if players == 2 else f"player {mover}"


def _num_players(observation: OpenSpielObservation) -> int:
    return int(observation.metadata.get("game_params", {}).get("players", 2))
