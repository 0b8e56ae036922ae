"""Tries a game in a process of its own before the server plays it with parameters that a client chose.

With odd parameters OpenSpiel's C++ can end the process (connect_four with 0 rows, hanabi with 0 colours), run for ever
or take all memory, and every session of the server with it.
"""

import json
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import lru_cache
from random import Random
from typing import Any

TIMEOUT_S = 15.0
MAX_MEMORY_BYTES = 4 << 30
MAX_OBSERVATION_BYTES = 1_000_000
NUM_EPISODES = 2
MAX_STEPS = 200
MAX_TRIALS_AT_ONCE = 2

_at_once = threading.BoundedSemaphore(MAX_TRIALS_AT_ONCE)


def refuse_unless_playable(game_name: str, game_params: Mapping[str, Any]) -> None:
    """Raises ValueError unless the game survives two short random episodes. Takes a second the first time.

    What OpenSpiel refuses by itself is left to it, since it gives the better reason.
    """
    reason = _why_not(game_name, json.dumps(dict(game_params), sort_keys=True))
    if reason:
        raise ValueError(
            f"game_params={dict(game_params)!r}: {game_name!r} cannot be played with these: a trial in another process "
            f"{reason}"
        )


@lru_cache(maxsize=1024)
def _why_not(game_name: str, params_json: str) -> str | None:
    command = [sys.executable, "-m", __name__, game_name, params_json]
    with _at_once:
        try:
            ended = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired:
            return f"did not end within {TIMEOUT_S:.0f} seconds."
    if ended.returncode < 0:
        return f"was ended by signal {-ended.returncode}."
    return (
        None if ended.returncode == 0 else f"failed: {(ended.stderr.strip().splitlines() or ['no reason given'])[-1]}"
    )


def main(argv: Sequence[str]) -> None:
    """Play the game named in the arguments; anything raised ends the process with a code that is not 0."""
    if sys.platform != "win32":
        import resource  # not there on Windows

        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    from openenv.envs.openspiel_env.models import OpenSpielAction  # after the limit: loads OpenSpiel
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
