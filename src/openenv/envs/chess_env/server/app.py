"""Serves the chess environment: `python -m openenv.envs.chess_env.server.app --port 8000`."""

from openenv import EnvironmentProgram
from openenv.envs.chess_env.server.environment import ChessEnvironment
from openenv.envs.seats import TableSettings, make_tables

program = EnvironmentProgram(ChessEnvironment, TableSettings, make_tables)
app = program.app()
main = program.main

if __name__ == "__main__":
    main()
