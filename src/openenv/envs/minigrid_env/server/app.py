"""Serves MiniGrid: `python -m openenv.envs.minigrid_env.server.app --env-id MiniGrid-DoorKey-5x5-v0 --port 8000`."""

from openenv import EnvironmentProgram
from openenv.envs.minigrid_env.server.choice import GridChoice
from openenv.envs.minigrid_env.server.environment import MiniGridEnvironment

program = EnvironmentProgram(MiniGridEnvironment, GridChoice)
app = program.app()
main = program.main

if __name__ == "__main__":
    main()
