"""Many Gymnasium environments of one kind, stepped in one loop. Observations contain the value, split into arrays."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from gymnasium import Space, spaces

from openenv.core.env_server.runner.environment_calls import call_environment
from openenv.core.env_server.runner.sync_vector import next_seed
from openenv.core.env_server.vector_environment import Column, VectorBatch, VectorEnvironment
from openenv.core.errors import EnvironmentFault, RequestRefused
from openenv.envs.gymnasium_env.server.choice import EnvChoice, resolve_choice
from openenv.envs.gymnasium_env.server.episode import Episode
from openenv.envs.spaces import describe_space, to_element

_ARRAYS = (spaces.Box, spaces.MultiDiscrete, spaces.MultiBinary)
_INFO, _PIXELS, _VALUE = "info", "pixels", "value"


class _Leaf(NamedTuple):
    """A part of an observation that has a column of its own."""

    name: str
    path: tuple[Any, ...]
    """Keys and places that lead from the observation to the part."""
    space: Space[Any]

    def column(self, values: Sequence[Any]) -> Column:
        """This part of many observations."""
        for key in self.path:
            values = [value[key] for value in values]
        if isinstance(self.space, (*_ARRAYS, spaces.Discrete)):
            return np.array(values, self.space.dtype)
        return list(values)


class GymnasiumVector(VectorEnvironment):
    """Environments of one observation and action space. Equal seeds give the episodes of `GymnasiumEnvironment`.

    An observation is `value`; a Dict or a Tuple has a column for each of its parts, by its key or number, such as
    `position` or `arm.angle`. `pixels` has frames (N, height, width, 3), and `info` is a list of Gymnasium's infos.
    """

    def __init__(self, default: EnvChoice, num_envs: int) -> None:
        """default: what is played where a reset does not choose."""
        self._default = default
        self._episodes: list[Episode | None] = [None] * num_envs
        self._last: list[Any] = [None] * num_envs
        """The last observation of each environment."""
        self._leaves: list[_Leaf] = []
        self._read_actions = _element_reader(spaces.Discrete(1))

    def action_fields(self) -> dict[str, Any]:
        """`value` is an element of the action space."""
        space = next(one.env.action_space for one in self._episodes if one is not None)
        return {_VALUE: _described(space)}

    def observation_fields(self) -> dict[str, Any]:
        """The spaces of the parts."""
        return {
            leaf.name: _described(leaf.space)
            for leaf in self._leaves
            if isinstance(leaf.space, (*_ARRAYS, spaces.Discrete))
        }

    def reset(self, env_ids: Sequence[int], requests: Sequence[Mapping[str, Any]]) -> VectorBatch:
        """Raises EnvironmentFault where an environment that was never reset cannot start, or where spaces differ."""
        episodes, errors = list(self._episodes), dict[int, RequestRefused]()
        infos: list[dict[str, Any]] = [{}] * len(env_ids)
        for row, (env_id, request) in enumerate(zip(env_ids, requests, strict=True)):
            try:
                start = call_environment("reset", self._start, episodes[env_id], dict(request))
                episodes[env_id], self._last[env_id], infos[row] = start
            except EnvironmentFault as error:
                errors[row] = error
        if errors and any(episodes[env_id] is None for env_id in env_ids):
            raise next(iter(errors.values()))
        first = _one_kind([one for one in episodes if one is not None]).env
        self._episodes = episodes
        self._leaves = list(_leaves_of(first.observation_space))
        self.text_fields = frozenset(leaf.name for leaf in self._leaves if isinstance(leaf.space, spaces.Text))
        self._read_actions = _element_reader(first.action_space)
        return self._batch(env_ids, [np.nan] * len(env_ids), infos=infos, errors=errors)

    def autoreset(self, env_ids: Sequence[int]) -> VectorBatch:
        """Random numbers continue, as in Gymnasium's vectors; Box2D starts anew with `next_seed` of the last seed."""
        never_reset = [env_id for env_id in env_ids if self._episodes[env_id] is None]
        if never_reset:
            self.reset(never_reset, [{"seed": next_seed(0)}] * len(never_reset))
        infos: list[dict[str, Any]] = [{}] * len(env_ids)
        for row, (env_id, episode) in enumerate(zip(env_ids, self._started(env_ids), strict=True)):
            if env_id in never_reset:
                continue
            seed = None
            if not episode.choice.is_reusable:
                episode.seed = seed = next_seed(episode.seed)
                episode.close()
                episode.env = episode.choice.make()
            self._last[env_id], infos[row] = episode.env.reset(seed=seed)
        return self._batch(env_ids, [np.nan] * len(env_ids), infos=infos)

    def step(self, env_ids: Sequence[int], actions: Mapping[str, Any]) -> VectorBatch:
        """An action that is not in the space is an error of its row; that environment does not change."""
        if actions.keys() != {_VALUE}:
            raise EnvironmentFault(f"actions: expected one column, {_VALUE}, got {', '.join(sorted(actions))}")
        elements, errors = self._read_actions(actions[_VALUE])
        rewards: list[Any] = [np.nan] * len(env_ids)
        infos: list[dict[str, Any]] = [{}] * len(env_ids)
        terminated, truncated = np.zeros((2, len(env_ids)), np.bool_)
        last = self._last
        for row, (env_id, episode) in enumerate(zip(env_ids, self._started(env_ids), strict=True)):
            if row in errors:
                continue
            try:
                result = call_environment("step", episode.env.step, elements[row])
            except EnvironmentFault as error:
                errors[row] = error
                continue
            last[env_id], rewards[row], terminated[row], truncated[row], infos[row] = result
        return self._batch(env_ids, rewards, terminated, truncated, infos=infos, errors=errors)

    def close(self) -> None:
        """Close the environments."""
        for episode in self._episodes:
            if episode is not None:
                episode.close()

    def _start(self, episode: Episode | None, request: dict[str, Any]) -> tuple[Episode, Any, dict[str, Any]]:
        """An episode with its first observation and info. Raises ValueError for wrong keywords."""
        seed = request.pop("seed")
        episode_id = request.pop("episode_id", None) or ""
        choice = resolve_choice(request, self._default)
        if episode is not None and episode.choice == choice and choice.is_reusable:
            env = episode.env
        else:
            env = choice.make()
            if episode is not None:
                episode.close()
        value, info = env.reset(seed=seed)
        return Episode(choice, env, {}, None, episode_id, seed), value, info

    def _started(self, env_ids: Iterable[int]) -> list[Episode]:
        """Episodes of environments that have been reset; the server steps no others."""
        return list(map(self._episodes.__getitem__, env_ids))  # type: ignore[arg-type]

    def _batch(
        self,
        env_ids: Sequence[int],
        rewards: list[float],
        terminated: Any = None,
        truncated: Any = None,
        *,
        infos: list[dict[str, Any]],
        errors: dict[int, RequestRefused] | None = None,
    ) -> VectorBatch:
        values = [self._last[env_id] for env_id in env_ids]
        columns: dict[str, Column] = {leaf.name: leaf.column(values) for leaf in self._leaves}
        episodes = self._started(env_ids)
        if episodes[0].choice.render:
            columns[_PIXELS] = np.stack([episode.draw() for episode in episodes])
        columns[_INFO] = list(infos)
        never = np.zeros(len(env_ids), np.bool_)
        return VectorBatch(
            columns,
            np.array(rewards, np.float64),
            never if terminated is None else terminated,
            never.copy() if truncated is None else truncated,
            errors or {},
        )


def _one_kind(episodes: Sequence[Episode]) -> Episode:
    """The first of episodes that stack. Raises EnvironmentFault if they do not."""
    first = episodes[0]
    for one in episodes[1:]:
        is_same = (
            one.env.observation_space == first.env.observation_space
            and one.env.action_space == first.env.action_space
            and one.choice.render == first.choice.render
        )
        if not is_same:
            raise EnvironmentFault(
                "env_id: environments of different spaces do not stack: play one environment in a session"
            )
    return first


def _leaves_of(space: Space[Any], name: str = "", path: tuple[Any, ...] = ()) -> Iterator[_Leaf]:
    if isinstance(space, spaces.Dict | spaces.Tuple):
        parts = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
        for key, part in parts:
            yield from _leaves_of(part, f"{name}.{key}" if name else str(key), (*path, key))
    else:
        yield _Leaf(name or _VALUE, path, space)


_Elements = tuple[Any, dict[int, RequestRefused]]


def _element_reader(space: Space[Any]) -> Callable[[Any], _Elements]:
    """Reads a column of actions: an element of the space for each row, and an error for each row that is none."""
    bounds = _bounds(space) if isinstance(space, (*_ARRAYS, spaces.Discrete)) else None

    def read(column: Any) -> _Elements:
        elements = None if bounds is None else _elements_at_once(column, *bounds)
        if elements is not None:
            return elements, {}
        errors: dict[int, RequestRefused] = {}
        read_one: list[Any] = []
        for row, value in enumerate(column):
            try:
                read_one.append(to_element(space, value.tolist() if hasattr(value, "tolist") else value))
            except ValueError as error:
                errors[row] = EnvironmentFault(str(error), refused=True)
                read_one.append(None)
        return read_one, errors

    return read


def _elements_at_once(
    column: Any, low: np.ndarray[Any, Any], high: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any] | None:
    """The column as an array of elements; None if a row is none, or the rows have different shapes."""
    try:
        given = np.asarray(column)
    except ValueError:
        return None
    is_number = given.dtype.kind in ("iuf" if low.dtype.kind == "f" else "iu")
    if not is_number or given.shape[1:] != low.shape:
        return None
    cast = given.astype(low.dtype)
    is_element = np.isfinite(cast) & (cast >= low) & (cast <= high) & (cast == given if low.dtype.kind != "f" else True)
    return cast if is_element.all() else None


def _described(space: Space[Any]) -> dict[str, Any]:
    """A space as `action_fields` and `observation_fields` have it."""
    if isinstance(space, spaces.Discrete) and space.start == 0:
        return {"n": int(space.n)}
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary):
        low, high = _bounds(space)
        return {
            "shape": list(low.shape), "dtype": str(space.dtype), "low": low.tolist(), "high": high.tolist()
        }  # fmt: skip
    return describe_space(space)


def _bounds(space: Any) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The smallest and the largest element of a space of arrays or whole numbers."""
    if isinstance(space, spaces.Box):
        return space.low, space.high
    if isinstance(space, spaces.MultiBinary):
        return np.zeros(space.shape, space.dtype), np.ones(space.shape, space.dtype)
    size = space.n if isinstance(space, spaces.Discrete) else space.nvec
    low = np.asarray(space.start, space.dtype)
    return low, low + np.asarray(size, space.dtype) - 1
