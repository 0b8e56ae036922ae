"""What a run has before its first step: the model, loaded or pretrained, and the environments that it plays."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from transformers import PreTrainedModel

from openenv.auto.environment import ServedEnvironment
from openenv.rl.algorithm.rewards import RandomReturns, Reward
from openenv.rl.budget import Budget
from openenv.rl.config import Config
from openenv.rl.engines.training_environment import TrainingEnvironment, environments_of
from openenv.rl.models.language_model import checkpoint_activations
from openenv.rl.planning.plan import with_planned_passes
from openenv.rl.progress import OnProgress
from openenv.rl.random_play import random_play, require_signal
from openenv.rl.starting_model import (
    StartingModel,
    groups_in_batch,
    make_starting_model,
    require_agreement,
    require_room,
)
from openenv.rl.supervised_phase import pretrain_on, warm_start
from openenv.rl.training.checkpoint import Checkpoints


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A run that can make its first step, or its next."""

    config: Config
    """With the lengths of passes that fit."""
    model: PreTrainedModel
    """The model before GRPO, which the run's folder has too."""
    environments: Sequence[TrainingEnvironment]
    batch_size: int
    """Number of groups in one training step."""


def resumed(config: Config, served: Sequence[ServedEnvironment], reward: Reward | None) -> Prepared:
    """A run of which the model before GRPO is saved."""
    checkpoints = Checkpoints(config.run_dir)
    model, tokenizer, batch_size = checkpoints.load_reference(config.model)
    returns = checkpoints.load_random_returns()
    config = checkpoints.with_passes(config)
    for environment, history in zip(served, checkpoints.load_histories() or (), strict=False):
        environment.text.history = history
    start = StartingModel(model, tokenizer, checkpoints.load_image_reader(model.config, tokenizer))
    environments = environments_of(config, served, start.chat, reward, returns)
    if config.model.gradient_checkpointing:
        checkpoint_activations(model)
    return Prepared(config=config, model=model, environments=environments, batch_size=batch_size)


async def begun(
    config: Config, served: Sequence[ServedEnvironment], reward: Reward | None, budget: Budget, on_progress: OnProgress
) -> Prepared:
    """A new run: random play, and a model that is loaded, or created and pretrained. It is saved."""
    checkpoints = Checkpoints(config.run_dir)
    played = await random_play(config, served, budget, on_progress)
    returns = [RandomReturns.of(one.returns) for one in played]
    if reward is None:
        require_signal(played, config)
    if config.model.path:
        config = await asyncio.to_thread(with_planned_passes, config, played, served)
    start = await asyncio.to_thread(make_starting_model, config, played)
    environments = environments_of(config, served, start.chat, reward, returns)
    if config.model.path:
        require_agreement(start.model, environments[0].chat, config)
    for environment, one in zip(environments, played, strict=True):
        require_room(start.model, environment.chat, one, config)
    if config.model.gradient_checkpointing:
        checkpoint_activations(start.model)
    if not config.model.path:
        await pretrain_on(played, start, config, budget, on_progress)
    elif config.warm_start is not None:
        await warm_start(config.warm_start, environments, start, config, budget, on_progress)
    batch_size = groups_in_batch(config, played)
    checkpoints.save_reference(start.model, environments[0].chat, batch_size)
    checkpoints.save_passes(config)
    checkpoints.save_histories([environment.text.history for environment in served])
    checkpoints.save_random_returns(returns)
    return Prepared(config=config, model=start.model, environments=environments, batch_size=batch_size)
