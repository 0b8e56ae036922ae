"""The processors and GPUs of a run's actors: one placement group of the cluster."""

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

import ray
from ray._private import state
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from openenv.rl.config import ConfigError
from openenv.rl.config.engine import EngineConfig

log = logging.getLogger(__name__)

JOIN_LIMIT_S = 120.0
"""For machines of a cluster that still start, and for what else runs there to end."""
_POLL_S = 1

Kind = Literal["rank", "generator", "worker"]


def bundles_of(config: EngineConfig, *, on_gpus: bool) -> list[dict[str, float]]:
    """What each trainer rank, each generator and each rollout worker needs, in this order.

    Colocated generators have no bundle of their own: they are in that of the trainer rank of their number.
    """
    own_generators = 0 if config.colocated else config.generators
    processors = [2.0 if config.colocated and rank < config.generators else 1.0 for rank in range(config.trainer_ranks)]
    ranks = [{"CPU": number, "GPU": 1.0} for number in processors]
    generators = [{"CPU": 1.0, "GPU": float(config.generator_gpus)} for _ in range(own_generators)]
    workers = [{"CPU": 1.0} for _ in range(config.num_workers)]
    bundles = [*ranks, *generators, *workers]
    return bundles if on_gpus else [{"CPU": one["CPU"]} for one in bundles]


class Placement:
    """Where the actors of a run are. An actor that is made again has the same place, or another of its size where the
    machine has ended."""

    def __init__(self, config: EngineConfig, group: Any, *, on_gpus: bool) -> None:
        self._config = config
        self._group = group
        self._on_gpus = on_gpus

    @classmethod
    async def of(cls, config: EngineConfig, *, on_gpus: bool) -> Self:
        """Reserve what the actors need, on as few machines as possible.

        Raises ConfigError if the cluster does not have it: at once if it is the run's own, otherwise after two minutes,
        in which machines may join.
        """
        bundles = bundles_of(config, on_gpus=on_gpus)
        cluster: Any = ray
        if not config.address:
            _require(bundles, cluster.cluster_resources(), "has")
        group: Any = placement_group(bundles, strategy="PACK")
        log.info("engine: the cluster is asked for %s", _shown(_sum(bundles)))
        deadline = time.monotonic() + JOIN_LIMIT_S
        is_named = False
        try:
            while not await asyncio.to_thread(group.wait, _POLL_S):
                free = cluster.available_resources()
                if time.monotonic() > deadline:
                    _require(bundles, free, f"{JOIN_LIMIT_S:.0f} s later has free")
                    raise _in_pieces(bundles)
                if not is_named:
                    log.warning("waiting %.0f s at most for machines: %s are free", JOIN_LIMIT_S, _of(bundles, free))
                    is_named = True
        except BaseException:
            remove_placement_group(group)
            raise
        return cls(config, group, on_gpus=on_gpus)

    def options(self, kind: Kind, number: int) -> dict[str, Any]:
        """Ray's options of an actor. number: among those of its kind."""
        config = self._config
        is_shared = config.colocated and kind != "worker" and number < config.generators
        gpus = {"rank": 1, "generator": config.generator_gpus, "worker": 0}[kind] * (0.5 if is_shared else 1)
        own_generators = 0 if config.colocated else config.generators
        first = {
            "rank": 0,
            "generator": 0 if config.colocated else config.trainer_ranks,
            "worker": config.trainer_ranks + own_generators,
        }[kind]
        place = PlacementGroupSchedulingStrategy(self._group, placement_group_bundle_index=first + number)
        return {"num_cpus": 1, "num_gpus": gpus if self._on_gpus else 0, "scheduling_strategy": place}

    def close(self) -> None:
        """Give back what was reserved. Actors that still have it end."""
        remove_placement_group(self._group)


def _require(bundles: Sequence[Mapping[str, float]], there: Mapping[str, float], has: str) -> None:
    """Raise ConfigError if a cluster has less in all than what is wanted."""
    if any(there.get(name, 0.0) < number for name, number in _sum(bundles).items()):
        raise _too_small(bundles, there, has)


def _too_small(bundles: Sequence[Mapping[str, float]], there: Mapping[str, float], has: str) -> ConfigError:
    wanted = _sum(bundles)
    largest = max(bundles, key=lambda one: one.get("GPU", 0.0))
    on_one = f", {_shown(largest)} of it on one machine" if largest.get("GPU", 0.0) > 1 else ""
    return ConfigError(
        f"engine: its actors need {_shown(wanted)}{on_one}, and the cluster {has} {_of(bundles, there)}. Start fewer "
        "actors, add machines, or end what else runs there."
    )


def _in_pieces(bundles: Sequence[Mapping[str, float]]) -> ConfigError:
    """The error of a cluster that has enough in all, on machines of which none has room for some actor."""
    cluster: Any = ray
    known: Any = state
    addresses = {one["NodeID"]: one["NodeManagerAddress"] for one in cluster.nodes()}
    free = known.available_resources_per_node()
    machines = ", ".join(
        f"{addresses[node]} {_of(bundles, there)}" for node, there in free.items() if node in addresses
    )
    largest = max(bundles, key=lambda one: (one.get("GPU", 0.0), one["CPU"]))
    return ConfigError(
        f"engine: its actors need {_shown(_sum(bundles))}, which the cluster has free in all, but in pieces: no "
        f"machine has room for one of them. The largest needs {_shown(largest)} on one machine. Free are: {machines}. "
        "Lower engine.generator_gpus, add a machine that has that much, or end what else runs there."
    )


def _of(bundles: Sequence[Mapping[str, float]], there: Mapping[str, float]) -> str:
    """What there is of the kinds that are wanted."""
    return _shown({name: there.get(name, 0.0) for name in _sum(bundles)})


def _sum(bundles: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: sum(one.get(name, 0.0) for one in bundles) for name in bundles[0]}


def _shown(resources: Mapping[str, float]) -> str:
    return " and ".join(f"{number:g} {name}" for name, number in resources.items())
