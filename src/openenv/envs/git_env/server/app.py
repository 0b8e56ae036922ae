"""Serves the git environment: `python -m openenv.envs.git_env.server.app --port 8000`."""

from openenv import EnvironmentProgram
from openenv.envs.git_env.server.environment import GitEnvironment

program = EnvironmentProgram(GitEnvironment)
app = program.app()
main = program.main

if __name__ == "__main__":
    main()
