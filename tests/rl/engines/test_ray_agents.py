"""Agents' programs on Ray: they run beside the rollout workers, and their episodes are those of the embedded engine."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import ray

from openenv.rl.engines.ray_cluster.engine import RayEngine
from tests.rl.engines.runs import Run, config_of, reached, train

STEPS = 4
PLAYERS = Path(__file__).parents[1] / "agents" / "players.py"
AGENT: dict[str, Any] = {
    "agent": {"function": f"{PLAYERS}:one_turn", "random_episodes": 8},
    "group_size": 4,
    "replay_buffer": {"batch_size": 6},
}


def played(run: Run) -> list[Any]:
    """What the model was shown and replied in each episode, and what it has come to."""
    episodes = [json.loads(line) for line in run.transcripts.splitlines()]
    return [(one["turns"], one["actions"], one["reward"]) for one in episodes]


async def test_agents_play_the_episodes_of_the_embedded_engine_though_their_worker_ends(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    waited = set[tuple[str, str]]()

    async def disturb(engine: RayEngine) -> None:
        await reached(engine, 1)
        ray.kill(engine.actors[0], no_restart=False)
        while engine.progress.step < STEPS:
            for status in await asyncio.gather(*(one.status.remote() for one in engine.actors), return_exceptions=True):
                waited.update((wait.waiter, wait.awaited) for wait in getattr(status, "waits", ()))
            await asyncio.sleep(0.05)

    alone = await train(config_of(tmp_path, "embedded", AGENT), STEPS)
    together = await train(config_of(tmp_path, "ray", AGENT), STEPS, disturb)

    assert len(played(alone)) > 0
    assert played(together) == played(alone)
    assert together.distance(alone) < 1e-5  # a batch has the replies that are asked for at that moment
    assert "rollout worker 0 has ended" in caplog.text
    assert {awaited for _, awaited in waited} >= {"programs of the agent", "generator 0"}
