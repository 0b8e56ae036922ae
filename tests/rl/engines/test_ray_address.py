"""A run on a cluster that runs already: processes that train together, what a user's files give, and a resumed run."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.cluster_utils import Cluster
from ray.exceptions import ObjectLostError

from openenv.core.errors import NotReady
from openenv.rl.algorithm.trajectory import Trajectory
from openenv.rl.engines.ray_cluster.engine import RayEngine
from openenv.rl.engines.ray_cluster.trainer import RayTrainer
from openenv.rl.training.checkpoint import Checkpoints
from openenv.rl.waiting.waits import Waits
from tests.rl.engines.runs import Run, config_of, reached, train

FILE = Path(__file__).parents[2] / "auto" / "guess_env.py"
SETTINGS: dict[str, Any] = {"env": {"name": f"{FILE}:GuessEnvironment"}, "group_size": 4}


@pytest.fixture
def address(request: pytest.FixtureRequest) -> Iterator[str]:
    """That of a cluster which a command has started. It asks for Ray's token if this process does, as it does from the
    first cluster on that it has started itself."""
    mode = getattr(request, "param", os.environ.get("RAY_AUTH_MODE", "disabled"))
    command = [str(Path(sys.executable).with_name("ray")), "start", "--head", "--block", "--port=0"]
    process = subprocess.Popen(
        [*command, "--num-cpus=8", "--include-dashboard=false", "--disable-usage-stats"],
        env={**os.environ, "RAY_AUTH_MODE": mode}, stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        printed = ""
        while not (found := re.search(r"ray start --address='([\d.:]+)'", printed)):
            line = process.stdout.readline()
            assert line, f"`ray start` ended without an address: {printed}"
            printed += line
        yield found[1]
    finally:
        process.send_signal(signal.SIGTERM)  # it ends what it has started
        process.wait(30)


class Short:
    """A reward of a user's own."""

    def __call__(self, trajectory: Trajectory) -> float:
        return (trajectory.game_return or 0.0) - 0.1 * len(trajectory.turns)


async def test_a_run_goes_on_where_it_was_and_a_process_of_several_that_ends_changes_nothing(
    address: str, tmp_path: Path
) -> None:
    async def run(engine: str, disturb: Any = None, **settings: Any) -> Run:
        config = config_of(tmp_path, engine, SETTINGS, interval=3, **settings)
        await train(config, 3, reward=Short())
        return await train(config, 3, disturb, reward=Short(), resume=True)

    async def disturb(engine: RayEngine) -> None:
        await reached(engine, 4)
        ray.kill(engine.trainer.ranks[1])

    alone = await run("embedded")

    together = await run("ray", disturb, address=address, trainer_ranks=2)

    assert together.distance(alone) < 1e-6
    assert [row["reward"] for row in together.rows] == [row["reward"] for row in alone.rows]
    assert [row["step"] for row in together.rows] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("address", ["disabled"], indirect=True)
async def test_a_cluster_without_the_token_that_this_process_asks_for_is_an_error(address: str, tmp_path: Path) -> None:
    ray.init("local", num_cpus=1, include_dashboard=False)
    ray.shutdown()

    with pytest.raises(NotReady, match="in a process of its own, with the RAY_AUTH_MODE"):
        await train(config_of(tmp_path / "other", "ray", address=address), 1)


async def test_a_machine_that_is_lost_with_all_actors_and_weights_changes_nothing(tmp_path: Path) -> None:
    machines = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    lost = machines.add_node(num_cpus=4)

    async def disturb(engine: RayEngine) -> None:
        await reached(engine, 4)
        machines.add_node(num_cpus=4)
        machines.remove_node(lost, allow_graceful=False)

    alone = await train(config_of(tmp_path, "embedded"), 8)
    try:
        together = await train(config_of(tmp_path, "ray", address=machines.address), 8, disturb)
    finally:
        machines.shutdown()

    assert together == alone


class Lost:
    """Weights that Ray does not find any more when they are passed on."""

    def __reduce__(self) -> Any:
        raise ObjectLostError("1" * 56, "an address", "a call")


async def test_weights_that_are_lost_are_published_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish, recoveries = RayTrainer.publish, list[int]()

    async def publish_and_lose(self: RayTrainer) -> None:
        await publish(self)
        if self.step_count == 3:
            self.published[3] = self.published[3]._replace(place=Lost())

    async def disturb(engine: RayEngine) -> None:
        await reached(engine, 5)
        recoveries.append(engine.num_recoveries)

    alone = await train(config_of(tmp_path, "embedded"), 5)
    monkeypatch.setattr(RayTrainer, "publish", publish_and_lose)

    assert await train(config_of(tmp_path, "ray"), 5, disturb) == alone
    assert recoveries == [1]


async def test_groups_that_are_lost_end_the_run_with_the_way_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lose(*_: object) -> None:
        raise ObjectLostError("1" * 56, "an address", "a call")

    monkeypatch.setattr(RayTrainer, "_called", lose)  # the driver has them: its machine would have to lose its memory
    trainer = RayTrainer(config_of(tmp_path, "ray"), Checkpoints(tmp_path), Waits(), None)

    with pytest.raises(NotReady, match=r"groups that were trained on .* lost with their machine\. Resume .* --resume"):
        await trainer.restore_good()
