"""Client of the web tasks."""

from openenv.core.env_client import EnvClient
from openenv.envs.browser_env.models import BrowserAction, BrowserObservation, BrowserState


class BrowserEnv(EnvClient[BrowserAction, BrowserObservation, BrowserState]):
    """Client of one session. `reset` takes `seed`, `task`, `screenshot`, `max_steps` and `step_ms`.

    Example:
        with BrowserEnv(base_url="http://localhost:8000") as env:
            result = env.reset(seed=3, task="click-test-2")
            button = next(element for element in result.observation.elements if element.text == "ONE")
            result = env.step(BrowserAction(kind="click", ref=button.ref))
    """
