"""A MiniGrid environment as an environment of this package."""

import pickle
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import gymnasium

from openenv.core.env_server.interfaces import Environment, Execution
from openenv.envs.minigrid_env.models import ACTION_NAMES, MiniGridAction, MiniGridObservation, MiniGridState
from openenv.envs.minigrid_env.server.choice import RESET_FIELDS, GridChoice, resolve_choice
from openenv.envs.rendering import frame_png

_SEED_BITS = 31
_NO_METADATA: Mapping[str, Any] = {}


@dataclass
class _Episode:
    """An episode, as a snapshot holds it."""

    choice: GridChoice
    env: gymnasium.Env[Any, Any]
    num_actions: int
    episode_id: str
    step_count: int = 0


class MiniGridEnvironment(Environment[MiniGridAction, MiniGridObservation, MiniGridState]):
    """Plays any environment of MiniGrid and BabyAI. The arguments are the defaults of `reset`."""

    execution: Execution = "inline"  # "thread" on an instance that draws frames
    success_return = 0.05  # the goal earns 0.1 or more, and nothing else does

    def __init__(self, **defaults: Any) -> None:
        """defaults: fields of GridChoice. Raises ValueError, naming the field, for a wrong one."""
        self._default = resolve_choice(defaults, GridChoice())
        self._episode: _Episode | None = None
        self.execution = _execution(self._default)

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> MiniGridObservation:
        """Start an episode.

        seed: equal seeds give equal episodes under equal actions. Without one, a random seed is chosen; the metadata
        contains it. env_id, max_steps, render: replace the server's for this episode. Raises ValueError for any other
        keyword or a wrong value. The current episode then continues.
        """
        choice = resolve_choice(kwargs, self._default)
        if seed is None:
            seed = secrets.randbits(_SEED_BITS)
        last = self._episode
        env = last.env if last is not None and last.choice == choice else choice.make()
        seen, _ = env.reset(seed=seed)
        space: Any = env.action_space
        self._episode = _Episode(choice, env, int(space.n), episode_id or str(uuid4()))
        self.execution = _execution(choice)
        return _make_observation(self._episode, seen, metadata={"seed": seed})

    def execution_for(self, verb: str, keywords: Mapping[str, Any]) -> Execution:
        """Run loads, frames and the resets of BabyAI in a thread."""
        if verb != "reset":
            return "thread" if verb == "load" else self.execution
        try:
            choice = resolve_choice({name: keywords.get(name) for name in RESET_FIELDS}, self._default)
        except ValueError:
            return "inline"  # reset refuses it at once
        return "inline" if choice.resets_quickly else "thread"

    def step(self, action: MiniGridAction, timeout_s: float | None = None, **kwargs: Any) -> MiniGridObservation:
        """Apply an action. Raises ValueError for one that this environment does not have."""
        episode = self._episode
        if episode is None:
            raise ValueError("step came before reset: there is no episode yet. Call reset() first.")
        if action.action_id >= episode.num_actions:
            names = ", ".join(f"{number} {name}" for number, name in enumerate(ACTION_NAMES[: episode.num_actions]))
            raise ValueError(f"action_id={action.action_id}: {episode.choice.env_id} has only {names}.")
        seen, reward, is_over, is_cut, _ = episode.env.step(action.action_id)
        episode.step_count += 1
        limit = episode.choice.max_steps
        is_cut = bool(is_cut) or (limit is not None and episode.step_count >= limit)
        return _make_observation(
            episode, seen, reward=float(reward), terminated=bool(is_over), truncated=is_cut and not is_over
        )

    def save_state(self) -> bytes:
        """Return the episode with its grid and random numbers, pickled. Raises ValueError before the first reset."""
        if self._episode is None:
            raise ValueError("there is no episode to save yet. Call reset() first.")
        return pickle.dumps(self._episode)

    def load_state(self, snapshot: bytes) -> None:
        """Continue a saved episode: equal actions give equal futures. The server loads its own snapshots only."""
        episode: _Episode = pickle.loads(snapshot)
        self._episode = episode
        self.execution = _execution(episode.choice)

    @property
    def state(self) -> MiniGridState:
        """The environment's id, limit and rendering, and the number of steps."""
        episode = self._episode
        if episode is None:
            return MiniGridState(**vars(self._default))
        return MiniGridState(episode_id=episode.episode_id, step_count=episode.step_count, **vars(episode.choice))


def _execution(choice: GridChoice) -> Execution:
    return "thread" if choice.render else "inline"


def _make_observation(
    episode: _Episode,
    seen: Mapping[str, Any],
    *,
    reward: float | None = None,
    terminated: bool = False,
    truncated: bool = False,
    metadata: Mapping[str, Any] = _NO_METADATA,
) -> MiniGridObservation:
    done = terminated or truncated
    legal = [] if done else list(range(episode.num_actions))
    known: dict[str, Any] = {"env_id": episode.choice.env_id, **metadata}
    if legal:
        known["legal_action_names"] = list(ACTION_NAMES[: episode.num_actions])
    fields = {
        "done": done,
        "reward": reward,
        "metadata": known,
        "image": seen["image"],
        "direction": int(seen["direction"]),
        "mission": str(seen["mission"]),
        "legal_actions": legal,
        "truncated": truncated,
        "pixels": frame_png(episode.env.render) if episode.choice.render else None,
    }
    return MiniGridObservation.construct_unchecked(fields)
