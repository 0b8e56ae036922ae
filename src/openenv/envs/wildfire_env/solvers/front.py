"""A good player: water where most fire is to be expected, else a firebreak in the trees most in danger."""

from collections.abc import Mapping
from random import Random

from openenv.envs.wildfire_env.models import WildfireAction, WildfireObservation
from openenv.envs.wildfire_env.server.forest import Cell, Forest

_CHANCE = 0.3
"""The spread that is assumed; only the order of the dangers matters."""
_LEAST_DANGER = 0.02
"""With less, supplies are kept."""


def front_action(seen: WildfireObservation, _: Random) -> WildfireAction:
    """Water on the burning cell that endangers most, counted two steps ahead; else a firebreak; else wait."""
    forest = Forest([list(row) for row in seen.board.split("\n")], seen.wind, _CHANCE)
    fires: dict[Cell, float] = dict.fromkeys(((row, column) for row, column in seen.burning), 0.0)
    danger: dict[Cell, float] = {}
    for cell in fires:
        for ahead, chance in forest.chances(cell):
            weight = chance * (1 + sum(onward for _, onward in forest.chances(ahead)))
            fires[cell] += weight
            danger[ahead] = danger.get(ahead, 0.0) + weight
    return _on("water", fires, seen.water) or _on("firebreak", danger, seen.firebreaks) or WildfireAction(kind="wait")


def _on(kind: str, weights: Mapping[Cell, float], left: int) -> WildfireAction | None:
    """The action on the cell of most weight; None without supplies or danger."""
    if left == 0 or max(weights.values(), default=0.0) < _LEAST_DANGER:
        return None
    row, column = max(weights, key=lambda cell: weights[cell])
    return WildfireAction.model_validate({"kind": kind, "row": row, "column": column})
