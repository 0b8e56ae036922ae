"""The program of a probe: plays random episodes of a game with limited memory. Any failure ends the process."""

import json
import sys
from collections.abc import Sequence
from random import Random

if sys.platform != "win32":
    import resource

MAX_MEMORY_BYTES = 4 << 30
MAX_OBSERVATION_BYTES = 1_000_000
NUM_EPISODES = 2
MAX_STEPS = 200


def main(argv: Sequence[str]) -> None:
    """Play random episodes of a game. argv: its name and its parameters as JSON. Any failure raises."""
    if sys.platform != "win32":
        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    from openenv.envs.openspiel_env.models import OpenSpielAction  # under the limit: imports OpenSpiel
    from openenv.envs.openspiel_env.server.environment import OpenSpielEnvironment

    game_name, game_params = argv[0], json.loads(argv[1])
    try:
        env = OpenSpielEnvironment(game_name, game_params=game_params)
    except ValueError:
        return
    for seed in range(NUM_EPISODES):
        rng, observation = Random(seed), env.reset(seed=seed)
        for _ in range(MAX_STEPS):
            size_bytes = len(observation.model_dump_json())
            if size_bytes > MAX_OBSERVATION_BYTES:
                raise ValueError(f"an observation has {size_bytes:,} bytes, at most {MAX_OBSERVATION_BYTES:,} are sent")
            if observation.done:
                break
            observation = env.step(OpenSpielAction(action_id=rng.choice(observation.legal_actions)))


if __name__ == "__main__":
    main(sys.argv[1:])
