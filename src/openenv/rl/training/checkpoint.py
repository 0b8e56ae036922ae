"""Checkpoints of a run: saves and restores weights, optimizer and progress."""

import json
import logging
import os
import re
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel

from openenv.formats.json_text import json_text
from openenv.rl.config import ModelConfig
from openenv.rl.models.chat import Chat
from openenv.rl.models.devices import device_of
from openenv.rl.models.divided_weights import load_weights
from openenv.rl.models.language_model import load_model, without_progress_bars
from openenv.rl.models.lora import add_adapter, has_adapter, load_adapter
from openenv.rl.models.output_layer import compute_output_in_float32
from openenv.rl.progress import TrainingProgress
from openenv.rl.reports.best_checkpoint import BEST, BestCheckpoint
from openenv.rl.reports.results import replace_text
from openenv.rl.training.run_start import RunStart
from openenv.rl.training.trainer import Trainer

log = logging.getLogger(__name__)

_LATEST = "latest"
_STEP = re.compile(r"step_\d+")
_BESTS = (f"{BEST}_a", f"{BEST}_b")
_GOOD, _CANDIDATE, _RESTORED = "good", "good_candidate", "good_restored"
_STEP_COUNT = "step_count.json"


class Checkpoints(RunStart):
    """The folder `checkpoints` of a run. A checkpoint is written completely or not at all."""

    @property
    def has_any(self) -> bool:
        """Whether there is a checkpoint to restore."""
        return (self.folder / _LATEST).exists()

    @property
    def latest_step(self) -> int:
        """The step of the latest checkpoint; 0 without one."""
        return int(self._latest_folder().name.removeprefix("step_")) if self.has_any else 0

    def save_reference(self, model: PreTrainedModel, chat: Chat, batch_size: int) -> None:
        """Save the model before GRPO, which stays the reference model, and the run's batch size."""
        save_model(self.reference, model, chat)
        (self.reference / "batch_size.json").write_text(json_text(batch_size), encoding="utf-8")

    def load_reference(self, config: ModelConfig) -> tuple[PreTrainedModel, Any, int]:
        """Load the model before GRPO, its tokenizer, and the number of groups in a training step.

        With LoRA the model is loaded from its own path, and has the adapter as it was before training.
        """
        folder = self.reference
        batch_size = json.loads((folder / "batch_size.json").read_text(encoding="utf-8"))
        path = config.path if config.lora else folder
        model, tokenizer = load_model(path, weights=config.weights, device=device_of(config.device))
        if config.lora:
            add_adapter(model, config.lora, config.path)
            load_adapter(model, folder)
        if config.float32_output:
            compute_output_in_float32(model)
        return model, tokenizer, batch_size

    def save(self, trainer: Trainer, chat: Chat, progress: TrainingProgress) -> Path:
        """Write a checkpoint, mark it as the latest, and remove the previous one. Returns its folder.

        Any number of processes can restore it. Those that train together call it together, and the first writes.
        """
        state, weights = trainer.state_dict(), trainer.saved_weights()
        folder = self.folder / f"step_{progress.step:06d}"
        before = self._latest_folder() if self.has_any else None
        if before == folder or not trainer.ranks.is_first:
            return folder  # no step since the last checkpoint
        partial = folder.with_suffix(".partial")
        save_model(partial, trainer.model, chat, weights)
        torch.save(state, partial / "trainer.pt")
        (partial / "progress.json").write_text(json_text(asdict(progress)), encoding="utf-8")
        shutil.rmtree(folder, ignore_errors=True)
        partial.rename(folder)
        replace_text(self.folder / _LATEST, folder.name)  # last: a reader never finds an incomplete checkpoint
        for stale in (before, *self.folder.glob(f"{_RESTORED}_*")):
            if stale is not None:
                shutil.rmtree(stale, ignore_errors=True)
        log.info("saved checkpoint: step=%d folder=%s", progress.step, folder)
        return folder

    def save_good(self, trainer: Trainer, chat: Chat) -> None:
        """Save the present weights as a candidate to go back to when the policy collapses.

        Call it while the policy is sound: the candidate before, after which it was sound too, becomes the good one. A
        run that repeats its steps finds the candidate of a later one, and leaves it.
        """
        state, weights = trainer.state_dict(), trainer.saved_weights()
        good, candidate = self.folder / _GOOD, self.folder / _CANDIDATE
        if not trainer.ranks.is_first or _step_of(candidate) >= trainer.step_count:
            return
        if candidate.exists():
            shutil.rmtree(good, ignore_errors=True)
            candidate.rename(good)
        partial = candidate.with_suffix(".partial")
        save_model(partial, trainer.model, chat, weights)
        torch.save(state, partial / "trainer.pt")
        (partial / _STEP_COUNT).write_text(json_text(trainer.step_count), encoding="utf-8")
        partial.rename(candidate)

    def restore_good(self, trainer: Trainer) -> bool:
        """Go back to the good weights and their optimizer; the count of steps stays. False if there are none.

        They are kept until the next checkpoint, for a run that repeats this step.
        """
        good, step_count = self.folder / _GOOD, trainer.step_count
        restored = self.folder / f"{_RESTORED}_{step_count:06d}"
        if not restored.exists() and not good.exists():
            return False
        _restore(trainer, restored if restored.exists() else good)
        trainer.step_count = step_count
        if trainer.ranks.is_first and not restored.exists():
            partial = restored.with_suffix(".partial")
            shutil.copytree(good, partial, dirs_exist_ok=True)
            partial.rename(restored)
        return True

    def save_best(
        self,
        model: PreTrainedModel,
        chat: Chat,
        best: BestCheckpoint,
        weights: dict[str, torch.Tensor] | None = None,
    ) -> None:
        """Save a model as the best one, without its optimizer, in place of the one before. weights: see `save_model`.

        `best` is a link that is replaced, so that it leads to a complete model at any moment.
        """
        link = self.folder / BEST
        before = os.readlink(link) if link.is_symlink() else None
        folder = self.folder / _BESTS[before == _BESTS[0]]
        shutil.rmtree(folder, ignore_errors=True)  # of a process that was killed here
        save_model(folder, model, chat, weights)
        best.save(folder)
        replacement = link.with_suffix(".partial")
        replacement.unlink(missing_ok=True)
        replacement.symlink_to(folder.name)
        os.replace(replacement, link)
        if before in _BESTS:  # another folder is not this run's own
            shutil.rmtree(self.folder / before, ignore_errors=True)
        log.info("saved best checkpoint: step=%d score=%.4f", best.step, best.score)

    def restore(self, trainer: Trainer) -> TrainingProgress:
        """Restore the latest checkpoint into `trainer`. Raises FileNotFoundError without one, and ValueError."""
        folder = self._latest_folder()
        _restore(trainer, folder)
        return TrainingProgress(**json.loads((folder / "progress.json").read_text(encoding="utf-8")))

    def _latest_folder(self) -> Path:
        """The folder that `latest` names. Raises ValueError for another name: the run may be of another user."""
        file = self.folder / _LATEST
        name = file.read_text(encoding="utf-8")
        if _STEP.fullmatch(name) is None:
            raise ValueError(f"{file} has {name[:80]!r}: write the name of a folder beside it, such as step_000100")
        return self.folder / name


def _step_of(candidate: Path) -> int:
    """The step after which good weights were saved; -1 where there are none, or a former version has saved them."""
    file = candidate / _STEP_COUNT
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else -1


def _restore(trainer: Trainer, folder: Path) -> None:
    """Load the weights, the optimizer and the counts of a saved trainer."""
    if has_adapter(trainer.model):
        load_adapter(trainer.model, folder)
    else:
        load_weights(trainer.model, dict(load_model(folder)[0].named_parameters()))
    trainer.load_state_dict(torch.load(folder / "trainer.pt", weights_only=True, map_location="cpu"))


def save_model(
    folder: Path, model: PreTrainedModel, chat: Chat, weights: dict[str, torch.Tensor] | None = None
) -> None:
    """Save a model, or its adapter, with its tokenizer and image processor, as transformers loads them.

    weights: those of a model of which this process holds a part; None: the model's own.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with without_progress_bars():
        model.save_pretrained(folder, state_dict=weights)
    chat.tokenizer.save_pretrained(folder)
    if chat.image_reader is not None:
        chat.image_reader.processor.save_pretrained(folder)
