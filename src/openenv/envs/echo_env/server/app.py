"""Serves the echo environment: `python -m openenv.envs.echo_env.server.app --port 8000`."""

from openenv import EnvironmentProgram
from openenv.envs.echo_env.server.environment import EchoEnvironment

program = EnvironmentProgram(EchoEnvironment)
app = program.app()
main = program.main

if __name__ == "__main__":
    main()
