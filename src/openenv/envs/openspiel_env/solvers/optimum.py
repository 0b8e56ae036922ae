"""Computes the exact values of best play and of random play in small games.

`python -m openenv.envs.openspiel_env.solvers.optimum --game catch` prints them; `--yaml` prints `baselines.yaml`.
Every other seat plays uniformly at random, and chance is exact. There are three methods: expectimax over the game tree
in rational numbers without hidden information, OpenSpiel's best response with it, and `blackjack_solver`.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from fractions import Fraction
from typing import Any, NamedTuple

import pyspiel
import yaml
from open_spiel.python.algorithms.best_response import BestResponsePolicy
from open_spiel.python.policy import UniformRandomPolicy

from openenv.envs.openspiel_env.server.games import unknown_name
from openenv.envs.openspiel_env.solvers import blackjack_solver
from openenv.envs.openspiel_env.solvers.baselines import Baseline
from openenv.envs.openspiel_env.solvers.blackjack_chart import chart_hits

LARGEST_DENOMINATOR = 10**6
"""OpenSpiel returns probabilities and returns as floats, which become fractions up to this denominator."""


class Outcome(NamedTuple):
    """Exact expectations of a policy from a state on."""

    mean: Fraction
    win: Fraction
    push: Fraction
    loss: Fraction


Policy = Callable[[Any], dict[int, Fraction]]
"""Maps a state to the probability of each of the agent's actions."""


def solve_open_game(game_name: str, seat: int) -> Iterator[Baseline]:
    """Yield best and random play of a turn-based game without hidden information, by expectimax."""
    start = pyspiel.load_game(game_name).new_initial_state()
    for policy, choose in (("optimum", max), ("random", None)):
        outcome = _expectimax(start, seat, choose, {})
        yield _baseline(game_name, seat, policy, outcome)


def _expectimax(state: Any, seat: int, choose: Any, known: dict[Any, Outcome]) -> Outcome:
    """choose: `max` to take the best child at the agent's turns, None for the average of the children."""
    if state.is_terminal():
        return _ended(state, seat)
    key = (str(state), state.current_player(), state.move_number())  # a horizon makes the move number matter
    if key not in known:
        children = [(p, _expectimax(state.child(a), seat, choose, known)) for a, p in _chances(state)]
        is_own_choice = choose is not None and state.current_player() == seat
        known[key] = choose(outcome for _, outcome in children) if is_own_choice else _average(children)
    return known[key]


def solve_hidden_game(game_name: str, seat: int) -> Iterator[Baseline]:
    """Yield best and random play of a two-player card game, by OpenSpiel's best response to uniform play."""
    game = pyspiel.load_game(game_name)
    best = BestResponsePolicy(game, seat, UniformRandomPolicy(game))

    def best_action(state: Any) -> dict[int, Fraction]:
        return {best.best_response_action(state.information_state_string(seat)): Fraction(1)}

    for policy, play in (("optimum", best_action), ("random", _uniform)):
        yield _baseline(game_name, seat, policy, _walk(game.new_initial_state(), seat, play))


def _walk(state: Any, seat: int, play: Policy) -> Outcome:
    if state.is_terminal():
        return _ended(state, seat)
    own = not state.is_chance_node() and state.current_player() == seat
    chances = list(play(state).items()) if own else _chances(state)
    return _average([(p, _walk(state.child(action), seat, play)) for action, p in chances])


def solve_blackjack(game_name: str, seat: int) -> Iterator[Baseline]:
    """Yield best and random play, the textbook chart, and the simplest policies."""
    policies: dict[str, blackjack_solver.HitProbability] = {
        "optimum": blackjack_solver.best,
        "chart": lambda d: float(chart_hits(d.total, d.soft, "A" if d.dealer == 11 else str(d.dealer))),
        "stand_from_15": blackjack_solver.stand_from(15),
        "stand_from_17": blackjack_solver.stand_from(17),
        "always_stand": blackjack_solver.stand_from(0),
        "random": blackjack_solver.uniform,
    }
    for name, policy in policies.items():
        values = blackjack_solver.evaluate(policy)
        yield Baseline(game_name, seat, name, *values)


SOLVERS: dict[str, tuple[Callable[[str, int], Iterator[Baseline]], Sequence[int]]] = {
    "blackjack": (solve_blackjack, (0,)),
    "catch": (solve_open_game, (0,)),
    "cliff_walking": (solve_open_game, (0,)),
    "kuhn_poker": (solve_hidden_game, (0, 1)),
    "leduc_poker": (solve_hidden_game, (0, 1)),
    "tic_tac_toe": (solve_open_game, (0, 1)),
}
"""How each game is solved, and for which seats."""


def solve(game_name: str) -> list[Baseline]:
    """Return all baselines of a game. Raises ValueError for a game without a solver."""
    if game_name not in SOLVERS:
        raise unknown_name("game", game_name, SOLVERS)
    solver, seats = SOLVERS[game_name]
    return [baseline for seat in seats for baseline in solver(game_name, seat)]


def _ended(state: Any, seat: int) -> Outcome:
    value = _fraction(state.returns()[seat])
    return Outcome(value, Fraction(value > 0), Fraction(value == 0), Fraction(value < 0))


def _chances(state: Any) -> list[tuple[int, Fraction]]:
    """Actions and probabilities of chance, or of a seat that plays uniformly."""
    if state.is_chance_node():
        return [(action, _fraction(probability)) for action, probability in state.chance_outcomes()]
    return list(_uniform(state).items())


def _uniform(state: Any) -> dict[int, Fraction]:
    legal = state.legal_actions()
    return dict.fromkeys(legal, Fraction(1, len(legal)))


def _average(children: Sequence[tuple[Fraction, Outcome]]) -> Outcome:
    columns = zip(*(outcome for _, outcome in children), strict=True)
    weights = [probability for probability, _ in children]
    sums = (sum((p * v for p, v in zip(weights, column, strict=True)), Fraction()) for column in columns)
    return Outcome(*sums)


def _fraction(number: float) -> Fraction:
    return Fraction(number).limit_denominator(LARGEST_DENOMINATOR)


def _baseline(game_name: str, seat: int, policy: str, outcome: Outcome) -> Baseline:
    return Baseline(game_name, seat, policy, *(float(value) for value in outcome))


def main(argv: Sequence[str] | None = None) -> None:
    """Print the baselines of one game, or of all. argv: command-line arguments; None: the program's own."""
    parser = argparse.ArgumentParser(prog="python -m openenv.envs.openspiel_env.solvers.optimum", description=__doc__)
    parser.add_argument("--game", choices=sorted(SOLVERS), help="Solve this game (default: all).")
    parser.add_argument("--yaml", action="store_true", help="Print YAML, as in baselines.yaml (default: a table).")
    args = parser.parse_args(argv)
    solved = [baseline for name in ([args.game] if args.game else SOLVERS) for baseline in solve(name)]
    if args.yaml:
        yaml.safe_dump([asdict(baseline) for baseline in solved], sys.stdout, sort_keys=False)
        return
    sys.stdout.write(f"{'game':16}{'seat':>5}  {'policy':16}{'mean':>14}{'win':>12}{'push':>12}{'loss':>12}\n")
    for b in solved:
        sys.stdout.write(
            f"{b.game:16}{b.seat:>5}  {b.policy:16}{b.mean:14.9f}{b.win:12.9f}{b.push:12.9f}{b.loss:12.9f}\n"
        )


if __name__ == "__main__":
    main()
