"""Two hundred episodes under faults: each ends exactly as an undisturbed one, or with a reason why it is invalid."""

import asyncio
import os
import random
import signal
from collections import Counter
from pathlib import Path

import httpx
import pytest

from openenv.core.errors import (
    FactoryFault,
    OpenEnvError,
    RequestRefused,
    ServerUnreachable,
    SessionGone,
    SessionLost,
    TimeLimitExceeded,
    WorkerCrashed,
)
from openenv.hosting.local_process import LocalServer
from tests.core.counting_env import CountAction, CountEnv, CountingEnvironment
from tests.core.cutting_proxy import CuttingProxy

pytestmark = pytest.mark.process

NUM_EPISODES = 200
NUM_STEPS = 9
HANGS = range(0, NUM_EPISODES, 20)  # episodes with a step that never returns
EXITS = range(7, NUM_EPISODES, 25)  # episodes with a step that ends its process

Seen = list[tuple[int, float]]


def undisturbed(seed: int) -> Seen:
    """Return the observations of an episode without faults, played in this process."""
    env = CountingEnvironment()
    first = env.reset(seed=seed)
    rest = [env.step(CountAction(amount=1)) for _ in range(NUM_STEPS)]
    return [(seen.total, seen.draw) for seen in (first, *rest)]


async def disturbed(url: str, seed: int) -> tuple[Seen, str]:
    """Play the episode under faults; return its observations, and `valid` or the error."""
    env = CountEnv(url, message_timeout_s=60)
    seen: Seen = []
    rng = random.Random(seed)
    try:
        async with env:
            result = await env.reset(seed=seed)
            seen.append((result.observation.total, result.observation.draw))
            for step in range(NUM_STEPS):
                await asyncio.sleep(rng.uniform(0.1, 0.6))
                mischief = "forever" if seed in HANGS and step == 4 else "exit" if seed in EXITS and step == 5 else ""
                result = await env.step(CountAction(amount=1, mischief=mischief))
                seen.append((result.observation.total, result.observation.draw))
            state = await env.state()
            assert state.step_count == NUM_STEPS, "a step happened twice or never"
    except OpenEnvError as error:
        return seen, f"invalid: {type(error).__name__}"
    return seen, "valid"


def children_of(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").glob("*/children")  # a child belongs to the thread that started it
    return [int(child) for task in tasks for child in task.read_text().split()]


def workers_of(server: LocalServer) -> list[int]:
    """Return the process ids of the workers, which are the children of the server's children."""
    return [worker for child in children_of(server.pid) for worker in children_of(child)]


async def break_things(server: LocalServer, proxy: CuttingProxy, faults: Counter[str]) -> None:
    rng = random.Random(1)
    while True:
        await asyncio.sleep(0.1)
        faults["connections cut"] += proxy.cut(share=0.1)
        workers = workers_of(server)
        if workers and faults["workers killed"] < 12 and rng.random() < 0.3:
            os.kill(rng.choice(workers), signal.SIGKILL)
            faults["workers killed"] += 1


@pytest.mark.slow
async def test_every_episode_ends_as_without_faults_or_is_invalid_with_a_reason(capsys):
    arguments = ["--serve", "ProcessEnvironment", "--step-timeout-s", "2", "--reconnect-grace-s", "15"]
    faults: Counter[str] = Counter()
    server = LocalServer("tests.core.counting_env", arguments, start_timeout_s=60).launch()
    proxy = CuttingProxy(server.base_url)
    await disturbed(server.base_url, seed=1)  # opens the files that the server keeps open
    open_files = len(os.listdir(f"/proc/{server.pid}/fd"))
    breaking = asyncio.create_task(break_things(server, proxy, faults))
    first_half = asyncio.gather(*(disturbed(proxy.url, seed) for seed in range(NUM_EPISODES // 2)))
    first = await first_half
    left = await settled(server)
    left.append(max(0, len(os.listdir(f"/proc/{server.pid}/fd")) - open_files))

    second_half = asyncio.gather(*(disturbed(proxy.url, seed) for seed in range(NUM_EPISODES // 2, NUM_EPISODES)))
    await asyncio.sleep(3)
    breaking.cancel()
    os.kill(server.pid, signal.SIGKILL)
    faults["server killed and restarted"] += 1
    server.stop()
    server = LocalServer("tests.core.counting_env", arguments, start_timeout_s=60).launch()
    proxy.redirect(server.base_url)
    breaking = asyncio.create_task(break_things(server, proxy, faults))
    second = await second_half
    breaking.cancel()
    left += await settled(server)
    server.stop()
    proxy.close()

    outcomes = Counter(outcome for _, outcome in (*first, *second))
    with capsys.disabled():
        print(f"\n{NUM_EPISODES} episodes: {dict(outcomes)}; faults: {dict(faults)}; left over (sessions, workers, "
              f"files; sessions, workers): {left}")  # fmt: skip
    for seed, (seen, outcome) in enumerate((*first, *second)):
        expected = undisturbed(seed)
        assert seen == expected[: len(seen)], f"episode {seed} has other observations"
        assert outcome != "valid" or seen == expected
    assert outcomes["valid"] >= NUM_EPISODES // 4
    assert outcomes.keys() <= {"valid"} | {
        f"invalid: {cls.__name__}" for cls in (TimeLimitExceeded, WorkerCrashed, SessionLost, *lost_classes())
    }
    assert left == [0, 0, 0, 0, 0]


def lost_classes() -> list[type[RequestRefused]]:
    """Return the errors of a session that was opening while the server was killed."""
    return [SessionGone, ServerUnreachable, FactoryFault]


async def settled(server: LocalServer) -> list[int]:
    """Return the sessions and worker processes that are left after every client has closed."""
    async with httpx.AsyncClient(base_url=server.base_url) as http:
        for _ in range(150):
            left = [(await http.get("/ready")).json()["sessions"], len(workers_of(server))]
            if left == [0, 0]:
                break
            await asyncio.sleep(0.2)
    return left
