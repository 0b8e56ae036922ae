"""Exact copies of episodes: by pickling, by MuJoCo's data, or by repeating the actions, as each family needs."""

import pickle
from collections.abc import Iterator
from dataclasses import replace
from types import NoneType
from typing import Any

import numpy as np

from openenv.envs.gymnasium_env.server.episode import Episode

_PLAIN = (bool, int, float, str, NoneType, np.ndarray, np.random.Generator)
"""Attributes of a MuJoCo environment that change, beside its data: counters, goals and random numbers."""


def save_episode(episode: Episode) -> bytes:
    """A snapshot. Raises ValueError where no exact copy can be made."""
    choice, env = episode.choice, episode.env
    copy: Any = None
    if choice.family == "other":
        raise ValueError(
            f"{choice.env_id} cannot be saved: only toy text, classic control, Box2D and MuJoCo have exact copies. "
            "Reset with the same seed and repeat the actions."
        )
    if choice.is_quick:
        copy = env
    elif choice.family == "light":
        copy = [_attributes_but_screens(layer) for layer in _layers(env)]
    elif choice.family == "mujoco":
        copy = _copy_of_mujoco(env)
    return pickle.dumps((replace(episode, env=None), copy))  # type: ignore[arg-type]


def load_episode(snapshot: bytes) -> Episode:
    """The episode of a snapshot that this server has made. Box2D repeats all of its actions."""
    episode: Episode
    episode, copy = pickle.loads(snapshot)
    if episode.choice.is_quick:
        episode.env = copy
        return episode
    episode.env = episode.choice.make()
    episode.env.reset(seed=episode.seed)
    if episode.choice.family == "box2d":
        _replay(episode)
    elif episode.choice.family == "light":
        _set_attributes(episode.env, copy)
    else:
        _load_into_mujoco(episode.env, *copy)
    return episode


def _replay(episode: Episode) -> None:
    """Repeat all actions, and the frames, which move LunarLander's sparks."""
    if episode.choice.render:
        episode.env.render()
    for element in episode.actions:
        episode.env.step(element)
        if episode.choice.render:
            episode.env.render()


def _copy_of_mujoco(env: Any) -> tuple[bytes, list[dict[str, Any]], Any]:
    """All data, the attributes that change, and where the camera looks, which follows the body a little late.

    The environments' own `deepcopy` and `pickle` make new environments.
    """
    from openenv.envs.mujoco_data import save_data  # the extra `mujoco`

    world = env.unwrapped
    attributes = [
        {name: value for name, value in vars(layer).items() if isinstance(value, _PLAIN)} for layer in _layers(env)
    ]
    viewer = world.mujoco_renderer.viewer
    return save_data(world.data), attributes, None if viewer is None else np.array(viewer.cam.lookat)


def _load_into_mujoco(env: Any, data: bytes, attributes: list[dict[str, Any]], camera_target: Any) -> None:
    """Make an environment of the same choice, which has been reset, equal to the copied one."""
    from openenv.envs.mujoco_data import load_data  # the extra `mujoco`

    world = env.unwrapped
    _set_attributes(env, attributes)
    load_data(data, world.model, world.data)
    if camera_target is not None:
        world.render()  # makes the camera
        world.mujoco_renderer.viewer.cam.lookat[:] = camera_target


def _set_attributes(env: Any, attributes: list[dict[str, Any]]) -> None:
    for layer, values in zip(_layers(env), attributes, strict=True):
        vars(layer).update(values)


def _layers(env: Any) -> Iterator[Any]:
    """The wrappers of an environment, the outermost first, and itself."""
    while env is not env.unwrapped:
        yield env
        env = env.env
    yield env


def _attributes_but_screens(layer: Any) -> dict[str, Any]:
    """All but the wrapped environment and what pygame draws with, which each environment makes at its first frame."""
    return {name: value for name, value in vars(layer).items() if name != "env" and not _is_of_pygame(value)}


def _is_of_pygame(value: Any) -> bool:
    if isinstance(value, list | tuple | dict):
        return any(map(_is_of_pygame, value.values() if isinstance(value, dict) else value))
    return type(value).__module__.partition(".")[0] == "pygame"
