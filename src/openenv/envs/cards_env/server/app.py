"""Serves the card games: `python -m openenv.envs.cards_env.server.app --port 8000`."""

from openenv import EnvironmentProgram
from openenv.envs.cards_env.server.environment import CardsEnvironment
from openenv.envs.seats import TableSettings, make_tables

program = EnvironmentProgram(CardsEnvironment, TableSettings, make_tables)
app = program.app()
main = program.main

if __name__ == "__main__":
    main()
