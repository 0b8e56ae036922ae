"""The best mean return of FrozenLake, Taxi and CliffWalking: `python -m openenv.envs.gymnasium_env.solvers.toy_text`.

Value iteration backwards from the last step that the limit allows, over the transitions that Gymnasium publishes.
"""

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np

_ENDLESS = 1000
"""Steps of an environment without a limit; best play of CliffWalking ends after 13."""


def best_play(env_id: str, env_options: Mapping[str, Any] | None = None) -> tuple[float, list[int]]:
    """The best mean return, and the action in each state with all steps ahead.

    Raises ValueError for an environment without a table of transitions.
    """
    env = gymnasium.make(env_id, **(env_options or {}))
    world: Any = env.unwrapped
    if not hasattr(world, "P"):
        raise ValueError(f"env_id={env_id!r} publishes no transitions. Known: FrozenLake, Taxi, CliffWalking.")
    limit = env.spec.max_episode_steps if env.spec is not None else None
    chances, rewards, ends, following = _tables(world.P)
    values = np.zeros(len(world.P))
    gains = np.zeros(chances.shape[:2])
    for _ in range(limit or _ENDLESS):
        gains = (chances * (rewards + np.where(ends, 0.0, values[following]))).sum(axis=2)
        values = gains.max(axis=1)
    return float(values @ world.initial_state_distrib), gains.argmax(axis=1).tolist()


def _tables(transitions: Mapping[int, Mapping[int, Sequence[Any]]]) -> tuple[Any, ...]:
    """Chance, reward, end and next state of each outcome, [states, actions, outcomes]; missing outcomes are zeros."""
    most = max(len(outcomes) for actions in transitions.values() for outcomes in actions.values())
    shape = (len(transitions), len(transitions[0]), most)
    chances, rewards, ends, following = (np.zeros(shape, kind) for kind in (float, float, bool, int))
    for state, actions in transitions.items():
        for action, outcomes in actions.items():
            for place, (chance, next_state, reward, is_end) in enumerate(outcomes):
                index = state, action, place
                chances[index], rewards[index], ends[index], following[index] = chance, reward, is_end, next_state
    return chances, rewards, ends, following


def main() -> None:
    """Print the best mean return of each environment that publishes its transitions."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("env_ids", nargs="*", default=["FrozenLake-v1", "FrozenLake8x8-v1", "Taxi-v4",
                        "CliffWalking-v1"], help="Gymnasium's ids (default %(default)s).")  # fmt: skip
    for env_id in parser.parse_args().env_ids:
        print(f"{env_id:<20} {best_play(env_id)[0]:.6f}")  # noqa: T201


if __name__ == "__main__":
    main()
