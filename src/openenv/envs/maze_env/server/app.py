"""Serves the maze environment: `python -m openenv.envs.maze_env.server.app --port 8000`."""

from openenv import EnvironmentProgram
from openenv.envs.maze_env.server.environment import MazeEnvironment

program = EnvironmentProgram(MazeEnvironment)
app = program.app()
main = program.main

if __name__ == "__main__":
    main()
