"""Serves Gymnasium: `python -m openenv.envs.gymnasium_env.server.app --env-id FrozenLake-v1 --port 8000`."""

from collections.abc import Callable
from functools import partial

from openenv import EnvironmentProgram
from openenv.envs.gymnasium_env.server.choice import EnvChoice
from openenv.envs.gymnasium_env.server.environment import GymnasiumEnvironment
from openenv.envs.rendering import draw_without_display
from openenv.hosting.serving.settings import keywords_of

draw_without_display()


def make_default(_: type, choice: EnvChoice) -> Callable[[], GymnasiumEnvironment]:
    """Makes environments of a choice. Raises ValueError, naming the field, where Gymnasium cannot make it."""
    choice.make().close()  # a wrong setting fails here, not at the first session
    return partial(GymnasiumEnvironment, **keywords_of(choice))


program = EnvironmentProgram(GymnasiumEnvironment, EnvChoice, make_default)
app = program.app()
main = program.main

if __name__ == "__main__":
    main()
