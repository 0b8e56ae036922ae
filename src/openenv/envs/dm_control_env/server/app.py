"""Serves the DeepMind Control Suite: `python -m openenv.envs.dm_control_env.server.app --domain cheetah --task run`."""

from openenv import EnvironmentProgram
from openenv.envs.dm_control_env.server.choice import TaskChoice
from openenv.envs.dm_control_env.server.environment import DMControlEnvironment

program = EnvironmentProgram(DMControlEnvironment, TaskChoice)
app = program.app()
main = program.main

if __name__ == "__main__":
    main()
