"""Serves the coding environment: `python -m openenv.envs.coding_env.server.app --packages numpy --port 8000`."""

from collections.abc import Callable
from functools import partial

from openenv import EnvironmentProgram
from openenv.envs.coding_env.server.environment import CodingEnvironment
from openenv.envs.coding_env.server.settings import CodingSettings
from openenv.hosting.sandbox.python_files import installed


def make_checked(_: type, settings: CodingSettings) -> Callable[[], CodingEnvironment]:
    """Makes environments of these settings. Raises ValueError for a package that is not installed."""
    installed(settings.packages)
    return partial(CodingEnvironment, settings)


program = EnvironmentProgram(CodingEnvironment, CodingSettings, make_checked)
app = program.app()
main = program.main

if __name__ == "__main__":
    main()
