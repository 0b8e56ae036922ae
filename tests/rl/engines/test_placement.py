"""The actors of a run on Ray have the processors and GPUs that its configuration asks for."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import ray

from openenv.rl.config import ConfigError
from openenv.rl.config.engine import EngineConfig
from openenv.rl.engines.ray_cluster import placement
from openenv.rl.engines.ray_cluster.placement import Placement, bundles_of


def engine(**settings: Any) -> EngineConfig:
    return EngineConfig(name="ray", **settings)


@contextmanager
def cluster(**resources: int) -> Iterator[None]:
    """A cluster with as many processors and GPUs as it is given: no GPU has to be there."""
    ray.init(address="local", include_dashboard=False, **resources)
    try:
        yield
    finally:
        ray.shutdown()


@pytest.mark.parametrize(
    ("settings", "bundles"),
    [
        ({}, [{"CPU": 1, "GPU": 1}, {"CPU": 1, "GPU": 1}, {"CPU": 1}, {"CPU": 1}]),
        (
            {"trainer_ranks": 2, "generators": 2, "generator_gpus": 4, "rollout_workers": 1},
            [*[{"CPU": 1, "GPU": 1}] * 2, *[{"CPU": 1, "GPU": 4}] * 2, {"CPU": 1}],
        ),
        (
            {"trainer_ranks": 3, "generators": 2, "colocated": True, "rollout_workers": 1},
            [*[{"CPU": 2, "GPU": 1}] * 2, {"CPU": 1, "GPU": 1}, {"CPU": 1}],
        ),
    ],
)
def test_each_rank_has_a_gpu_and_each_generator_its_own_or_half_of_a_rank(
    settings: dict[str, Any], bundles: list[dict[str, float]]
) -> None:
    assert bundles_of(engine(**settings), on_gpus=True) == bundles
    assert bundles_of(engine(**settings), on_gpus=False) == [{"CPU": one["CPU"]} for one in bundles]


class Seeing:
    """An actor that knows its GPUs."""

    def gpus(self) -> set[str]:
        """Those that a program in it would use."""
        return set(filter(None, os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")))


async def test_actors_see_the_gpus_of_their_bundle_and_colocated_ones_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    actor: Any = ray.remote(Seeing)

    async def seen(config: EngineConfig, *kinds: tuple[placement.Kind, int]) -> list[set[str]]:
        place = await Placement.of(config, on_gpus=True)
        actors = [actor.options(**place.options(*one)).remote() for one in kinds]
        found = [await one.gpus.remote() for one in actors]
        place.close()
        return found

    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    with cluster(num_cpus=8, num_gpus=4):
        apart = engine(trainer_ranks=2, generator_gpus=2, rollout_workers=1)
        first, second, generator = await seen(apart, ("rank", 0), ("rank", 1), ("generator", 0))
        colocated = engine(trainer_ranks=2, generators=2, colocated=True, rollout_workers=1)
        ranks_and_generators = await seen(colocated, ("rank", 0), ("rank", 1), ("generator", 0), ("generator", 1))

    assert (len(first), len(second), len(generator)) == (1, 1, 2)
    assert first | second | generator == {"0", "1", "2", "3"}
    ranks, generators = ranks_and_generators[:2], ranks_and_generators[2:]
    assert ranks == generators
    assert ranks[0] != ranks[1]


async def test_a_cluster_that_is_too_small_is_an_error_with_what_is_wanted_and_what_there_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with cluster(num_cpus=4, num_gpus=1):
        with pytest.raises(ConfigError, match=r"need 4 CPU and 2 GPU, and the cluster has 4 CPU and 1 GPU"):
            await Placement.of(engine(), on_gpus=True)
        two_of_four = await Placement.of(engine(rollout_workers=1, colocated=True), on_gpus=False)
        monkeypatch.setattr(placement, "JOIN_LIMIT_S", 1.0)
        with pytest.raises(ConfigError, match=r"need 4 CPU, and the cluster 1 s later has free 1 CPU"):
            await Placement.of(engine(), on_gpus=False)
        monkeypatch.undo()
        two_of_four.close()
        (await Placement.of(engine(), on_gpus=False)).close()
