"""Players of three games by a simple rule, and random play of RLCard alone."""

from collections.abc import Iterator
from random import Random

import rlcard

from openenv.envs.cards_env.models import CardsAction, CardsObservation


def random_steps(game: str) -> Iterator[int]:
    """Random play of RLCard by itself, with every seat's moves counted as those of one seat."""
    env, rng = rlcard.make(game, config={"seed": 0}), Random(0)
    while True:
        seen, player = env.reset()
        while not env.is_over():
            is_counted = player == 0
            seen, player = env.step(rng.choice(list(seen["legal_actions"])))
            if is_counted:
                yield 1


def leduc_action(seen: CardsObservation, _: Random) -> CardsAction:
    """Raise with a pair or a king, check or fold a jack, call with a queen."""
    rank = seen.hand[0][0]
    is_pair = f"Public card: {rank}" in seen.public
    wanted = ["raise", "call"] if is_pair or rank == "K" else ["check", "fold"] if rank == "J" else ["check", "call"]
    return _first(seen, wanted)


def blackjack_action(seen: CardsObservation, _: Random) -> CardsAction:
    """Hit below 15, which wins most often of the fixed limits against a dealer that draws to 17."""
    total = sum(11 if card[0] == "A" else int(card[0]) if card[0].isdigit() else 10 for card in seen.hand)
    for _ace in range(sum(card[0] == "A" for card in seen.hand)):
        total -= 10 if total > 21 else 0
    return _first(seen, ["hit"] if total < 15 else ["stand"])


def limit_action(seen: CardsObservation, _: Random) -> CardsAction:
    """Always raise: random play folds a third of the time."""
    return _first(seen, ["raise", "call", "check"])


def _first(seen: CardsObservation, names: list[str]) -> CardsAction:
    """The first of the named actions that is legal; else the first legal one."""
    legal = dict(zip(seen.legal_action_names, seen.legal_actions, strict=True))
    return CardsAction(action_id=next((legal[name] for name in names if name in legal), seen.legal_actions[0]))
