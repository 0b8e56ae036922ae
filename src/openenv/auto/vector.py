"""Many environments by name."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from openenv.auto.auto_env import AutoEnv

if TYPE_CHECKING:
    from openenv.core.vector_env import Autoreset, VectorEnv


def make_vec(
    name: str,
    num_envs: int,
    *,
    base_url: str | None = None,
    autoreset: "Autoreset" = "next_step",
    num_sessions: int = 1,
    options: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> "VectorEnv":
    """`num_envs` environments that are stepped together, as a `gymnasium.vector.VectorEnv`.

    Example:
        with openenv.make_vec("openspiel", 256, options={"game_name": "tic_tac_toe"}) as envs:
            observations, infos = envs.reset(seed=7)

    name: of an environment, as in `AutoEnv.from_env`. Without base_url a server is started, which `close()` stops.
    autoreset, num_sessions, options: as in `EnvClient.vector`; further keywords go to the client. Raises what both do.
    """
    client = AutoEnv.from_env(name, base_url=base_url, **kwargs)
    try:
        envs = client.vector(num_envs, autoreset=autoreset, num_sessions=num_sessions, options=options)
    except BaseException:
        client.close()
        raise
    envs.after_close.append(client.close)
    return envs
