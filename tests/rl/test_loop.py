"""The two loops: learning, resuming, stopping; without a server."""

import asyncio
import contextlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

from openenv.core.errors import EnvironmentFault
from openenv.rl.config import Config
from openenv.rl.loop import NothingPlayed, TrainingLoop
from openenv.rl.models.generator import Generator
from openenv.rl.models.language_model import WeightStore, tiny_model
from openenv.rl.reports.results import MetricsLog, read_metrics
from openenv.rl.rollouts.rewards import EpisodeReward
from openenv.rl.rollouts.rollout import Rollout
from openenv.rl.training.checkpoint import Checkpoints, TrainingProgress
from openenv.rl.training.trainer import ReferenceModel, Trainer
from tests.rl.echo_game import EchoPool, EchoText, echo_chat, echo_config

pytestmark = pytest.mark.process

NAMES_OF_TRL = {
    "reward",
    "reward_std",
    "frac_reward_zero_std",
    "completions/mean_length",
    "kl",
    "entropy",
    "clip_ratio/low_mean",
    "clip_ratio/high_mean",
    "step_time",
    "num_tokens",
}


class SmallRun:
    """All parts of a run on the echo game."""

    def __init__(self, config: Config, folder: Path, *, resume: bool = False) -> None:
        torch.set_num_threads(1)
        self.config = config
        self.chat = echo_chat()
        self.model = tiny_model(config.model, self.chat.tokenizer, max_length=64, seed=config.seed)
        self.trainer = Trainer(self.model, ReferenceModel(self.model, "float32"), config, self.chat.pad_id)
        self.checkpoints = Checkpoints(folder)
        self.metrics_path = folder / "metrics.jsonl"
        start = TrainingProgress(step=0, next_group=0, training_s=0.0)
        self.progress = self.checkpoints.restore(self.trainer) if resume else start
        self.executor = ThreadPoolExecutor(1)

    async def run(self, steps: int, on_step: Any = None) -> list[dict[str, Any]]:
        store, config = WeightStore(), self.config
        copy = tiny_model(config.model, self.chat.tokenizer, max_length=64, seed=9)
        generator = Generator(copy, self.chat, max_new_tokens=config.max_res_tokens, store=store)
        reward = EpisodeReward(config.reward)
        rollouts = [
            Rollout(EchoPool(8, turns=1), EchoText(), generator, reward, config, self.executor) for _ in range(2)
        ]
        metrics = MetricsLog(self.metrics_path, first_step=self.progress.step)
        self.loop = TrainingLoop(
            rollouts,
            self.trainer,
            store,
            self.checkpoints,
            self.chat,
            config,
            metrics,
            self.progress,
            config.replay_buffer.batch_size or 4,
        )
        await self.loop.run(steps, on_step)
        self.progress = self.loop.progress
        return read_metrics(self.metrics_path)


async def test_the_model_learns_to_say_what_it_sees(tmp_path: Path) -> None:
    config = echo_config(
        group_size=8,
        groups_in_flight=8,
        replay_buffer={"batch_size": 16},
        trainer={"training": {"steps": 70}, "optimizer": {"lr": 3e-3, "warmup_steps": 1}},
    )

    rows = await SmallRun(config, tmp_path).run(70)

    assert rows[-1]["win_rate"] > 0.9
    assert set(rows[-1]) >= NAMES_OF_TRL
    assert [row["step"] for row in rows] == list(range(1, 71))


async def test_no_episode_is_older_than_max_policy_age(tmp_path: Path) -> None:
    rows = await SmallRun(echo_config(off_by_n=1), tmp_path).run(6)

    assert max(row["off_policy/max_age"] for row in rows) <= 1
    assert all(row["buffer/evicted"] == 0 for row in rows)


async def test_strictly_on_policy_the_generator_agrees_with_the_trainer(tmp_path: Path) -> None:
    rows = await SmallRun(echo_config(off_by_n=0), tmp_path).run(4)

    assert all(row["off_policy/max_age"] == 0 for row in rows)
    assert all(abs(row["mismatch_kl"]) < 1e-6 for row in rows)


CURVE = ("step", "reward", "return", "win_rate", "kl", "entropy", "grad_norm", "learning_rate", "num_tokens")


def curve(rows: list[dict[str, Any]]) -> list[list[Any]]:
    return [[pytest.approx(row[key], rel=1e-6, abs=1e-9) for key in CURVE] for row in rows]


async def test_a_resumed_run_continues_the_same_curve(tmp_path: Path) -> None:
    config = echo_config(off_by_n=0)
    uninterrupted = await SmallRun(config, tmp_path / "a").run(6)
    await SmallRun(config, tmp_path / "b").run(3)

    resumed = await SmallRun(config, tmp_path / "b", resume=True).run(3)

    assert [[row[key] for key in CURVE] for row in resumed] == curve(uninterrupted)


async def test_cancelling_keeps_what_was_made(tmp_path: Path) -> None:
    run = SmallRun(echo_config(), tmp_path)
    two_steps = asyncio.Event()
    training = asyncio.ensure_future(run.run(1000, lambda row: two_steps.set() if row["step"] == 2 else None))
    await two_steps.wait()

    training.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await training

    rows = read_metrics(run.metrics_path)
    restored = SmallRun(echo_config(), tmp_path, resume=True)
    assert restored.progress.step == restored.trainer.step_count >= 2
    assert len(rows) == restored.progress.step


class UnreachablePool(EchoPool):
    async def reset(self, requests: Any) -> Any:
        raise ConnectionError("the server is gone")


class FailingPool(EchoPool):
    async def reset(self, requests: Any) -> Any:
        return {index: EnvironmentFault("the table broke") for index in requests}


@pytest.mark.parametrize(
    ("pool", "error", "reason"),
    [(UnreachablePool(), ConnectionError, "the server is gone"), (FailingPool(), NothingPlayed, "the table broke")],
)
async def test_rollouts_that_fail_end_the_run_with_their_error(
    tmp_path: Path, pool: EchoPool, error: type[Exception], reason: str
) -> None:
    run = SmallRun(echo_config(), tmp_path)
    generator = Generator(run.model, run.chat, max_new_tokens=2)
    rollout = Rollout(pool, EchoText(), generator, EpisodeReward(), run.config, run.executor)
    metrics, store = MetricsLog(run.metrics_path), WeightStore()
    loop = TrainingLoop(
        [rollout], run.trainer, store, run.checkpoints, run.chat, run.config, metrics, run.progress, batch_size=4
    )

    with pytest.raises(error, match=reason):
        await asyncio.wait_for(loop.run(2), 20)


async def test_training_stops_when_its_time_is_up(tmp_path: Path) -> None:
    config = echo_config(trainer={"training": {"steps": 1000, "max_minutes": 1e-6}})

    assert await SmallRun(config, tmp_path).run(1000) == []
