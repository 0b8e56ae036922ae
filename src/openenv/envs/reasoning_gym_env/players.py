"""A player that can add, and random answers to reasoning-gym alone."""

import re
from collections.abc import Iterator
from itertools import count
from random import Random

from reasoning_gym.factory import create_dataset

from openenv.envs.reasoning_gym_env.models import ReasoningGymAction, ReasoningGymObservation

_TERM = re.compile(r"([-+]?)\s*(\d+)")


def random_answers(dataset: str) -> Iterator[int]:
    """Questions that the library alone makes and scores, each answered by a word of the question."""
    questions, rng = create_dataset(dataset, seed=0, size=1 << 30), Random(0)
    for number in count():
        entry = questions[number]
        questions.score_answer(rng.choice(entry["question"].split()), entry)
        yield 1


def add_up(observation: ReasoningGymObservation, _: Random) -> ReasoningGymAction:
    """The sum of the signed numbers after the last colon of a `chain_sum` question."""
    terms = _TERM.findall(observation.question.rpartition(":")[2])
    return ReasoningGymAction(answer=str(sum(int(sign + digits) for sign, digits in terms)))
