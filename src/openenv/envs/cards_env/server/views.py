"""What a seat sees of each game: its own cards, and in words what is public. Nothing else of a game is read here."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from openenv.envs.cards_env.server.games import GAMES

_LAST_DISCARDS = 12
"""Tiles of the table that mahjong shows."""


class SeatView(NamedTuple):
    """The cards of a seat, and what every seat sees."""

    hand: list[str]
    public: str


def view(env: Any, seat: int) -> SeatView:
    """What a seat sees now."""
    return _VIEWS[env.name](env, seat)


def features_of(env: Any, seat: int) -> list[float]:
    """RLCard's numbers of what a seat sees, in a row. Zeros follow where another seat has more."""
    numbers: list[float] = np.asarray(env.get_state(seat)["obs"], dtype=float).ravel().tolist()
    most = max(math.prod(shape) for shape in env.state_shape)
    return numbers + [0.0] * (most - len(numbers))


def _card(index: str) -> str:
    """RLCard writes the suit first: HQ becomes QH."""
    return index[1:] + index[0]


def _joined(cards: Sequence[str]) -> str:
    return " ".join(cards) or "none"


def _blackjack(env: Any, seat: int) -> SeatView:
    own, dealer = env.get_state(seat)["raw_obs"]["state"]
    return SeatView(list(map(_card, own)), f"Dealer: {_joined(list(map(_card, dealer)))}.")


def _bets(env: Any) -> str:
    return f"Bets: {_by_player((player.player_id, int(player.in_chips)) for player in env.game.players)}."


def _by_player(pairs: Iterable[tuple[int, object]]) -> str:
    """Such as `player 0 2, player 1 4`."""
    return ", ".join(f"player {player} {value}" for player, value in pairs)


def _leduc(env: Any, seat: int) -> SeatView:
    card = env.game.public_card
    public = "none" if card is None else _card(card.get_index())
    return SeatView([_card(env.game.players[seat].hand.get_index())], f"Public card: {public}.\n{_bets(env)}")


def _holdem(env: Any, seat: int) -> SeatView:
    hand = [_card(card.get_index()) for card in env.game.players[seat].hand]
    public = [_card(card.get_index()) for card in env.game.public_cards]
    return SeatView(hand, f"Public cards: {_joined(public)}.\n{_bets(env)}")


def _no_limit(env: Any, seat: int) -> SeatView:
    hand, public = _holdem(env, seat)
    left = _by_player((player.player_id, int(player.remained_chips)) for player in env.game.players)
    return SeatView(hand, f"{public}\nChips left: {left}.")


def _uno(env: Any, seat: int) -> SeatView:
    word, players, top = GAMES["uno"].word, env.game.players, env.game.round.target
    hand = sorted(
        word(card.str) if card.type != "wild" else card.trait.replace("_", " ") for card in players[seat].hand
    )
    counts = _by_player((player.player_id, len(player.hand)) for player in players)
    return SeatView(hand, f"Top card: {word(top.str)}.\nCards in hand: {counts}.")


def _gin(env: Any, seat: int) -> SeatView:
    table = env.game.round
    pile, other = table.dealer.discard_pile, table.players[1 - seat]
    hand = [str(card) for card in sorted(table.players[seat].hand, key=lambda card: card.get_index())]
    public = [
        f"Top discard: {pile[-1] if pile else 'none'}. Cards in the stock: {len(table.dealer.stock_pile)}.",
        f"Taken by player {1 - seat}: {_joined([str(card) for card in other.known_cards])}.",
    ]
    return SeatView(hand, "\n".join(public))


def _doudizhu(env: Any, seat: int) -> SeatView:
    game = env.game
    state = game.get_state(seat)
    landlord = f"The landlord is player {state['landlord']}, with {_joined(state['seen_cards'])}."
    counts = _by_player(enumerate(state["num_cards_left"]))
    return SeatView(list(state["current_hand"]), f"{landlord}\nCards in hand: {counts}.")


def _mahjong(env: Any, seat: int) -> SeatView:
    tile, table, players = GAMES["mahjong"].word, env.game.dealer.table, env.game.players
    hand = sorted(tile(card.get_str()) for card in players[seat].hand)
    piles = (
        f"player {player.player_id} {', '.join(tile(card.get_str()) for group in player.pile for card in group)}"
        for player in players
        if player.pile
    )
    last = [tile(card.get_str()) for card in table[-_LAST_DISCARDS:]]
    public = [f"Last discards: {', '.join(last) or 'none'}.", f"Shown: {'; '.join(piles) or 'none'}."]
    return SeatView(hand, "\n".join(public))


_VIEWS: Mapping[str, Callable[[Any, int], SeatView]] = {
    "blackjack": _blackjack,
    "leduc-holdem": _leduc,
    "limit-holdem": _holdem,
    "no-limit-holdem": _no_limit,
    "uno": _uno,
    "gin-rummy": _gin,
    "doudizhu": _doudizhu,
    "mahjong": _mahjong,
}
