"""Serves the guess environment: `python -m openenv.envs.guess_env.server.app --port 8000`."""

from openenv import EnvironmentProgram
from openenv.envs.guess_env.server.environment import GuessEnvironment

program = EnvironmentProgram(GuessEnvironment)
app = program.app()
main = program.main

if __name__ == "__main__":
    main()
