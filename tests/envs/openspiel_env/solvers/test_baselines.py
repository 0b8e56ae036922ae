"""Exact values of small games: known fractions, and the file that the solvers write."""

import pytest

from openenv.envs.openspiel_env.solvers import blackjack_solver, optimum
from openenv.envs.openspiel_env.solvers.baselines import BASELINES_FILE, baselines

pytestmark = pytest.mark.process


@pytest.mark.parametrize("game", ["catch", "cliff_walking", "tic_tac_toe", "kuhn_poker", "leduc_poker"])
def test_the_file_contains_what_the_solver_computes(game: str) -> None:
    for solved in optimum.solve(game):
        written = baselines(game, solved.seat)[solved.policy]
        assert (written.mean, written.win, written.push, written.loss) == pytest.approx(
            (solved.mean, solved.win, solved.push, solved.loss), abs=1e-12
        )


@pytest.mark.parametrize(
    ("game", "seat", "optimal", "random"),
    [
        ("catch", 0, 1.0, -3 / 5),
        ("cliff_walking", 0, -9.0, -108.449025695),
        ("tic_tac_toe", 0, 191 / 192, 187 / 630),
        ("tic_tac_toe", 1, 874 / 945, -187 / 630),
        ("kuhn_poker", 0, 1 / 2, 1 / 8),
        ("kuhn_poker", 1, 5 / 12, -1 / 8),
        ("leduc_poker", 0, 167 / 80, -0.078125),
        ("leduc_poker", 1, 383 / 144, 0.078125),
        ("blackjack", 0, -0.042462276, -0.392657837),
    ],
)
def test_the_values_are_the_known_ones(game: str, seat: int, optimal: float, random: float) -> None:
    known = baselines(game, seat)

    assert known["optimum"].mean == pytest.approx(optimal, abs=1e-9)
    assert known["random"].mean == pytest.approx(random, abs=1e-9)
    assert all(b.win + b.push + b.loss == pytest.approx(1.0) for b in known.values())


def test_random_play_of_blackjack_has_its_known_exact_value() -> None:
    values = blackjack_solver.evaluate(blackjack_solver.uniform)
    written = baselines("blackjack")["random"]

    assert tuple(values) == pytest.approx((written.mean, written.win, written.push, written.loss), abs=1e-12)
    assert tuple(values) == pytest.approx((-0.392657837, 0.282826684, 0.041688794, 0.675484521), abs=1e-9)


def test_no_policy_in_blackjack_beats_the_optimum() -> None:
    known = baselines("blackjack")

    assert max(known.values(), key=lambda baseline: baseline.mean).policy == "optimum"
    assert known["chart"].win == pytest.approx(0.43241629, abs=1e-8)


def test_an_unsolved_game_has_no_baselines_and_no_solver() -> None:
    assert baselines("chess") == {}
    with pytest.raises(ValueError, match="game='ches' is not known"):
        optimum.solve("ches")


def test_the_command_prints_the_table_and_the_file(capsys: pytest.CaptureFixture[str]) -> None:
    optimum.main(["--game", "catch"])
    table = capsys.readouterr().out
    optimum.main(["--game", "catch", "--yaml"])
    as_yaml = capsys.readouterr().out

    assert "catch" in table
    assert "-0.600000000" in table
    assert as_yaml in BASELINES_FILE.read_text()
