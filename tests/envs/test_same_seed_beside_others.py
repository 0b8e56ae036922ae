"""An episode is the same, byte for byte, whether it is played alone or while sixty-four others play at random."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from openenv.core.containers.local_process import LocalServer
from openenv.envs.catalog import entries
from openenv.evaluation.quality.dialogue import Address
from openenv.evaluation.quality.episodes import EPISODE_ID, difference
from openenv.evaluation.quality.reachable import reachable
from openenv.evaluation.quality.subject import Subject

NUM_OTHERS = 64
NOISY_STEPS = 10 * NUM_OTHERS
"""The episode is played again and again until the others have taken that many steps."""
SEED = 11
RESETS = {
    "echo": [{}],
    "openspiel": [
        {"game_name": name}
        for name in ("blackjack", "catch", "tic_tac_toe", "kuhn_poker", "chess", "python_liars_poker")
    ],
}
"""What each bundled environment is asked to play."""
STEPS = {"chess": 12}
MOST_STEPS = 40


def test_every_bundled_environment_is_played_here():
    assert set(RESETS) == {entry.name for entry in entries()}


@pytest.fixture(scope="module", params=[entry.name for entry in entries()])
def served(request):
    (entry,) = (entry for entry in entries() if entry.name == request.param)
    assert entry.is_installed, f"{entry.name} needs the extra {entry.extra}"
    with LocalServer(entry.server) as server:
        yield entry.name, server.base_url


def test_an_episode_is_the_same_beside_sixty_four_others(served):
    name, url = served
    for reset in RESETS[name]:
        parted, num_steps, num_noisy = asyncio.run(_alone_and_beside_others(url, reset))

        assert parted is None, f"{reset}: {parted}"
        assert num_steps > 0
        assert num_noisy >= NOISY_STEPS, "the others did not play meanwhile"


async def _alone_and_beside_others(url, reset):
    """Where both parted, the steps of the episode, and the steps that the others took meanwhile."""
    subject = Subject(address=Address(base_url=url, answer_s=30.0, headers={}), seed=SEED)
    await reachable(subject)
    async with subject.dialogue() as dialogue:
        alone, actions = await _episode(subject, dialogue, reset)
    noise = {"steps": 0}
    async with AsyncExitStack() as stack:
        others = [await stack.enter_async_context(subject.dialogue()) for _ in range(NUM_OTHERS)]
        dialogue = await stack.enter_async_context(subject.dialogue())
        playing = [asyncio.create_task(_make_noise(subject, other, reset, n, noise)) for n, other in enumerate(others)]
        parted = None
        while parted is None and noise["steps"] < NOISY_STEPS and not any(task.done() for task in playing):
            beside, _ = await _episode(subject, dialogue, reset, actions)
            parted = difference(alone, beside)
        for task in playing:
            task.cancel()
        failures = [failure for failure in await asyncio.gather(*playing, return_exceptions=True)
                    if not isinstance(failure, asyncio.CancelledError)]  # fmt: skip
    assert not failures, failures
    return parted, len(actions), noise["steps"]


async def _episode(subject, dialogue, reset, actions=None):
    """The raw frames of an episode, and its actions: random ones, or those given."""
    player = subject.random_player(f"{reset}")
    answer = await dialogue.expect("reset", {"seed": SEED, "episode_id": EPISODE_ID, **reset})
    frames, taken = [answer.raw], []
    for turn in range(STEPS.get(reset.get("game_name"), MOST_STEPS)):
        if answer.done:
            break
        taken.append(player.action(answer) if actions is None else actions[turn])
        answer = await dialogue.expect("step", taken[-1])
        frames.append(answer.raw)
    return frames, taken


async def _make_noise(subject, dialogue, reset, number, noise):
    """Random episodes until cancelled."""
    player = subject.random_player(f"noise {number}")
    seed = 1000 * number
    while True:
        answer = await dialogue.expect("reset", {"seed": seed, **reset})
        for _ in range(MOST_STEPS):
            if answer.done:
                break
            answer = await dialogue.expect("step", player.action(answer))
            noise["steps"] += 1
        seed += 1
