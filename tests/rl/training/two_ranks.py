"""Trains small models for `test_ranks`: as one process, and as two that hold parts of a model."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor
from transformers import PreTrainedModel

from openenv.rl.algorithm.trajectory import Group
from openenv.rl.config import Config, LoraSettings
from openenv.rl.models.chat import Chat
from openenv.rl.models.divided_weights import trained_weights
from openenv.rl.models.language_model import checkpoint_activations
from openenv.rl.models.lora import add_adapter
from openenv.rl.progress import TrainingProgress
from openenv.rl.training.checkpoint import Checkpoints
from openenv.rl.training.ranks import Ranks
from openenv.rl.training.trainer import Trainer, make_reference
from tests.rl.echo_game import echo_config
from tests.rl.models.small_models import small_model
from tests.rl.training.test_trainer import groups_of

LORA = LoraSettings(rank=4)
_DIVERGENCE = {"kl_weight": 0.1, "kl_weight_end": 0.1}


class Case(NamedTuple):
    """A model, and settings of its training."""

    model: str
    settings: dict[str, Any]
    steps: int = 4
    lora: LoraSettings | None = None
    checkpoints_activations: bool = False
    num_episodes: int = 12
    """Of different sequences, in groups of four or of as many as there are."""


CASES = {
    "with a budget of each step": Case(
        "Qwen3", {"loss": _DIVERGENCE, "trainer": {"tokens_per_forward": 40, "kl_target": 0.001}}, 20
    ),
    "several updates a batch": Case(
        "Llama", {"loss": _DIVERGENCE, "trainer": {"tokens_per_forward": 40, "updates_per_batch": 2}}
    ),
    "an adapter": Case("Llama", {"loss": _DIVERGENCE, "trainer": {"tokens_per_forward": 60}}, lora=LORA),
    "activations computed again": Case("Qwen3", {"trainer": {"tokens_per_forward": 60}}, checkpoints_activations=True),
    "one process has fewer sequences": Case(
        "Qwen3", {"loss": _DIVERGENCE, "trainer": {"tokens_per_forward": 1, "kl_target": 0.001}}, num_episodes=3
    ),
}


class Trained(NamedTuple):
    """What a training has come to."""

    weights: dict[str, Tensor]
    metrics: list[dict[str, float]]
    after_resuming: dict[str, Tensor]
    """The weights of a run that went on from a checkpoint of one process."""
    held: float
    """Share of the weights that the process has between steps."""
    num_divided: int
    """Modules that are gathered by themselves."""


def model_of(case: Case) -> tuple[PreTrainedModel, Chat]:
    """The model before training, and its chat."""
    model, tokenizer = small_model(case.model)
    if case.lora:
        torch.manual_seed(0)
        add_adapter(model, case.lora, "somewhere")
    if case.checkpoints_activations:
        checkpoint_activations(model)
    return model, Chat(tokenizer)


def config_of(case: Case) -> Config:
    """The settings of its training."""
    return echo_config(**{"model": {"precision": "float32"}, **case.settings})


def trained(case: Case, folder: Path, of_one: Path) -> Trained:
    """Train it, save a checkpoint half way, and then go on from the one of a single process.

    folder: of the checkpoint. of_one: that of a single process, which is read.
    """
    groups = groups_for(case)
    trainer, chat = _trainer(case)
    metrics = []
    for step in range(case.steps):
        if step == case.steps // 2:
            progress = TrainingProgress(step=step, training_s=0.0)
            Checkpoints(folder).save(trainer, chat, progress)
        metrics.append(trainer.step(groups, step / case.steps))
    weights = trained_weights(trainer.model)
    parts = [one.to_local() if isinstance(one, DTensor) else one for one in trainer.model.parameters()]
    held = sum(part.numel() for part in parts) / sum(one.numel() for one in trainer.model.parameters())
    resumed, _ = _trainer(case)
    Checkpoints(of_one).restore(resumed)
    for step in range(case.steps // 2, case.steps):
        resumed.step(groups, step / case.steps)
    num_divided = sum(isinstance(module, FSDPModule) for module in trainer.model.modules())
    return Trained(weights, metrics, trained_weights(resumed.model), held, num_divided)


def groups_for(case: Case) -> list[Group]:
    """The episodes of each of its steps."""
    groups = groups_of(small_model(case.model)[0], model_of(case)[1])
    if case.num_episodes == 12:
        return groups
    return [Group(0, groups[0].trajectories[: case.num_episodes])]


def _trainer(case: Case) -> tuple[Trainer, Chat]:
    (model, chat), config = model_of(case), config_of(case)
    ranks = Ranks.of_group() if dist.is_initialized() else Ranks()
    return Trainer(model, make_reference(model, config), config, chat.pad_id, ranks), chat


def rank(number: int, port: int, folder: str, names: Sequence[str]) -> None:
    """One of two processes, which trains the cases in turn. The first writes what they have come to."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(number), WORLD_SIZE="2")
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    for name in names:
        place = Path(folder) / name
        result = trained(CASES[name], place / "two", place / "one")
        if number == 0:
            torch.save(tuple(result), place / "two.pt")
    dist.destroy_process_group()
