"""Serves Atari games: `python -m openenv.envs.atari_env.server.app --game pong --port 8007`."""

from openenv import EnvironmentProgram
from openenv.envs.atari_env.server.choice import AtariChoice
from openenv.envs.atari_env.server.environment import AtariEnvironment

program = EnvironmentProgram(AtariEnvironment, AtariChoice)
app = program.app()
main = program.main

if __name__ == "__main__":
    main()
