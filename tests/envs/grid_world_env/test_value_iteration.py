"""The best mean return of a grid equals that of the best of all policies, which are few on a small grid."""

from itertools import product

import pytest

from openenv.envs.catalog import load
from openenv.envs.grid_world_env.server.grid import STEPS, read_layout
from openenv.envs.grid_world_env.solvers.value_iteration import best_return, best_values


def mean_return(grid, slip, policy):
    """The mean return of a policy, which has a step for each number of steps taken and each cell."""
    total, places = 0.0, {grid.start: 1.0}
    for steps in policy:
        following = {}
        for place, chance in places.items():
            total -= 0.01 * chance
            for share, ahead in grid.outcomes(place, steps[place], slip):
                if ahead == grid.goal:
                    total += chance * share
                else:
                    following[ahead] = following.get(ahead, 0.0) + chance * share
        places = following
    return total


def best_of_all_policies(grid, slip, max_steps):
    cells = [cell for cell in grid.distances() if cell != grid.goal]
    steps_of_a_turn = [dict(zip(cells, steps, strict=True)) for steps in product(STEPS, repeat=len(cells))]
    return max(mean_return(grid, slip, policy) for policy in product(steps_of_a_turn, repeat=max_steps))


@pytest.mark.parametrize("slip", [0.0, 0.3, 1.0])
@pytest.mark.parametrize(("layout", "max_steps"), [(["S.", "#G"], 4), (["S.", ".G"], 2), (["SG"], 3)])
def test_value_iteration_equals_the_best_of_all_policies(layout, max_steps, slip):
    grid = read_layout(layout)

    assert best_return(grid, slip, max_steps) == pytest.approx(best_of_all_policies(grid, slip, max_steps), abs=1e-12)


def test_without_slips_the_best_return_is_that_of_the_shortest_way():
    grid = read_layout(["S#...", "..#.#", "#...G"])

    assert best_return(grid, 0.0, 60) == pytest.approx(1 - 0.01 * grid.distances()[grid.start])
    assert best_return(grid, 0.0, 4) == pytest.approx(-0.04), "the goal is farther than the limit"
    assert len(best_values(grid, 0.0, 60)) < 20, "later values are equal"


def test_the_optimum_of_the_measured_layout():
    measured = load("grid_world").load_measured()["slippery_layout"]

    exact = best_return(read_layout(measured.reset["layout"]), measured.reset["slip"], measured.reset["max_steps"])
    assert measured.best_return == pytest.approx(exact, abs=1e-12)
