"""Serves TextArena: `python -m openenv.envs.textarena_env.server.app --game Wordle --port 8000`."""

from dataclasses import dataclass

from openenv import EnvironmentProgram
from openenv.envs.textarena_env.server.environment import TextArenaEnvironment
from openenv.hosting.serving.settings import option


@dataclass(frozen=True, kw_only=True)
class TextArenaSettings:
    """What a reset without `game` plays."""

    game: str = option("GuessTheNumber", "Play this game by default")


program = EnvironmentProgram(TextArenaEnvironment, TextArenaSettings)
app = program.app()
main = program.main

if __name__ == "__main__":
    main()
