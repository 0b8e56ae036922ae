"""Exact values of blackjack policies under OpenSpiel's rules, and of the best policy.

The rules: one deck of 52, hit or stand, the dealer stands on every 17, a natural pays no more, the return is +1, 0
or -1. The dealer's hidden card and all later cards are exchangeable draws from the unseen ones. The player therefore
faces a finite Markov decision process. Its states are the player's ranks (a multiset) and the dealer's open rank.
Dealer hands are enumerated once for each open rank, with the number of orders in which the dealer can draw them. The
probability of a hand is that number times a product of falling factorials of the cards left of each rank.
"""

from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]
Ranks = tuple[int, ...]
"""Number of cards of each rank: ace, 2, ..., 9, and all cards of value 10."""

DECK: Ranks = (*(4,) * 9, 16)
VALUES = range(1, 11)
GOAL = 21
DEALER_STANDS = 17
BUST = 0
RETURN = np.array([1.0, 0.0, -1.0])
"""Return of a win, a push and a loss."""


class Decision(NamedTuple):
    """What a policy decides on."""

    total: int
    soft: bool
    """Whether an ace counts as 11 in the total."""
    dealer: int
    """The value of the dealer's open card; an ace is 11."""
    stand_return: float
    hit_return: float
    """Expected returns of both actions where the same policy plays the rest."""


HitProbability = Callable[[Decision], float]


class Values(NamedTuple):
    """Mean return of a policy, and the probabilities of its outcomes."""

    mean: float
    win: float
    push: float
    loss: float


def evaluate(policy: HitProbability) -> Values:
    """Return the exact values of `policy` over all deals."""
    hand_values: dict[tuple[Ranks, int], Array] = {}
    outcome = np.zeros(3)
    for first in range(10):
        for second in range(10):
            for dealer in range(10):
                probability, left = 1.0, list(DECK)
                for drawn, rank in enumerate((first, second, dealer)):
                    probability *= left[rank] / (52 - drawn)
                    left[rank] -= 1
                own = Counter((first, second))
                ranks = tuple(own[rank] for rank in range(10))
                outcome += probability * _play_hand(policy, ranks, dealer, hand_values)
    win, push, loss = (float(share) for share in outcome)
    return Values(win - loss, win, push, loss)


def best(decision: Decision) -> float:
    """The optimal policy: the action with the higher return."""
    return float(decision.hit_return > decision.stand_return)


def uniform(_decision: Decision) -> float:
    """Uniformly random play."""
    return 0.5


def stand_from(total: int) -> HitProbability:
    """Return the policy that hits below `total`."""
    return lambda decision: float(decision.total < total)


def _play_hand(policy: HitProbability, own: Ranks, dealer: int, known: dict[tuple[Ranks, int], Array]) -> Array:
    """Probabilities of win, push and loss from a hand up to 21. known: results by hand and open rank."""
    if (own, dealer) in known:
        return known[own, dealer]
    total, soft = _total(own)
    stand, hit = _stand(own, dealer, total), _hit(policy, own, dealer, known)
    open_value = 11 if dealer == 0 else VALUES[dealer]
    p_hit = policy(Decision(total, soft, open_value, float(stand @ RETURN), float(hit @ RETURN)))
    known[own, dealer] = p_hit * hit + (1.0 - p_hit) * stand
    return known[own, dealer]


def _hit(policy: HitProbability, own: Ranks, dealer: int, known: dict[tuple[Ranks, int], Array]) -> Array:
    unseen = 52 - sum(own) - 1
    outcome = np.zeros(3)
    for rank in range(10):
        left = DECK[rank] - own[rank] - (rank == dealer)
        if left == 0:
            continue
        grown = (*own[:rank], own[rank] + 1, *own[rank + 1 :])
        is_bust = _hard_total(grown) > GOAL
        outcome += left / unseen * (np.array([0.0, 0.0, 1.0]) if is_bust else _play_hand(policy, grown, dealer, known))
    return outcome


def _stand(own: Ranks, dealer: int, total: int) -> Array:
    finals = _dealer_finals(dealer, own)
    win = finals[BUST] + sum(finals[final - 16] for final in range(DEALER_STANDS, min(total, 22)))
    push = finals[total - 16] if total >= DEALER_STANDS else 0.0
    return np.array([win, push, 1.0 - win - push])


def _hard_total(ranks: Ranks) -> int:
    return sum(count * value for count, value in zip(ranks, VALUES, strict=True))


def _total(ranks: Ranks) -> tuple[int, bool]:
    hard = _hard_total(ranks)
    soft = ranks[0] > 0 and hard + 10 <= GOAL
    return hard + 10 * soft, soft


@cache
def _dealer_finals(dealer: int, own: Ranks) -> Array:
    """[6]: probabilities that the dealer ends bust, or at 17, 18, 19, 20, 21, given the cards in sight."""
    drawn, orders, finals = _dealer_hands(dealer)
    left = np.array(DECK) - np.array(own)
    left[dealer] -= 1
    sizes = drawn.sum(axis=1)
    chances = orders / _falling(int(left.sum()), sizes.max())[sizes]
    for rank in range(10):
        chances = chances * _falling(int(left[rank]), drawn[:, rank].max())[drawn[:, rank]]
    return np.bincount(finals, weights=chances, minlength=6).astype(np.float64)


def _falling(cards: int, longest: int) -> Array:
    """[longest + 1]: the number of ways to draw 0, 1, ... of `cards` cards in order."""
    factors = np.maximum(cards - np.arange(longest), 0)
    return np.concatenate(([1.0], np.cumprod(factors, dtype=np.float64)))


@cache
def _dealer_hands(dealer: int) -> tuple[Any, Array, Any]:
    """The dealer's draws to an open rank: multisets [H, 10], drawing orders of each [H], final slots [H]."""
    orders: Counter[Ranks] = Counter()
    final_slots: dict[Ranks, int] = {}

    def draw(drawn: list[int]) -> None:
        hand = list(drawn)
        hand[dealer] += 1
        total, _ = _total(tuple(hand))
        if sum(drawn) and total >= DEALER_STANDS:
            orders[tuple(drawn)] += 1
            final_slots[tuple(drawn)] = BUST if total > GOAL else total - 16
            return
        for rank in range(10):
            if hand[rank] < DECK[rank]:
                drawn[rank] += 1
                draw(drawn)
                drawn[rank] -= 1

    draw([0] * 10)
    hands = list(orders)
    return np.array(hands), np.array([orders[h] for h in hands], float), np.array([final_slots[h] for h in hands])
