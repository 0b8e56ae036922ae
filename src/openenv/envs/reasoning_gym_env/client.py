"""Client of the reasoning-gym environment."""

from openenv.core.env_client import EnvClient
from openenv.envs.reasoning_gym_env.models import ReasoningGymAction, ReasoningGymObservation, ReasoningGymState


class ReasoningGymEnv(EnvClient[ReasoningGymAction, ReasoningGymObservation, ReasoningGymState]):
    """Client of one session. `reset` takes `seed`, `dataset`, `level` and `settings`.

    Example:
        with ReasoningGymEnv(base_url="http://localhost:8000") as env:
            question = env.reset(seed=3, dataset="chain_sum").observation.question
            print(question, env.step(ReasoningGymAction(answer="42")).reward)
    """
