"""Any environment as a `gymnasium.Env`, for programs that train on those. Needs the extra `vector`.

Example:
    from openenv.integrations.gymnasium import make

    with make("maze", options={"size": 9}) as env:
        observation, info = env.reset(seed=7)
        observation, reward, terminated, truncated, info = env.step(env.action_space.sample(info.get("action_mask")))
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from openenv.auto import make_vec
from openenv.core.errors import OpenEnvError, is_refused_action
from openenv.core.vector.env import VectorEnv

_SEEDS = 1 << 31
_LEGAL = "legal_actions"


class SingleEnv(gymnasium.Env[Any, Any]):
    """The environment of a vector session of one. Its spaces follow from the action and observation classes.

    An observation is a Dict of the fields that have a space, or the field itself where there is one. Others are in
    `info`. An action that is one of several words is its number, in the declared order. Where an observation names the
    legal ones of numbered actions, `info` has an `action_mask`.
    """

    metadata = {"render_modes": []}  # noqa: RUF012  as Gymnasium has it

    def __init__(self, envs: VectorEnv, *, illegal_reward: float | None = None) -> None:
        """envs: a vector of one environment, without automatic resets, which `close` closes.

        illegal_reward: the reward of an action that the environment refuses; the episode stays as it was, and
        `info["refused"]` has the reason. None: the step raises, as it does where the environment itself fails. Raises
        ValueError for another vector.
        """
        if envs.num_envs != 1 or envs.metadata["autoreset_mode"] is not gymnasium.vector.AutoresetMode.DISABLED:
            raise ValueError("give a vector of one environment: client.vector(1, autoreset='disabled')")
        self._envs = envs
        self._illegal_reward = illegal_reward
        self._last: tuple[Any, dict[str, Any]] = ({}, {})
        """The last observations and infos."""
        self.observation_space = envs.single_observation_space
        self._words = {name: words for name, field in envs.action_fields.items() if (words := _words_of(field))}
        """The words of each field of an action that is one of several."""
        self.action_space = self._action_space(envs.single_action_space)

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode. options: keywords of the environment's own reset.

        Without a seed, the next one of `np_random` is used, so that one seed repeats all episodes that follow. Raises
        EnvironmentFault for a keyword that the environment does not take.
        """
        super().reset(seed=seed)
        if seed is None:
            seed = int(self.np_random.integers(_SEEDS))
        observations, infos = self._envs.reset(seed=seed, options=options)
        _raise_errors(infos)
        self._last = observations, infos
        return self._observation(observations), self._info(observations, infos)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Apply an element of the action space. Raises EnvironmentFault for an action that is not legal, unless it has
        a reward, and where the environment fails."""
        observations, rewards, terminated, truncated, infos = self._envs.step(self._batch(action))
        refusal = infos.get("errors", {}).get(0)
        is_refused = isinstance(refusal, OpenEnvError) and is_refused_action(refusal)
        if is_refused and self._illegal_reward is not None:
            observations, infos = self._last
            info = {**self._info(observations, infos), "refused": str(refusal)}
            return self._observation(observations), self._illegal_reward, False, False, info
        _raise_errors(infos)
        self._last = observations, infos
        reward = 0.0 if np.isnan(rewards[0]) else float(rewards[0])
        info = self._info(observations, infos)
        return self._observation(observations), reward, bool(terminated[0]), bool(truncated[0]), info

    def close(self) -> None:
        """End the session, and the server that `make` has started."""
        self._envs.close()

    def _action_space(self, space: spaces.Space[Any]) -> spaces.Space[Any]:
        numbered = {name: spaces.Discrete(len(words)) for name, words in self._words.items()}
        if isinstance(space, spaces.Dict):
            return spaces.Dict({name: numbered.get(name, part) for name, part in space.items()})
        return numbered.get(self._envs.action_field, space)

    def _batch(self, action: Any) -> dict[str, Any]:
        """A column of one row for each field of an action."""
        fields = action if isinstance(action, Mapping) else {self._envs.action_field: action}
        return {name: self._column(name, value) for name, value in fields.items()}

    def _column(self, name: str, value: Any) -> Any:
        if name in self._words:
            return [self._words[name][value]]
        return [value] if isinstance(value, str) else np.asarray(value)[None]

    def _observation(self, observations: Any) -> Any:
        if isinstance(self.observation_space, spaces.Dict):
            return {name: _element(part, observations[name]) for name, part in self.observation_space.items()}
        return _element(self.observation_space, observations)

    def _info(self, observations: Any, infos: dict[str, Any]) -> dict[str, Any]:
        """What has no space."""
        info = {name: deepcopy(column[0]) for name, column in infos.items() if isinstance(column, list)}
        named = observations if isinstance(observations, dict) else {self._envs.observation_field: observations}
        legal = named[_LEGAL][0] if _LEGAL in named else info.get(_LEGAL)
        if legal is not None and isinstance(self.action_space, spaces.Discrete):
            words = self._words.get(self._envs.action_field)
            start, number = int(self.action_space.start), int(self.action_space.n)
            info["action_mask"] = _mask(legal, words or range(start, start + number))
        return info


def make(
    name: str,
    *,
    base_url: str | None = None,
    options: Mapping[str, Any] | None = None,
    illegal_reward: float | None = None,
    **kwargs: Any,
) -> SingleEnv:
    """Return an environment as a `gymnasium.Env`.

    Raises what `make_vec` raises.

    Args:
        name: as in `AutoEnv.from_env`. Without base_url, a server is started and `close()` stops it.
        options: keywords of every reset, such as a game's name.
        illegal_reward: as in `SingleEnv`.
        kwargs: arguments of the client.
    """
    envs = make_vec(name, 1, base_url=base_url, autoreset="disabled", options=options, **kwargs)
    return SingleEnv(envs, illegal_reward=illegal_reward)


def _words_of(field: Mapping[str, Any]) -> list[Any]:
    """The values of a field that is one of several, or has only one; none for another field."""
    return field.get("enum") or ([field["const"]] if "const" in field else [])


def _raise_errors(infos: Mapping[str, Any]) -> None:
    for error in infos.get("errors", {}).values():
        raise error


def _element(space: spaces.Space[Any], column: Any) -> Any:
    """The only row of a column, as an element of its space that belongs to the caller."""
    row = column[0]
    if isinstance(space, spaces.Discrete):
        return int(row)
    return row if isinstance(row, str) else np.array(row)


def _mask(legal: Any, actions: Sequence[Any]) -> np.ndarray[Any, np.dtype[np.int8]]:
    """The mask that `Discrete.sample` takes. legal: a boolean for each action, or a list of the legal ones."""
    if getattr(legal, "dtype", None) == np.bool_:
        return np.asarray(legal, np.int8)
    return np.array([action in legal for action in actions], np.int8)
