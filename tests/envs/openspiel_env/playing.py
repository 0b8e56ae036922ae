"""Random play of one episode, in the same process, for tests to compare."""

from random import Random
from typing import Any

from openenv.envs.openspiel_env.models import OpenSpielAction, OpenSpielObservation
from openenv.envs.openspiel_env.server.environment import OpenSpielEnvironment


def random_episode(env: OpenSpielEnvironment, seed: int, **reset_kwargs: Any) -> list[OpenSpielObservation]:
    """All observations of an episode in which the agent plays at random from `seed` too."""
    rng = Random(seed)
    observations = [env.reset(seed=seed, **reset_kwargs)]
    while not observations[-1].done:
        action_id = rng.choice(observations[-1].legal_actions)
        observations.append(env.step(OpenSpielAction(action_id=action_id)))
    return observations


def play(env: OpenSpielEnvironment, observation: OpenSpielObservation, *action_ids: int) -> OpenSpielObservation:
    """The observation after the actions."""
    for action_id in action_ids:
        observation = env.step(OpenSpielAction(action_id=action_id))
    return observation
