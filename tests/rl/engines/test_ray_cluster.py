"""A run reaches a Ray cluster that runs already, whose machines may join one after another."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray
from ray.cluster_utils import Cluster

from openenv.rl.config import ConfigError
from openenv.rl.config.engine import EngineConfig
from openenv.rl.engines.ray_cluster import placement
from openenv.rl.engines.ray_cluster.cluster import connect
from openenv.rl.engines.ray_cluster.placement import Placement
from openenv.rl.reports.results import read_rows

pytestmark = pytest.mark.process


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """One machine with a processor."""
    machines = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        yield machines
    finally:
        ray.shutdown()
        machines.shutdown()


def engine(cluster: Cluster) -> EngineConfig:
    return EngineConfig(name="ray", address=cluster.address, rollout_workers=1)


async def test_a_machine_that_joins_late_is_waited_for(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    assert await asyncio.to_thread(connect, engine(cluster))
    placing = asyncio.create_task(Placement.of(engine(cluster), on_gpus=False))
    while "waiting 120 s at most for machines: 1 CPU are free" not in caplog.text:
        await asyncio.sleep(0.1)
        assert not placing.done()
    cluster.add_node(num_cpus=2)

    (await placing).close()


async def test_a_cluster_that_stays_too_small_is_refused(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement, "JOIN_LIMIT_S", 1.0)
    connect(engine(cluster))

    with pytest.raises(ConfigError, match="need 3 CPU, and the cluster 1 s later has free 1 CPU"):
        await Placement.of(engine(cluster), on_gpus=False)


async def test_a_cluster_whose_free_processors_are_in_pieces_is_refused_with_what_each_machine_has(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placement, "JOIN_LIMIT_S", 1.0)
    for _ in range(3):
        cluster.add_node(num_cpus=1, num_gpus=1)
    connect(engine(cluster))
    config = EngineConfig(name="ray", address=cluster.address, rollout_workers=1, generator_gpus=2)

    with pytest.raises(
        ConfigError, match=r"in pieces: .* needs 1 CPU and 2 GPU on one machine\. Free are: "
    ) as refused:
        await Placement.of(config, on_gpus=True)

    assert str(refused.value).count(" 1 CPU and 1 GPU") == 3
    assert " 1 CPU and 0 GPU" in str(refused.value)


def test_a_driver_that_is_terminated_saves_a_checkpoint(tmp_path: Path) -> None:
    file, metrics = tmp_path / "run.yaml", tmp_path / "run" / "metrics.jsonl"
    file.write_text(
        f"""name: run
env: guess
engine: {{name: ray, rollout_workers: 1}}
model: {{precision: float32, num_layers: 1, hidden_size: 64, num_heads: 2}}
pretrain: {{steps: 5, max_decisions: 1000, batch_size: 64}}
trainer: {{training: {{steps: 10000}}}}
evaluation: {{num_games: 20}}
checkpoint: {{folder: {tmp_path}, interval: 10000}}
"""
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "openenv", "train", str(file)], env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 240
        while not (metrics.exists() and len(read_rows(metrics)) >= 2):
            assert process.poll() is None, process.communicate()[1]
            assert time.monotonic() < deadline
            time.sleep(0.2)

        process.terminate()
        _, errors = process.communicate(timeout=120)
    finally:
        process.kill()

    steps = len(read_rows(metrics))
    assert process.returncode == 128 + signal.SIGTERM, errors
    assert f"stopped after step {steps}" in errors
    assert (tmp_path / "run" / "checkpoints" / "latest").read_text(encoding="utf-8") == f"step_{steps:06d}"
