"""What `openenv envs --measure` plays: one guess, which a reader of the word always wins."""

from random import Random

from openenv.envs.guess_env.models import WORDS, GuessAction, GuessObservation
from openenv.envs.guess_env.server.environment import GuessEnvironment
from openenv.envs.measured import MeasuredTask, in_process


def _random(_: GuessObservation, rng: Random) -> GuessAction:
    return GuessAction(number=rng.randrange(len(WORDS)))


def _read(observation: GuessObservation, _: Random) -> GuessAction:
    return GuessAction(number=WORDS.index(observation.word))


MEASURED = {
    "guess": MeasuredTask(play_bare=in_process(GuessEnvironment, _random), heuristic=_read, best_return=1.0),
}
