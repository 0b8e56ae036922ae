"""A task of the DeepMind Control Suite as an environment of this package."""

import secrets
from typing import Any
from uuid import uuid4

from openenv.core.env_server.interfaces import Environment, Execution
from openenv.envs.dm_control_env.models import DMControlAction, DMControlObservation, DMControlState
from openenv.envs.dm_control_env.server.choice import TaskChoice, random_state, resolve_choice
from openenv.envs.dm_control_env.server.episode import Episode, describe_actions, describe_observations

_SEED_BITS = 31


class DMControlEnvironment(Environment[DMControlAction, DMControlObservation, DMControlState]):
    """Plays any task of the suite. The arguments are the defaults of `reset`."""

    execution: Execution = "thread"

    def __init__(self, **defaults: Any) -> None:
        """defaults: fields of TaskChoice. Raises ValueError, naming the field, for a wrong one."""
        self._default = resolve_choice(defaults, TaskChoice())
        self._episode: Episode | None = None

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> DMControlObservation:
        """Start an episode.

        seed: equal seeds give equal episodes under equal actions; it is the `random` of dm_control's task. Without one,
        a random seed is chosen; the metadata contains it. domain_name, task_name, max_steps, render, width, height,
        camera_id: replace the server's for this episode. Raises ValueError for any other keyword or a wrong value. The
        current episode then continues.
        """
        choice = resolve_choice(kwargs, self._default)
        if seed is None:
            seed = secrets.randbits(_SEED_BITS)
        last = self._episode
        if last is not None and choice.is_reusable and not choice.render and choice.is_of_the_task(last.choice):
            env = last.env
            env.task._random = random_state(seed)
        else:
            env = choice.make(seed)
        time_step = env.reset()
        names = {"domain_name": choice.domain_name, "task_name": choice.task_name}
        episode = Episode(choice, env, {**names, "action_space": describe_actions(env)}, episode_id or str(uuid4()))
        first = {"observation_space": describe_observations(time_step.observation), "seed": seed}
        observation = episode.observation(time_step, first)
        if last is not None and last.env is not env:
            last.close()
        self._episode = episode
        return observation

    def step(self, action: DMControlAction, timeout_s: float | None = None, **kwargs: Any) -> DMControlObservation:
        """Apply controls. Raises ValueError, naming the bounds, for controls that are not in the action space."""
        if self._episode is None:
            raise ValueError("step came before reset: there is no episode yet. Call reset() first.")
        return self._episode.step(action.values)

    def save_state(self) -> bytes:
        """Return an exact copy of the episode. Raises ValueError before the first reset."""
        if self._episode is None:
            raise ValueError("there is no episode to save yet. Call reset() first.")
        return self._episode.save()

    def load_state(self, snapshot: bytes) -> None:
        """Continue a saved episode: equal actions give equal futures. The server loads its own snapshots only."""
        episode = Episode.load(snapshot)
        self.close()
        self._episode = episode

    @property
    def state(self) -> DMControlState:
        """The task, its limit and its frames, and the number of steps."""
        episode = self._episode
        if episode is None:
            return DMControlState(**vars(self._default))
        return DMControlState(episode_id=episode.episode_id, step_count=episode.step_count, **vars(episode.choice))

    def close(self) -> None:
        """Release the environment."""
        if self._episode is not None:
            self._episode.close()
            self._episode = None
