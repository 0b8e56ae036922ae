"""What `openenv envs --measure` plays: a game of one seat and a game of two, both seats at random."""

import time
from collections.abc import Callable
from random import Random

from openenv.envs.measured import MeasuredTask
from openenv.envs.textarena_env.models import TextArenaAction
from openenv.envs.textarena_env.server.environment import TextArenaEnvironment
from openenv.envs.textarena_env.server.games import make_game
from openenv.envs.textarena_env.text import TextArenaText


def bare(game: str) -> Callable[[float], float]:
    """Random play of a game in TextArena alone, with the replies that its messages show."""

    def play(seconds: float) -> float:
        environment, text, rng, steps, spent = TextArenaEnvironment(game), TextArenaText(), Random(0), 0, 0.0
        seed = 0
        while spent < seconds:
            seen = environment.reset(seed=seed)
            replies: list[str] = []
            while not seen.done and len(replies) < 100:
                replies.append(text.random_reply(seen, rng)[0])
                seen = environment.step(TextArenaAction(message=replies[-1]))
            started = time.perf_counter()
            made = make_game(game, environment.state.num_players, seed)
            for reply in replies:
                made.get_observation()
                made.step(reply)
            spent += time.perf_counter() - started
            steps, seed = steps + len(replies), seed + 1
        return steps / spent

    return play


def _task(game: str) -> MeasuredTask:
    return MeasuredTask(reset={"game": game}, play_bare=bare(game), num_episodes=200)


MEASURED = {game: _task(game) for game in ("GuessTheNumber", "TicTacToe")}
