"""Real vLLM servers sample the replies of a run on Ray: one for each generator, which its actor starts."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import ray

from openenv.rl.engines.ray_cluster.engine import RayEngine
from tests.rl.engines.runs import config_of, reached, train

pytestmark = [pytest.mark.vllm, pytest.mark.process]

STEPS = 7
SETTINGS: dict[str, Any] = {
    "generator": {
        "name": "vllm",
        "python": os.environ.get("OPENENV_VLLM_PYTHON", ""),
        # with one reply after another, and none that finds a part of its prompt computed, vLLM adds in a fixed order
        "options": ["--max-num-seqs=1", "--no-enable-prefix-caching"],
    },
    "group_size": 4,
    "replay_buffer": {"batch_size": 6},
}


async def test_servers_and_actors_that_end_change_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    servers = list[int]()

    async def disturb(engine: RayEngine) -> None:
        await reached(engine, 1)
        servers.append(group_of(engine, 0))
        os.killpg(servers[0], signal.SIGKILL)
        await reached(engine, 3)
        servers.append(group_of(engine, 0))
        ray.kill(engine._replicas[0], no_restart=False)
        await reached(engine, 5)
        servers.append(group_of(engine, 0))
        os.killpg(servers[2], signal.SIGSTOP)
        while "generator 0 has not answered for" not in caplog.text:  # noqa: ASYNC110  the log alone has it
            await asyncio.sleep(0.1)
        os.killpg(servers[2], signal.SIGCONT)  # what is stopped cannot end

    alone = await train(config_of(tmp_path, "embedded", SETTINGS, parts=2), STEPS)
    config = config_of(tmp_path, "ray", SETTINGS, parts=2)

    assert await train(config, STEPS, disturb) == alone
    assert caplog.text.count("generator 0 has ended, and begins again") >= 2
    async with asyncio.timeout(60):
        while any(map(has_processes, servers)):  # noqa: ASYNC110  the system ends them
            await asyncio.sleep(0.1)
    assert (config.run_dir / "vllm.log").exists()


def group_of(engine: RayEngine, number: int) -> int:
    """The group of the processes of a generator's vLLM server."""
    server = engine._servers[number]
    assert server is not None
    wanted = ["openenv_vllm.py", server.url.rpartition(":")[2]]
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        words = file.read_text(encoding="utf-8").split("\0")
        if "--port" in words and wanted == [Path(words[1]).name, words[words.index("--port") + 1]]:
            return os.getpgid(int(file.parent.name))
    raise AssertionError(f"{server.url} has no process")


def has_processes(group: int) -> bool:
    """Whether one of a group still runs."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
