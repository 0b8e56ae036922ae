"""Serves the snake environment: `python -m openenv.envs.snake_env.server.app --port 8000`."""

from openenv import EnvironmentProgram
from openenv.envs.snake_env.server.environment import SnakeEnvironment

program = EnvironmentProgram(SnakeEnvironment)
app = program.app()
main = program.main

if __name__ == "__main__":
    main()
