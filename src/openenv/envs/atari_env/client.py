"""The client of an Atari server."""

from openenv.core.env_client import EnvClient
from openenv.envs.atari_env.models import AtariAction, AtariObservation, AtariState


class AtariEnv(EnvClient[AtariAction, AtariObservation, AtariState]):
    """Client of one Atari game.

    `reset` takes `seed`, and for one episode the fields of AtariState, from `game_name` to `max_steps`:

        with AtariEnv(base_url="http://localhost:8007") as env:
            result = env.reset(seed=7, game_name="breakout")
            result = env.step(AtariAction(action_id=1))
            result.observation.screen  # a numpy array, uint8 [210, 160, 3]
    """
