"""A registered Gymnasium environment as an environment of this package."""

import secrets
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

import gymnasium

from openenv.core.env_server.interfaces import Environment, Execution
from openenv.envs.gymnasium_env.models import GymnasiumAction, GymnasiumObservation, GymnasiumState
from openenv.envs.gymnasium_env.server.choice import RESET_FIELDS, EnvChoice, resolve_choice
from openenv.envs.gymnasium_env.server.episode import Episode
from openenv.envs.gymnasium_env.server.snapshots import load_episode, save_episode
from openenv.envs.gymnasium_env.server.vector import GymnasiumVector
from openenv.envs.spaces import describe_space, to_element

_SEED_BITS = 31


class GymnasiumEnvironment(Environment[GymnasiumAction, GymnasiumObservation, GymnasiumState]):
    """Plays any registered Gymnasium environment. The arguments are the defaults of `reset`."""

    execution: Execution = "inline"  # "thread" on an instance that plays anything but toy text and classic control

    def __init__(
        self,
        env_id: str = "CartPole-v1",
        env_options: dict[str, Any] | None = None,
        max_steps: int | None = None,
        render: bool = False,
    ) -> None:
        """Raises ValueError, naming the argument, for a wrong one. Options are checked by Gymnasium, in `reset`."""
        self._default = EnvChoice(env_id=env_id, env_options=env_options or {}, max_steps=max_steps, render=render)
        self._episode: Episode | None = None
        self.execution = _execution(self._default)

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> GymnasiumObservation:
        """Start an episode.

        seed: equal seeds give equal episodes under equal actions. Without one, a random seed is chosen; the metadata
        contains it. env_id, env_options, max_steps, render: replace the server's for this episode. Another id than the
        server's starts from the defaults of that id. render: whether each observation carries the rendered frame.
        Raises ValueError for any other keyword or a wrong value. The current episode then continues.
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
        episode = Episode(choice, env, metadata, discrete, episode_id or str(uuid4()), seed)
        first = {"observation_space": describe_space(env.observation_space), "seed": seed}
        observation = episode.observation(value, info, metadata=first)
        if self._episode is not None and self._episode.env is not env:
            self._episode.close()
        self._episode = episode
        self.execution = _execution(choice)
        self.success_return = None if env.spec is None else env.spec.reward_threshold
        return observation

    def _env_of(self, choice: EnvChoice) -> gymnasium.Env[Any, Any]:
        """The environment of the current episode where it is of this choice, else a new one."""
        episode = self._episode
        is_same = episode is not None and episode.choice == choice and choice.is_reusable
        return episode.env if episode is not None and is_same else choice.make()

    def execution_for(self, verb: str, keywords: Mapping[str, Any]) -> Execution:
        """Run loads, and resets that make a heavy environment or a map, in a thread."""
        if verb == "load":
            return "thread"
        if verb != "reset":
            return self.execution
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
        return episode.step(to_element(episode.env.action_space, action.value))

    def vectorized(self, num_envs: int) -> GymnasiumVector:
        """Environments that are stepped in one loop, whose observations are arrays."""
        return GymnasiumVector(self._default, num_envs)

    def save_state(self) -> bytes:
        """Return the episode with its environment and random numbers; in Box2D, its seed and actions.

        Raises ValueError before the first reset, and for environments of other packages.
        """
        if self._episode is None:
            raise ValueError("there is no episode to save yet. Call reset() first.")
        return save_episode(self._episode)

    def load_state(self, snapshot: bytes) -> None:
        """Continue a saved episode: equal actions give equal futures. The server loads its own snapshots only."""
        episode = load_episode(snapshot)
        self.close()
        self._episode = episode
        self.execution = _execution(episode.choice)

    @property
    def state(self) -> GymnasiumState:
        """The environment's id, options, limit and rendering, and the number of steps."""
        episode = self._episode
        if episode is None:
            return GymnasiumState(**vars(self._default))
        return GymnasiumState(episode_id=episode.episode_id, step_count=episode.step_count, **vars(episode.choice))

    def close(self) -> None:
        """Close the environment."""
        if self._episode is not None:
            self._episode.close()
            self._episode = None


def _execution(choice: EnvChoice) -> Execution:
    return "inline" if choice.is_quick else "thread"
