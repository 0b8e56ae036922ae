"""Records an episode and the tasks of each environment for its page: `python -m website.record [NAME ...]`.

Run it after a change of what an environment shows, or of its tasks. Without names it records all environments that are
installed: `.venv-envs/bin/python`, of `make test-envs`, has all but those that need a program.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from openenv.auto.environment import ServedEnvironment, named_environment
from openenv.core.env_server.types import Observation
from openenv.envs.catalog import CatalogEntry, entries
from openenv.envs.measured import MeasuredTask
from openenv.formats.json_text import json_text
from openenv.policies.baselines import RandomPolicy
from openenv.policies.declared import FunctionPolicy
from openenv.web.views import ObservationView

REPLAYS, TASKS = (Path(__file__).parent / name for name in ("replays", "tasks"))
_MOST_STEPS, _MOST_PICTURES = 40, 20
_PICTURES: Mapping[str, Mapping[str, Any]] = {
    "atari": {"obs_type": "rgb"},  # its good player reads the memory, so that random play is shown
    "dm_control": {"render": True, "width": 160, "height": 120},
    "gymnasium": {"render": True},
    "minigrid": {"render": True},
}
"""Keywords of resets with which observations have a picture."""
_LONGEST = 1_500
"""Characters of a text that are kept."""
_SEED = 7


def main(names: list[str]) -> None:
    """Write the files of names, or of all that are installed."""
    for entry in entries():
        if (not names and entry.is_installed and not entry.missing_programs) or entry.name in names:
            _write(REPLAYS / f"{entry.name}.json", recorded(entry))
            if entry.extra:  # the tasks of others are known where the site is made
                _write(TASKS / f"{entry.name}.json", entry.load_tasks())


def _write(path: Path, value: Any) -> None:
    path.write_text(json_text(value) + "\n", encoding="utf-8")
    print(f"written: website/{path.parent.name}/{path.name}")


def recorded(entry: CatalogEntry) -> dict[str, Any]:
    """An episode of the environment's first measured task, by its good player, or by random play without one."""
    name, task = next(iter(entry.load_measured().items()))
    with named_environment(entry.name).served() as served, served.client() as client:
        pictures = _PICTURES.get(entry.name, {})
        policy, player = _player(served, task, can_see="obs_type" not in pictures)
        view = ObservationView(served.observation_class)
        result = client.reset(seed=_SEED, **{**task.reset, **pictures})
        steps = [_shown(view, result, "reset")]
        while not result.done and len(steps) <= (_MOST_PICTURES if pictures else _MOST_STEPS):
            action = policy.select_action(result.observation)
            said = served.text.wording(action, result.observation) or str(action)
            result = client.step(action)
            steps.append(_shown(view, result, said))
    return {"task": name, "player": player, "seed": _SEED, "steps": steps}


def _player(served: ServedEnvironment, task: MeasuredTask, *, can_see: bool) -> tuple[Any, str]:
    if task.heuristic is None or not can_see:
        return RandomPolicy(_SEED, text=served.text), "random play"
    return FunctionPolicy("heuristic", task.heuristic, _SEED), "the good player of its manifest"


def _shown(view: ObservationView, result: Any, action: str) -> dict[str, Any]:
    """A step: what was done, what came of it, and the parts of the observation that a page draws."""
    observation: Observation = result.observation
    parts = [part for part in view.parts(observation.model_dump(mode="json")) if part["kind"] != "details"]
    for part in parts:
        if part["kind"] == "text":
            part["value"] = part["value"][:_LONGEST]
    return {"action": action[:_LONGEST], "reward": result.reward, "done": result.done, "parts": parts}


if __name__ == "__main__":
    main(sys.argv[1:])
