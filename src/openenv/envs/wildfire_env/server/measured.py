"""The tasks of wildfire, and what `openenv envs --measure` plays: two sizes of forests."""

from collections.abc import Mapping
from random import Random
from typing import Any

from openenv.envs.measured import MeasuredTask, in_process
from openenv.envs.wildfire_env.models import WildfireAction, WildfireObservation
from openenv.envs.wildfire_env.server.environment import WildfireEnvironment
from openenv.envs.wildfire_env.solvers.front import front_action

SMALL: Mapping[str, Any] = {"size": 5, "fires": 2, "water": 3, "firebreaks": 3}


def tasks() -> Mapping[str, Mapping[str, Any]]:
    """The reset keywords of each task."""
    return {
        "wildfire": {},
        "small": SMALL,
        "large": {"size": 15, "fires": 5, "water": 10, "firebreaks": 10},
        "calm": {"wind": "none"},
        "dry": {"moist": 0.0},
        "firebreaks_only": {"water": 0, "firebreaks": 12},
    }


def _random(seen: WildfireObservation, rng: Random) -> WildfireAction:
    return WildfireAction.model_validate(rng.choice(seen.legal_actions))


MEASURED = {
    "wildfire": MeasuredTask(play_bare=in_process(WildfireEnvironment, _random), heuristic=front_action),
    "small": MeasuredTask(
        reset=SMALL, play_bare=in_process(WildfireEnvironment, _random, **SMALL), heuristic=front_action
    ),
}
