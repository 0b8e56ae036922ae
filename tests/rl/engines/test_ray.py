"""The engine on Ray makes the run of the embedded engine, whatever its number of actors, and whichever of them ends."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray
import torch

from openenv.rl.config import ConfigError
from openenv.rl.config_file import config_from_mapping
from openenv.rl.engines.ray_cluster.engine import RayEngine
from tests.rl.engines.runs import Run, config_of, reached, train

STEPS = 20
ROLLBACK = {
    "on_collapse": "rollback",
    "loss": {"kl_weight": 0.0},
    "sampling": {"constrain": True},
    "pretrain": {"steps": 30, "max_decisions": 4000},  # from another start it does not collapse
    "trainer": {"optimizer": {"lr": 1e-3, "warmup_steps": 1}},
}
SELF_PLAY = {"env": {"name": "openspiel", "reset": {"game_name": "kuhn_poker"}, "self_play": {"refresh": 3}}}


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    threads = torch.get_num_threads()
    yield asyncio.run(train(config_of(tmp_path_factory.mktemp("embedded"), "embedded"), STEPS))
    torch.set_num_threads(threads)


async def test_equal_seeds_have_equal_trajectories_and_weights(embedded: Run, tmp_path: Path) -> None:
    config = config_of(tmp_path, "ray", rollout_workers=1, generators=1)

    assert await train(config, STEPS) == embedded
    assert not ray.is_initialized()


async def test_several_actors_change_nothing_nor_do_those_that_end(
    embedded: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ended, recoveries = list[str](), list[int]()

    async def disturb(engine: RayEngine) -> None:
        for step, kind in ((2, "worker"), (5, "generator"), (9, "rank"), (12, "generator"), (15, "worker")):
            await reached(engine, step)
            actors = {"worker": engine.actors, "generator": engine._replicas, "rank": engine.trainer.ranks}[kind]
            ray.kill(actors[-1], no_restart=kind == "rank")
            ended.append(kind)
        await reached(engine, STEPS)
        recoveries.append(engine.num_recoveries)

    config = config_of(tmp_path, "ray", rollout_workers=3, generators=2)

    assert await train(config, STEPS, disturb) == embedded
    assert recoveries == [1]
    assert "rollout worker 2 has ended" in caplog.text
    assert "generator 1 has ended, and begins again" in caplog.text
    assert sorted(ended) == ["generator", "generator", "rank", "worker", "worker"]


async def test_a_trainer_that_ends_after_a_rollback_repeats_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openenv.rl.loop._GOOD_INTERVAL", 2)  # this policy collapses after three steps
    alone = await train(config_of(tmp_path, "embedded", ROLLBACK, interval=0), 18)
    back = next(row["step"] for row in alone.rows if row.get("rolled_back"))

    async def disturb(engine: RayEngine) -> None:
        await reached(engine, back + 3)
        ray.kill(engine.trainer.ranks[0])

    assert await train(config_of(tmp_path, "ray", ROLLBACK, interval=0), 18, disturb) == alone


async def test_opponents_have_the_weights_of_the_same_earlier_step(tmp_path: Path) -> None:
    async def disturb(engine: RayEngine) -> None:
        await reached(engine, 4)
        ray.kill(engine._replicas[0], no_restart=False)

    alone = await train(config_of(tmp_path, "embedded", SELF_PLAY), 8)

    assert await train(config_of(tmp_path, "ray", SELF_PLAY), 8, disturb) == alone


def test_what_the_engine_does_not_have_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"engine\.rollout_workers=3: .* Raise engine\.parts"):
        config_from_mapping({"engine": {"name": "ray", "rollout_workers": 3}})
    with pytest.raises(ConfigError, match=r"engine\.generators=3: each generator answers a part"):
        config_from_mapping({"engine": {"name": "ray", "generators": 3}})
    with pytest.raises(ConfigError, match=r"engine\.generators=2: is for engine\.name: ray"):
        config_from_mapping({"engine": {"generators": 2}})
    with pytest.raises(ConfigError, match=r"generator\.replicas=2: .* has engine\.generators"):
        config_from_mapping({"engine": "ray", "generator": {"name": "vllm", "replicas": 2}})
    with pytest.raises(ConfigError, match=r"engine\.generator_gpus=2: is for generator\.name: vllm"):
        config_from_mapping({"engine": {"name": "ray", "generator_gpus": 2}})
    with pytest.raises(ConfigError, match=r"model\.device='cuda:1': .* the GPU that Ray gives it"):
        config_from_mapping({"engine": "ray", "model": {"device": "cuda:1"}})
    with pytest.raises(ConfigError, match=r"engine\.colocated=True: needs a trainer rank for each generator"):
        config_from_mapping({"engine": {"name": "ray", "generators": 2, "colocated": True}})
    with pytest.raises(ConfigError, match=r"sampling\.partial_rollouts=True: is not for engine\.name: ray"):
        config_from_mapping({"engine": "ray", "sampling": {"partial_rollouts": True}})
