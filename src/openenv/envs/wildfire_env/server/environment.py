"""The wildfire environment."""

import json
from random import Random
from typing import Any
from uuid import uuid4

from openenv.core.env_server.interfaces import Environment
from openenv.envs.reset_values import (
    random_state,
    refuse_other_keywords,
    require_choice,
    require_number,
    require_whole,
    restored_random,
)
from openenv.envs.wildfire_env.models import WildfireAction, WildfireObservation, WildfireState
from openenv.envs.wildfire_env.server.forest import STEPS, WINDS, Forest, random_forest
from openenv.formats.json_text import json_text

SMALLEST, LARGEST = 4, 20
MOST_FIRES = 8
MOST_SUPPLIES = 400
OUT_REWARD = 1.0
LOSS = 2.0
"""What a forest that burns down wholly costs; each cell costs its share."""
KEYWORDS = ("size", "fires", "spread", "moist", "wind", "water", "firebreaks")


class WildfireEnvironment(Environment[WildfireAction, WildfireObservation, WildfireState]):
    """Save the trees. The end of the fire earns 1; a cell that catches fire costs 2 divided by the number of cells."""

    execution = "inline"

    def __init__(self) -> None:
        self._state = WildfireState()
        self._rng = Random(0)
        self._forest = random_forest(SMALLEST, 0, 0.0, 0.0, "none", self._rng)
        self._water, self._firebreaks = 0, 0

    def reset(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        size: int = 8,
        fires: int = 4,
        spread: float = 0.3,
        moist: float = 0.3,
        wind: str | None = None,
        water: int = 4,
        firebreaks: int = 4,
        **kwargs: Any,
    ) -> WildfireObservation:
        """Plant a forest of size x size cells and light it. Equal seeds give equal forests, and equal fires.

        Args:
            fires: cells that burn at first.
            spread: the chance that a burning cell lights dry trees beside it in a step without wind.
            moist: the share of moist trees.
            wind: where it blows to; None draws it.
            water, firebreaks: how many there are.

        Raises:
            ValueError: for another keyword or value.
        """
        refuse_other_keywords(kwargs, KEYWORDS)
        require_whole("size", size, SMALLEST, LARGEST)
        require_whole("fires", fires, 1, MOST_FIRES)
        require_number("spread", spread, 0, 0.5)
        require_number("moist", moist, 0, 1)
        require_whole("water", water, 0, MOST_SUPPLIES)
        require_whole("firebreaks", firebreaks, 0, MOST_SUPPLIES)
        if wind is not None:
            require_choice("wind", wind, WINDS)
        seed = Random().getrandbits(32) if seed is None else seed
        self._rng = Random(seed)
        drawn = self._rng.choice(list(STEPS))
        blows_to = next((known for known in WINDS if known == wind), drawn)
        self._forest = random_forest(size, fires, spread, moist, blows_to, self._rng)
        self._water, self._firebreaks = water, firebreaks
        self._state = WildfireState(
            episode_id=episode_id or str(uuid4()), size=size, wind=blows_to, spread=spread, seed=seed
        )
        return self._observation(reward=None, metadata={"seed": seed})

    def step(self, action: WildfireAction, timeout_s: float | None = None, **kwargs: Any) -> WildfireObservation:
        """Act, then let the fire spread. Raises ValueError for what is impossible; the forest then stays as it was."""
        self._act(action)
        caught = self._forest.burn(self._rng)
        self._state.step_count += 1
        self._state.caught += caught
        is_out = not self._forest.steps_left
        reward = OUT_REWARD * is_out - LOSS * caught / self._state.size**2
        return self._observation(reward, metadata={})

    def save_state(self) -> bytes:
        """The forest, what is left, the random numbers and the state."""
        saved = {
            "board": self._forest.board(),
            "steps_left": [[*cell, left] for cell, left in self._forest.steps_left.items()],
            "supplies": [self._water, self._firebreaks],
            "rng": random_state(self._rng),
            "state": self._state.model_dump(),
        }
        return json_text(saved).encode()

    def load_state(self, snapshot: bytes) -> None:
        """Continue a saved episode."""
        saved = json.loads(snapshot)
        self._state = WildfireState(**saved["state"])
        rows = [list(row) for row in saved["board"].split("\n")]
        self._forest = Forest(rows, self._state.wind, self._state.spread)
        self._forest.steps_left = {(row, column): left for row, column, left in saved["steps_left"]}
        self._water, self._firebreaks = saved["supplies"]
        self._rng = restored_random(saved["rng"])

    @property
    def state(self) -> WildfireState:
        """The episode's id, its number of steps, and its forest."""
        return self._state

    def _act(self, action: WildfireAction) -> None:
        """Do what an action names. Raises ValueError where that is not possible."""
        cell, forest = (action.row, action.column), self._forest
        if action.kind == "water":
            if self._water == 0 or cell not in forest.steps_left:
                raise _impossible(action, "water", self._water, "a burning cell", forest.burning)
            self._water -= 1
            forest.put_out(cell)
        elif action.kind == "firebreak":
            near = forest.near_fire()
            if self._firebreaks == 0 or cell not in near:
                raise _impossible(action, "firebreaks", self._firebreaks, "trees up to two cells from fire", near)
            self._firebreaks -= 1
            forest.cut(cell)

    def _observation(self, reward: float | None, metadata: dict[str, Any]) -> WildfireObservation:
        forest = self._forest
        is_out = not forest.steps_left
        fields = {
            "burning": [list(cell) for cell in forest.burning],
            "wind": forest.wind,
            "water": self._water,
            "firebreaks": self._firebreaks,
            "trees": forest.count_trees(),
            "board": forest.board(),
            "legal_actions": [] if is_out else self._legal_actions(),
            "done": is_out,
            "reward": reward,
            "metadata": metadata,
        }
        return WildfireObservation.construct_unchecked(fields)

    def _legal_actions(self) -> list[dict[str, int | str]]:
        cells = {
            "water": self._forest.burning if self._water else [],
            "firebreak": self._forest.near_fire() if self._firebreaks else [],
        }
        actions: list[dict[str, int | str]] = [
            {"kind": kind, "row": row, "column": column} for kind, places in cells.items() for row, column in places
        ]
        return [*actions, {"kind": "wait"}]


def _impossible(
    action: WildfireAction, supply: str, left: int, needed: str, cells: list[tuple[int, int]]
) -> ValueError:
    """The error for an action that is not possible. cells: where it would be."""
    place = f"{action.kind} at row={action.row}, column={action.column}"
    if left == 0:
        return ValueError(f"{place}: {supply} is 0, all are used. Choose another kind, or wait.")
    listed = ", ".join(f"({row}, {column})" for row, column in cells[:20])
    return ValueError(f"{place}: expected {needed}, one of {listed}." if cells else f"{place}: there are none. Wait.")
