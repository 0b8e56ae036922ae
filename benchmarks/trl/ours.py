"""Our side: `openenv.rl`, strictly on-policy. Also makes the model that both sides start from."""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import uvloop

from benchmarks.trl import task as settings
from benchmarks.trl.task import Stopwatch, Task, TrainingLog, main
from openenv.rl.config import (
    CheckpointConfig,
    Config,
    ConversationConfig,
    EnvConfig,
    LossConfig,
    ModelConfig,
    OptimizerConfig,
    PretrainConfig,
    ReplayBufferConfig,
    RewardConfig,
    TrainerConfig,
    TrainingConfig,
    WarmStartConfig,
)
from openenv.rl.setup import setup_training


def config(task: Task, folder: str, **overrides: Any) -> Config:
    """The configuration of a run in this folder."""
    values: dict[str, Any] = {
        "seed": task.seed,
        "env": [EnvConfig(name="openspiel", server_url=task.server_url, reset={"game_name": settings.GAME})],
        "model": ModelConfig(
            path=task.model,
            device=task.device,
            precision="float32" if task.device == "cpu" else "bfloat16",
            instructions=task.instructions,
        ),
        "group_size": task.group_size,
        "groups_in_flight": -(-task.groups // 2),
        "off_by_n": 0,
        "max_req_tokens": settings.MAX_PROMPT_TOKENS,
        "max_res_tokens": settings.MAX_REPLY_TOKENS,
        "conversation": ConversationConfig(history="full"),
        "reward": RewardConfig(scale=1.0, unparseable=settings.UNPARSEABLE),
        "advantage": "dr_grpo",
        "loss": LossConfig(
            name="dr_grpo",
            clip_low=settings.CLIP_LOW,
            clip_high=settings.CLIP_HIGH,
            constant_length=settings.LOSS_LENGTH,
            kl_weight=0.0,
        ),
        "trainer": TrainerConfig(
            training=TrainingConfig(steps=task.steps),
            optimizer=OptimizerConfig(
                lr=task.lr, beta1=settings.BETA1, beta2=settings.BETA2, warmup_steps=0, decay_from=1.0
            ),
            max_grad_norm=settings.MAX_GRAD_NORM,
        ),
        "replay_buffer": ReplayBufferConfig(batch_size=task.groups, equal_groups="keep"),
        "checkpoint": CheckpointConfig(folder=folder, interval=0),
    }
    if task.threads is not None:
        values["threads"] = task.threads
    return Config(**values | overrides)


async def make_model(server_url: str, folder: Path, size: tuple[int, int], device: str) -> Path:
    """Briefly pretrain a tiny model of a width and a depth in a new run; return the folder of its weights."""
    task = Task(server_url=server_url, model="", steps=1, groups=1, group_size=2, lr=0, seed=0)
    width, depth = size
    model = ModelConfig(
        hidden_size=width, num_layers=depth, num_heads=max(4, width // 64), intermediate_size=3 * width, device=device
    )
    pretrain = PretrainConfig(max_decisions=20_000, steps=150, batch_size=128, lr=min(0.003, 0.2 / width))
    return await _prepared(config(task, str(folder), name="pretrained", model=model, pretrain=pretrain))


async def warm_start(server_url: str, folder: Path, model: str, device: str) -> Path:
    """Teach a pretrained model the form of replies, by random play in a new run; return the folder of its weights."""
    task = Task(
        server_url=server_url,
        model=model,
        steps=1,
        groups=1,
        group_size=2,
        lr=0,
        seed=0,
        device=device,
        instructions=True,
    )
    return await _prepared(config(task, str(folder), name="warm", warm_start=WarmStartConfig(steps=60)))


async def _prepared(settings: Config) -> Path:
    run = await setup_training(settings)
    await run.shutdown()
    return run.config.run_dir / "checkpoints" / "before_grpo"


async def train_run(task: Task) -> TrainingLog:
    """Train, and measure each step."""
    with TemporaryDirectory() as folder:
        watch = Stopwatch()

        def on_progress(phase: str, _done: int, _total: int, known: dict[str, Any]) -> None:
            if phase == "train":
                watch.step(known["reward"])

        run = await setup_training(config(task, folder), on_progress=on_progress)
        watch.start()
        try:
            await run.run()
        finally:
            await run.shutdown()
    return watch.log


def train(task: Task) -> TrainingLog:
    """Train in the loop that `openenv train` uses."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(train_run(task))


if __name__ == "__main__":
    main(train)
