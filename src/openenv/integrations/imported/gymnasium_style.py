"""A class with Gymnasium's `reset` and `step` as an environment of this package. Needs the extra `gymnasium`."""

import inspect
import secrets
from collections.abc import Callable, Mapping
from typing import Any, ClassVar
from uuid import uuid4

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import State
from openenv.envs.gymnasium_env.models import GymnasiumAction, GymnasiumObservation
from openenv.installation import install_line

try:
    import gymnasium

    from openenv.envs.bounded_arrays import to_json, to_message
    from openenv.envs.spaces import describe_space, to_element
except ImportError as error:
    raise ImportError(
        f"a class in Gymnasium's style needs an extra: {install_line('gymnasium')}", name=error.name
    ) from error

_SEED_BITS = 31


class GymnasiumStyleEnvironment(Environment[GymnasiumAction, GymnasiumObservation, State]):
    """Plays an instance of `source`, made at the first reset. Subclasses set `source`, and perhaps `arguments`.

    Example:
        class CliffEnvironment(GymnasiumStyleEnvironment):
            source = Cliff
            arguments = {"width": 12}
    """

    source: ClassVar[Callable[..., Any]]
    """The class, or a function that makes an instance."""
    arguments: ClassVar[Mapping[str, Any]] = {}
    """Keywords of `source`."""

    def __init__(self) -> None:
        self._played: Any = None
        self._state = State()

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> GymnasiumObservation:
        """Start an episode. Further keywords are `options` of the class's reset, or its parameters.

        The seed reaches a parameter `seed` of that reset, or a method `seed`. Raises ValueError for keywords that the
        reset does not take.
        """
        if self._played is None:
            self._played = type(self).source(**self.arguments)
        seed = secrets.randbits(_SEED_BITS) if seed is None else seed
        made = self._played.reset(**self._reset_arguments(seed, kwargs))
        is_pair = isinstance(made, tuple) and len(made) == 2 and isinstance(made[1], Mapping)  # as in Gymnasium
        value, info = made if is_pair else (made, {})
        self._state = State(episode_id=episode_id or str(uuid4()), step_count=0)
        metadata: dict[str, Any] = {"seed": seed}
        seen = getattr(self._played, "observation_space", None)
        if isinstance(seen, gymnasium.Space):
            metadata["observation_space"] = describe_space(seen)
        return self._observation(value, info, metadata)

    def step(self, action: GymnasiumAction, timeout_s: float | None = None, **kwargs: Any) -> GymnasiumObservation:
        """Apply an action. Raises ValueError before the first reset and for what is not in the action space."""
        if self._played is None:
            raise ValueError("step came before reset: there is no episode yet. Call reset() first.")
        space = getattr(self._played, "action_space", None)
        element = to_element(space, action.value) if isinstance(space, gymnasium.Space) else action.value
        value, reward, terminated, truncated, info = _five(self._played.step(element))
        self._state.step_count += 1
        return self._observation(value, info, {}, float(reward), terminated=terminated, truncated=truncated)

    @property
    def state(self) -> State:
        """The identity of the episode and the number of its steps."""
        return self._state

    def close(self) -> None:
        """Close the instance, if it can be closed."""
        close = getattr(self._played, "close", None)
        self._played = None
        if callable(close):
            close()

    def _reset_arguments(self, seed: int, keywords: Mapping[str, Any]) -> dict[str, Any]:
        parameters = inspect.signature(self._played.reset).parameters
        takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
        given: dict[str, Any] = {}
        if "seed" in parameters or takes_all:
            given["seed"] = seed
        elif callable(getattr(self._played, "seed", None)):
            self._played.seed(seed)  # as in Gym before 0.26
        if keywords and "options" in parameters:
            return {**given, "options": dict(keywords)}
        refused = sorted(set(keywords) - set(parameters))
        if refused and not takes_all:
            raise ValueError(f"reset of {type(self._played).__name__} does not take {', '.join(refused)}")
        return {**given, **keywords}

    def _observation(
        self, value: Any, info: Mapping[str, Any], metadata: dict[str, Any], reward: float | None = None, *,
        terminated: bool = False, truncated: bool = False,
    ) -> GymnasiumObservation:  # fmt: skip
        done = terminated or truncated
        metadata["env_id"] = type(self._played).__name__
        space = getattr(self._played, "action_space", None)
        if isinstance(space, gymnasium.Space):
            metadata["action_space"] = describe_space(space)
        if info:
            metadata["info"] = to_json(info)
        return GymnasiumObservation(
            value=to_message(value), reward=reward, done=done, truncated=truncated, metadata=metadata,
            legal_actions=[] if done else _legal(space, info.get("action_mask")),
        )  # fmt: skip


def _five(made: Any) -> tuple[Any, Any, bool, bool, Mapping[str, Any]]:
    """What Gymnasium's step returns, also from what Gym's returned. Raises ValueError for anything else."""
    if isinstance(made, tuple) and len(made) == 5:
        value, reward, terminated, truncated, info = made
        return value, reward, bool(terminated), bool(truncated), info or {}
    if isinstance(made, tuple) and len(made) in (3, 4):
        value, reward, done, info = (*made, {})[:4]
        truncated = bool((info or {}).get("TimeLimit.truncated"))
        return value, reward, bool(done) and not truncated, truncated, info or {}
    raise ValueError(
        "step() must return (observation, reward, terminated, truncated, info), as in Gymnasium, "
        f"or (observation, reward, done, info); it returned {str(made)[:100]}"
    )


def _legal(space: Any, mask: Any) -> list[int]:
    """The actions of a space with a number `n` of them, without those that a mask excludes."""
    n = getattr(space, "n", None)
    if n is None or getattr(space, "shape", ()) not in ((), None):
        return []
    start = int(getattr(space, "start", 0))
    actions = range(start, start + int(n))
    return list(actions) if mask is None else [action for action, is_open in zip(actions, mask, strict=True) if is_open]
