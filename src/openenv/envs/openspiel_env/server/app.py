"""Serves OpenSpiel: `python -m openenv.envs.openspiel_env.server.app --game blackjack --port 8004`."""

from dataclasses import dataclass

from openenv import EnvironmentProgram
from openenv.envs.openspiel_env.server.environment import OpenSpielEnvironment
from openenv.envs.openspiel_env.server.prepared_game import GameChoice
from openenv.envs.seats import TableSettings, make_tables


@dataclass(frozen=True, kw_only=True)
class OpenSpielSettings(TableSettings, GameChoice):
    """What a reset without keywords plays, and whether sessions play each other."""


program = EnvironmentProgram(OpenSpielEnvironment, OpenSpielSettings, make_tables)
app = program.app()
main = program.main

if __name__ == "__main__":
    main()
