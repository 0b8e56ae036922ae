"""The simulated queues of `python -m benchmarks.fleet` keep the laws of closed queues."""

import statistics

import pytest
from benchmarks.fleet.queues import Costs, simulate

COSTS = Costs(client_s=0.001, server_s=0.002, way_s=0.0005)
NO_WAIT_S = COSTS.client_s + COSTS.server_s + COSTS.way_s


def test_one_session_waits_for_nothing() -> None:
    one = simulate(COSTS, 1, 0.0, 10.0, one_client=True)

    assert statistics.fmean(one.latencies_s) == pytest.approx(NO_WAIT_S)
    assert one.rate == pytest.approx(1 / NO_WAIT_S, rel=1e-3)


@pytest.mark.parametrize(("client_s", "slowest_s"), [(0.001, 0.002), (0.004, 0.004)])
def test_many_sessions_are_as_fast_as_the_slower_side(client_s: float, slowest_s: float) -> None:
    many = simulate(Costs(client_s=client_s, server_s=0.002), 100, 0.0, 10.0, one_client=True)

    assert many.rate == pytest.approx(1 / slowest_s, rel=0.02)


@pytest.mark.parametrize("one_client", [True, False])
def test_sessions_are_either_thinking_or_waiting(one_client: bool) -> None:
    """Little's law: sessions = rate x (thinking + latency)."""
    found = simulate(Costs(client_s=0.001, server_s=0.002, spread=(0.5, 1.5)), 50, 0.2, 200.0, one_client=one_client)

    in_a_round = 0.2 + statistics.fmean(found.latencies_s)
    assert found.rate * in_a_round == pytest.approx(50, rel=0.02)
    assert found.busy == pytest.approx(found.rate * 0.002, rel=0.02)
