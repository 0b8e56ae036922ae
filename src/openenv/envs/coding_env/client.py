"""Client of the coding environment."""

from openenv.core.env_client import EnvClient
from openenv.envs.coding_env.models import CodeAction, CodeObservation, CodeState


class CodingEnv(EnvClient[CodeAction, CodeObservation, CodeState]):
    """Client of one session. `reset` takes `seed`, `task`, `tests`, `prompt`, `files` and `max_steps`.

    Example:
        with CodingEnv(base_url="http://localhost:8000") as env:
            env.reset(files={"rows.csv": "1,2\\n3,4\\n"})
            result = env.step(CodeAction(code="rows = open('rows.csv').read().split()\\nlen(rows)"))
            print(result.observation.value)  # 2
    """
