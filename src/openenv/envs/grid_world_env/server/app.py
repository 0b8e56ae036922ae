"""Serves the grid world environment: `python -m openenv.envs.grid_world_env.server.app --port 8000`."""

from openenv import EnvironmentProgram
from openenv.envs.grid_world_env.server.environment import GridWorldEnvironment

program = EnvironmentProgram(GridWorldEnvironment)
app = program.app()
main = program.main

if __name__ == "__main__":
    main()
