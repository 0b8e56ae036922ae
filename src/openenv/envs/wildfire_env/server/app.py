"""Serves the wildfire environment: `python -m openenv.envs.wildfire_env.server.app --port 8000`."""

from openenv import EnvironmentProgram
from openenv.envs.wildfire_env.server.environment import WildfireEnvironment

program = EnvironmentProgram(WildfireEnvironment)
app = program.app()
main = program.main

if __name__ == "__main__":
    main()
