"""How long does a step take?"""

import asyncio
from statistics import median

from openenv.evaluation.quality.episodes import play
from openenv.evaluation.quality.findings import Finding, passed, warned
from openenv.evaluation.quality.subject import Subject

_STEPS = 500
_MOST_S = 2.0
_SLOW_S = 1.0


async def step_time(subject: Subject) -> Finding:
    """Median and 99th percentile of a step, on the way there and back included, alone on the server."""
    loop = asyncio.get_running_loop()
    give_up = loop.time() + _MOST_S
    took_s: list[float] = []
    seed = subject.seed
    async with subject.dialogue() as dialogue:
        while not took_s or (len(took_s) < _STEPS and loop.time() < give_up):
            took_s += (await play(dialogue, seed, subject.random_player(f"time {seed}"), 50)).step_s
            seed += 1
    took_s.sort()
    p99_s = took_s[int(0.99 * (len(took_s) - 1))]
    seen = f"median {1e3 * median(took_s):.2f} ms, 99 % below {1e3 * p99_s:.2f} ms ({len(took_s)} steps)"
    if median(took_s) > _SLOW_S:
        return warned(seen, "training takes thousands of steps: make one take well under a second")
    return passed(seen)
