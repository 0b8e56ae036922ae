"""Text interface of the card games: what the seat sees in a few words; replies are names of actions."""

from collections.abc import Mapping

from openenv.envs.cards_env.models import CardsAction, CardsObservation
from openenv.text.interface import TextInterface
from openenv.text.sentences import LISTED_REPLIES, legal_replies

_CARDS = "Cards are rank and suit: QH is the queen of hearts."

RULES: Mapping[str, str] = {
    "blackjack": f"Blackjack: come closer to 21 than the dealer without going over. {_CARDS}",
    "leduc-holdem": "Leduc poker: each player has one of two jacks, two queens and two kings; a public card follows. "
    f"A pair with the public card wins, else the higher card. {_CARDS}",
    "limit-holdem": f"Limit Texas hold'em: the best five of your two cards and the public cards win. {_CARDS}",
    "no-limit-holdem": f"No-limit Texas hold'em: the best five of your two cards and the public cards win. {_CARDS}",
    "uno": "UNO: play a card of the top card's colour or rank, or a wild card. An empty hand wins.",
    "gin-rummy": "Gin rummy: draw a card and discard one. Collect sets of a rank and runs of a suit. Knock or go gin "
    f"with little left over. {_CARDS}",
    "doudizhu": "Dou Dizhu: the landlord plays against two peasants. Play a higher combination of the same kind, or "
    "pass. An empty hand wins. Ranks from low to high: 3 4 5 6 7 8 9 T J Q K A 2 B R, where B and R are the jokers.",
    "mahjong": "Mahjong: draw and discard tiles. Four sets and a pair win. Take the last discard by chow, pong or "
    "gong, or stand.",
}
"""The goal of each game, in a sentence or two."""


class CardsText(TextInterface[CardsAction, CardsObservation]):
    """Describes any of the games from the observation alone."""

    history = "latest"

    def instructions(self, observation: CardsObservation) -> str:
        """The rules, and how to write a reply."""
        return f"{RULES[observation.game]} You are player {observation.seat}. {LISTED_REPLIES}"

    def describe(self, observation: CardsObservation) -> str:
        """The moves since the last observation, the hand, what is public, and the legal actions."""
        seen = observation
        parts = [f"Moves: {', '.join(seen.moves)}." if seen.moves else "", f"Your hand: {_listed(seen.hand)}."]
        parts += [seen.public, legal_replies(seen.legal_action_names) if seen.legal_action_names else ""]
        return "\n".join(part for part in parts if part)

    def replies(self, observation: CardsObservation) -> Mapping[str, CardsAction]:
        """The name of each legal action."""
        named = zip(observation.legal_action_names, observation.legal_actions, strict=True)
        return {name: CardsAction(action_id=action_id) for name, action_id in named}


def _listed(cards: list[str]) -> str:
    """The cards in a row, with commas where they have several words."""
    return (", " if any(" " in card for card in cards) else " ").join(cards) or "empty"
