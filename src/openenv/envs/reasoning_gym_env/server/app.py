"""Serves reasoning-gym: `python -m openenv.envs.reasoning_gym_env.server.app --dataset chain_sum --port 8000`."""

from collections.abc import Callable
from functools import partial

from openenv import EnvironmentProgram
from openenv.envs.reasoning_gym_env.server.environment import ReasoningGymEnvironment, TaskChoice
from openenv.envs.reasoning_gym_env.server.library_process import LIBRARY
from openenv.hosting.serving.settings import keywords_of


def make_with_library(_: type, choice: TaskChoice) -> Callable[[], ReasoningGymEnvironment]:
    """Makes environments of a choice, and starts the process of the library, which all of them share.

    A wrong name or setting of a dataset is an error of the first reset.
    """
    LIBRARY.start()
    return partial(ReasoningGymEnvironment, **keywords_of(choice))


program = EnvironmentProgram(ReasoningGymEnvironment, TaskChoice, make_with_library)
app = program.app()
main = program.main

if __name__ == "__main__":
    main()
