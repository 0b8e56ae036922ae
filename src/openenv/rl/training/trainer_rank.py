"""One of the processes that train a model, or the only one: its trainer, and the checkpoints."""

from collections.abc import Sequence
from typing import Self

import torch
import torch.distributed as dist
from transformers import PreTrainedModel

from openenv.rl.algorithm.trajectory import Group
from openenv.rl.config import Config
from openenv.rl.models.chat import Chat
from openenv.rl.models.devices import choose_algorithms, device_of
from openenv.rl.models.divided_weights import is_sharded, load_weights, trained_weights
from openenv.rl.models.language_model import checkpoint_activations, copy_of
from openenv.rl.models.weight_store import Probe, WeightStore
from openenv.rl.progress import TrainingProgress
from openenv.rl.reports.best_checkpoint import BestCheckpoint
from openenv.rl.training.checkpoint import Checkpoints
from openenv.rl.training.ranks import Ranks
from openenv.rl.training.trainer import Trainer, make_reference


class TrainerRank:
    """What a run needs of its trainer. Processes that train together do the same, in the same order."""

    def __init__(self, trainer: Trainer, checkpoints: Checkpoints, chat: Chat) -> None:
        """chat: is saved with the weights."""
        self.trainer = trainer
        self._checkpoints = checkpoints
        self._chat = chat

    @classmethod
    def follower(cls, config: Config) -> Self:
        """That of a process beside the one that makes the run, which has saved the model before GRPO already."""
        torch.set_num_threads(config.threads)
        choose_algorithms(device_of(config.model.device), deterministic=config.model.deterministic)
        checkpoints = Checkpoints(config.run_dir)
        model, tokenizer, _ = checkpoints.load_reference(config.model)
        if config.model.gradient_checkpointing:
            checkpoint_activations(model)
        chat = Chat(tokenizer)
        ranks = Ranks.of_group() if dist.is_initialized() else Ranks()
        trainer = Trainer(model, make_reference(model, config), config, chat.pad_id, ranks)
        return cls(trainer, checkpoints, chat)

    def step(self, groups: Sequence[Group], progress: float) -> dict[str, float]:
        """As `training.trainer.Trainer.step`."""
        return self.trainer.step(groups, progress)

    def publish(self, store: WeightStore) -> None:
        """Let the readers of a store load the weights of this version."""
        store.publish(self.trainer.model, self.trainer.step_count)

    def follow_publish(self, probe: Probe | None) -> None:
        """What the others do while the first process publishes. probe: of its store."""
        store = WeightStore()
        store.probe = probe
        store.publish(self.trainer.model, self.trainer.step_count, is_read=False)

    def save(self, progress: TrainingProgress) -> None:
        """Save a checkpoint, and forget the scores of the reference: a resumed run has none either."""
        self._checkpoints.save(self.trainer, self._chat, progress)
        if self.trainer.reference is not None:
            self.trainer.reference.clear()

    def restore(self) -> TrainingProgress:
        """Restore the latest checkpoint, and return how far the run was."""
        return self._checkpoints.restore(self.trainer)

    def save_good(self) -> None:
        """Keep the current weights for `restore_good`."""
        self._checkpoints.save_good(self.trainer, self._chat)

    def restore_good(self) -> bool:
        """Go back to the last good weights, with half the step. False if there are none."""
        has_good = self._checkpoints.restore_good(self.trainer)
        if has_good:
            self.trainer.halve_step()
        return has_good

    def save_best(self, best: BestCheckpoint) -> None:
        """Save the current weights as the run's best checkpoint."""
        weights = self.trainer.saved_weights()
        if self.trainer.ranks.is_first:
            self._checkpoints.save_best(self.trainer.model, self._chat, best, weights)

    def copy(self) -> PreTrainedModel:
        """A copy of the whole model. The other processes return their part, which is not used."""
        if not is_sharded(self.trainer.model):
            return copy_of(self.trainer.model)
        weights = trained_weights(self.trainer.model, kept=self.trainer.ranks.is_first)
        if not self.trainer.ranks.is_first:
            return self.trainer.model
        model = self._checkpoints.load_reference(self.trainer.config.model)[0]
        load_weights(model, weights)
        return model
