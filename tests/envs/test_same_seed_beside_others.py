"""An episode is the same, byte for byte, alone and beside sixty-four sessions that play at random."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from openenv.envs.catalog import entries
from openenv.evaluation.quality.checks.protocol import reachable
from openenv.evaluation.quality.probe.raw_client import ServerAddress
from openenv.evaluation.quality.probe.recordings import EPISODE_ID, difference
from openenv.evaluation.quality.target import Target
from openenv.hosting.local_process import LocalServer
from tests.envs.extras import require_entry

pytestmark = pytest.mark.process

NUM_OTHERS = 64
NOISY_STEPS = 10 * NUM_OTHERS
"""The episode is repeated until the other sessions have taken this many steps."""
SEED = 11
RESETS = {
    "atari": [{"game_name": name, "obs_type": "ram"} for name in ("breakout", "tetris")],
    "git": [{"kind": "resolve_conflict", "level": 2}],
    "grid_world": [{"slip": 0.3}],
    "calendar": [{"max_steps": 40}],
    "cards": [{"game": name, "agent_player": 1} for name in ("leduc-holdem", "no-limit-holdem", "uno", "gin-rummy")],
    "chess": [{"opponent_policy": name, "agent_color": "random"} for name in ("random", "greedy")],
    "maze": [{}, {"size": 9}],
    "dm_control": [{}, {"domain_name": "pendulum", "task_name": "swingup"}],
    "minigrid": [{"env_id": name} for name in ("MiniGrid-DoorKey-5x5-v0", "MiniGrid-Dynamic-Obstacles-5x5-v0")],
    "gymnasium": [{"env_id": name} for name in ("CartPole-v1", "FrozenLake-v1", "Taxi-v4", "Blackjack-v1")],
    "reasoning_gym": [{}, {"dataset": "word_ladder"}, {"dataset": "list_functions"}],
    "trading": [{}, {"momentum": 0.5, "num_symbols": 1}],
    "openspiel": [
        {"game_name": name}
        for name in ("blackjack", "catch", "tic_tac_toe", "kuhn_poker", "chess", "python_liars_poker")
    ],
}
"""The reset keywords with which an environment is played; by default, none."""
OWN_PROCESSES = {"browser", "textarena"}
"""Each session has a process of its own: sixty-five are too many here. Their own tests play beside other sessions."""
STEPS = {"chess": 12}
MOST_STEPS = 40


@pytest.fixture(scope="module", params=[entry.name for entry in entries() if entry.name not in OWN_PROCESSES])
def served(request):
    (entry,) = (entry for entry in entries() if entry.name == request.param)
    require_entry(entry)
    with LocalServer(entry.server) as server:
        yield entry.name, server.base_url


def test_an_episode_is_the_same_beside_sixty_four_others(served):
    name, url = served
    for reset in RESETS.get(name, [{}]):
        parted, num_steps, num_noisy = asyncio.run(_alone_and_beside_others(url, reset))

        assert parted is None, f"{reset}: {parted}"
        assert num_steps > 0
        assert num_noisy >= NOISY_STEPS, "the others did not play meanwhile"


async def _alone_and_beside_others(url, reset):
    """Where both parted, the steps of the episode, and the steps that the others took meanwhile."""
    target = Target(address=ServerAddress(base_url=url, timeout_s=300.0, headers={}), seed=SEED)
    await reachable(target)
    async with target.client() as client:
        alone, actions = await _episode(target, client, reset)
    noise = {"steps": 0}
    async with AsyncExitStack() as stack:
        others = [await stack.enter_async_context(target.client()) for _ in range(NUM_OTHERS)]
        client = await stack.enter_async_context(target.client())
        playing = [asyncio.create_task(_make_noise(target, other, reset, n, noise)) for n, other in enumerate(others)]
        parted = None
        while parted is None and noise["steps"] < NOISY_STEPS and not any(task.done() for task in playing):
            beside, _ = await _episode(target, client, reset, actions)
            parted = difference(alone, beside)
        for task in playing:
            task.cancel()
        failures = [failure for failure in await asyncio.gather(*playing, return_exceptions=True)
                    if not isinstance(failure, asyncio.CancelledError)]  # fmt: skip
    assert not failures, failures
    return parted, len(actions), noise["steps"]


async def _episode(target, client, reset, actions=None):
    """The raw frames of an episode, and its actions: random ones, or those given."""
    policy = target.random_policy(f"{reset}")
    answer = await client.require("reset", {"seed": SEED, "episode_id": EPISODE_ID, **reset})
    frames, taken = [answer.raw], []
    for turn in range(STEPS.get(reset.get("game_name"), MOST_STEPS)):
        if answer.done:
            break
        taken.append(policy.select_action(answer) if actions is None else actions[turn])
        answer = await client.require("step", taken[-1])
        frames.append(answer.raw)
    return frames, taken


async def _make_noise(target, client, reset, number, noise):
    """Random episodes until cancelled."""
    policy = target.random_policy(f"noise {number}")
    seed = 1000 * number
    while True:
        answer = await client.require("reset", {"seed": seed, **reset})
        for _ in range(MOST_STEPS):
            if answer.done:
                break
            answer = await client.require("step", policy.select_action(answer))
            noise["steps"] += 1
        seed += 1
