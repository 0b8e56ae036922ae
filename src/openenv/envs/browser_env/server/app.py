"""Serves the tasks of MiniWoB++: `python -m openenv.envs.browser_env.server.app --task click-test-2 --port 8000`."""

from dataclasses import dataclass

from openenv import EnvironmentProgram
from openenv.envs.browser_env.server.environment import DEFAULT_TASK, BrowserEnvironment
from openenv.hosting.serving.settings import option


@dataclass(frozen=True, kw_only=True)
class BrowserSettings:
    """What a reset without `task` plays."""

    task: str = option(DEFAULT_TASK, "Play this task by default")


program = EnvironmentProgram(BrowserEnvironment, BrowserSettings)
app = program.app()
main = program.main

if __name__ == "__main__":
    main()
