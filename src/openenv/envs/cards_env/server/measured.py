"""The tasks of the card games, and what `openenv envs --measure` plays: three games against random play."""

import time
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import rlcard

from openenv.envs.cards_env.models import CardsAction, CardsObservation
from openenv.envs.cards_env.server.games import GAMES
from openenv.envs.cards_env.server.opponents import RULE, policies_of
from openenv.envs.measured import MeasuredTask


def tasks() -> Mapping[str, Mapping[str, Any]]:
    """The reset keywords of each game from each seat, and of each game against RLCard's rules."""
    by_seat = {
        f"{game}/seat-{seat}": {"game": game, "agent_player": seat}
        for game, known in GAMES.items()
        for seat in range(known.num_players)
    }
    by_rule = {f"{game}/rule": {"game": game, "opponent_policy": RULE} for game in GAMES if RULE in policies_of(game)}
    six = {f"{game}/six-seats": {"game": game, "num_players": 6} for game, known in GAMES.items() if known.most_players}
    return {**by_seat, **by_rule, **six}


def _bare(game: str) -> Callable[[float], float]:
    """Random play of RLCard by itself, with every seat's moves counted as those of one seat."""

    def play(seconds: float) -> float:
        env, rng, moves = rlcard.make(game, config={"seed": 0}), Random(0), 0
        started = time.perf_counter()
        while time.perf_counter() - started < seconds:
            seen, player = env.reset()
            while not env.is_over():
                moves += player == 0
                seen, player = env.step(rng.choice(list(seen["legal_actions"])))
        return moves / (time.perf_counter() - started)

    return play


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


MEASURED = {
    game: MeasuredTask(reset={"game": game}, play_bare=_bare(game), heuristic=choose)
    for game, choose in (
        ("leduc-holdem", leduc_action),
        ("blackjack", blackjack_action),
        ("limit-holdem", limit_action),
    )
}
