"""A registered Gymnasium environment as an environment of this package."""

import pickle
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import gymnasium

from openenv.core.env_server.interfaces import Environment, Execution
from openenv.envs.gymnasium_env.models import GymnasiumAction, GymnasiumObservation, GymnasiumState
from openenv.envs.gymnasium_env.server.choice import RESET_FIELDS, EnvChoice, resolve_choice
from openenv.envs.gymnasium_env.server.spaces import action_names, describe_space, to_element, to_json

_SEED_BITS = 31
_NO_METADATA: Mapping[str, Any] = {}


@dataclass
class _Episode:
    """An episode, as a snapshot holds it."""

    choice: EnvChoice
    env: gymnasium.Env[Any, Any]
    metadata: dict[str, Any]
    """Of every observation."""
    discrete: range | None
    """The actions of a Discrete action space; None for other spaces."""
    episode_id: str
    step_count: int = 0


class GymnasiumEnvironment(Environment[GymnasiumAction, GymnasiumObservation, GymnasiumState]):
    """Plays any registered Gymnasium environment. The arguments are the defaults of `reset`."""

    execution: Execution = "inline"  # "thread" on an instance that plays anything but toy text and classic control

    def __init__(
        self, env_id: str = "CartPole-v1", env_options: dict[str, Any] | None = None, max_steps: int | None = None
    ) -> None:
        """Raises ValueError, naming the argument, for a wrong one. Options are checked by Gymnasium, in `reset`."""
        self._default = EnvChoice(env_id=env_id, env_options=env_options or {}, max_steps=max_steps)
        self._episode: _Episode | None = None
        self.execution = _execution(self._default)

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> GymnasiumObservation:
        """Start an episode.

        seed: equal seeds give equal episodes under equal actions. Without one, a random seed is chosen; the metadata
        contains it. env_id, env_options, max_steps: replace the server's for this episode. Another id than the server's
        starts from the defaults of that id. Raises ValueError for any other keyword or a wrong value. The current
        episode then continues.
        """
        choice = resolve_choice(kwargs, self._default)
        if seed is None:
            seed = secrets.randbits(_SEED_BITS)
        env = self._env_of(choice)
        value, info = env.reset(seed=seed)
        space = env.action_space
        metadata: dict[str, Any] = {"env_id": choice.env_id, "action_space": describe_space(space)}
        if choice.env_options:
            metadata["env_options"] = choice.env_options
        discrete = None
        if isinstance(space, gymnasium.spaces.Discrete):
            discrete = range(int(space.start), int(space.start + space.n))
        self._episode = _Episode(choice, env, metadata, discrete, episode_id or str(uuid4()))
        self.execution = _execution(choice)
        first = {"observation_space": describe_space(env.observation_space), "seed": seed}
        return _make_observation(self._episode, value, info, metadata=first)

    def _env_of(self, choice: EnvChoice) -> gymnasium.Env[Any, Any]:
        """The environment of the current episode where it is of this choice, else a new one."""
        episode = self._episode
        if episode is not None and episode.choice == choice and choice.is_reusable:
            return episode.env
        env = choice.make()
        self.close()
        return env

    def execution_for(self, verb: str, keywords: Mapping[str, Any]) -> Execution:
        """Run resets that make a heavy environment or a map in a thread."""
        if verb != "reset":
            return "inline"
        try:
            choice = resolve_choice({name: keywords.get(name) for name in RESET_FIELDS}, self._default)
        except ValueError:
            return "inline"  # reset refuses it at once
        has_map = any(isinstance(option, list) for option in choice.env_options.values())
        return "thread" if has_map else _execution(choice)

    def step(self, action: GymnasiumAction, timeout_s: float | None = None, **kwargs: Any) -> GymnasiumObservation:
        """Apply an action. Raises ValueError, naming the space, for one that is not in the action space."""
        episode = self._episode
        if episode is None:
            raise ValueError("step came before reset: there is no episode yet. Call reset() first.")
        element = to_element(episode.env.action_space, action.value)
        value, reward, terminated, truncated, info = episode.env.step(element)
        episode.step_count += 1
        return _make_observation(
            episode, value, info, reward=float(reward), terminated=bool(terminated), truncated=bool(truncated)
        )

    def save_state(self) -> bytes:
        """Return the episode with its environment and random numbers, pickled.

        Raises ValueError before the first reset, and for Box2D, whose worlds cannot be copied, and MuJoCo and others,
        whose copies are new environments.
        """
        episode = self._episode
        if episode is None:
            raise ValueError("there is no episode to save yet. Call reset() first.")
        if not episode.choice.is_light:
            raise ValueError(
                f"{episode.choice.env_id} cannot be saved: only toy text and classic control have exact copies. Reset "
                "with the same seed and repeat the actions."
            )
        return pickle.dumps(episode)

    def load_state(self, snapshot: bytes) -> None:
        """Continue a saved episode: equal actions give equal futures. The server loads its own snapshots only."""
        episode: _Episode = pickle.loads(snapshot)
        self.close()
        self._episode = episode
        self.execution = _execution(episode.choice)

    @property
    def state(self) -> GymnasiumState:
        """The environment's id, options and limit, and the number of steps."""
        episode = self._episode
        if episode is None:
            return GymnasiumState(**vars(self._default))
        return GymnasiumState(episode_id=episode.episode_id, step_count=episode.step_count, **vars(episode.choice))

    def close(self) -> None:
        """Close the environment."""
        if self._episode is not None:
            self._episode.env.close()
            self._episode = None


def _execution(choice: EnvChoice) -> Execution:
    """Toy text and classic control take microseconds a step; a physics engine takes up to tens of milliseconds."""
    return "inline" if choice.is_light else "thread"


def _make_observation(
    episode: _Episode,
    value: Any,
    info: Mapping[str, Any],
    *,
    reward: float | None = None,
    terminated: bool = False,
    truncated: bool = False,
    metadata: Mapping[str, Any] = _NO_METADATA,
) -> GymnasiumObservation:
    done = terminated or truncated
    mask = info.get("action_mask")
    legal = [] if done or episode.discrete is None else list(episode.discrete)
    if mask is not None:
        legal = [action for action, is_open in zip(legal, mask, strict=False) if is_open]
    names = action_names(episode.choice.env_id, legal)
    metadata = {**episode.metadata, **metadata}
    if names:
        metadata["legal_action_names"] = names
    if info:
        metadata["info"] = to_json(info)
    fields = {
        "done": done,
        "reward": reward,
        "metadata": metadata,
        "value": to_json(value),
        "truncated": truncated,
        "legal_actions": legal,
    }
    return GymnasiumObservation.construct_unchecked(fields)
