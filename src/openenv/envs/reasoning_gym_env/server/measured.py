"""What `openenv envs --measure` plays: sums, beside plain reasoning-gym, with a player that can add."""

import re
import time
from random import Random

from reasoning_gym.factory import create_dataset

from openenv.envs.measured import MeasuredTask
from openenv.envs.reasoning_gym_env.models import ReasoningGymAction, ReasoningGymObservation

_TERM = re.compile(r"([-+]?)\s*(\d+)")


def play_bare(seconds: float) -> float:
    """Questions of `chain_sum`, made and scored by the library alone; returns answers per second."""
    dataset, rng, steps = create_dataset("chain_sum", seed=0, size=1 << 30), Random(0), 0
    started = time.perf_counter()
    while time.perf_counter() - started < seconds:
        entry = dataset[steps]
        dataset.score_answer(rng.choice(entry["question"].split()), entry)
        steps += 1
    return steps / (time.perf_counter() - started)


def add_up(observation: ReasoningGymObservation, _: Random) -> ReasoningGymAction:
    """The sum of the signed numbers after the last colon of a `chain_sum` question."""
    terms = _TERM.findall(observation.question.rpartition(":")[2])
    return ReasoningGymAction(answer=str(sum(int(sign + digits) for sign, digits in terms)))


MEASURED = {
    "chain_sum": MeasuredTask(
        reset={"dataset": "chain_sum"}, play_bare=play_bare, heuristic=add_up, best_return=1.0, num_episodes=500
    ),
}
