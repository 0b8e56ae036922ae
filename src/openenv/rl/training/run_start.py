"""What a run has before its first step, beside the model itself, as files."""

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from openenv.formats.json_text import json_text
from openenv.rl.algorithm.rewards import RandomReturns
from openenv.rl.config import Config
from openenv.rl.models.images import ImageReader, load_image_reader
from openenv.rl.reports.results import replace_text
from openenv.text.interface import History

_REFERENCE = "before_grpo"
_PASSES = "passes.json"
_HISTORIES = "histories.json"
_RANDOM_RETURNS = "random_returns.json"


class RunStart:
    """The files of the folder `checkpoints` that are written once, before training. Reading them loads no model."""

    def __init__(self, run_dir: Path) -> None:
        self.folder = run_dir / "checkpoints"
        self.reference = self.folder / _REFERENCE
        """The folder of the model before GRPO."""

    @property
    def has_reference(self) -> bool:
        """Whether the model before GRPO was saved completely, so that a run can be resumed."""
        return (self.folder / _RANDOM_RETURNS).exists()

    def save_passes(self, config: Config) -> None:
        """Save the lengths of passes, so that a run that is resumed with less free memory adds the same numbers."""
        replace_text(
            self.folder / _PASSES, json_text([config.trainer.tokens_per_forward, config.sampling.tokens_at_once])
        )

    def with_passes(self, config: Config) -> Config:
        """The configuration with the saved lengths of passes, where it gives none. Former versions saved none."""
        file = self.folder / _PASSES
        if not file.exists():
            return config
        tokens_per_forward, tokens_at_once = json.loads(file.read_text(encoding="utf-8"))
        trainer = replace(config.trainer, tokens_per_forward=config.trainer.tokens_per_forward or tokens_per_forward)
        sampling = replace(config.sampling, tokens_at_once=config.sampling.tokens_at_once or tokens_at_once)
        return replace(config, trainer=trainer, sampling=sampling)

    def save_histories(self, histories: Sequence[History | None]) -> None:
        """Save what the prompts of each environment show, where random play has decided it."""
        replace_text(self.folder / _HISTORIES, json_text(list(histories)))

    def load_histories(self) -> list[History | None] | None:
        """What they have shown. None: a former version saved nothing, and showed what the text interface says."""
        file = self.folder / _HISTORIES
        return json.loads(file.read_text(encoding="utf-8")) if file.exists() else None

    def load_image_reader(self, config: Any, tokenizer: Any) -> ImageReader | None:
        """The image reader that was saved with the model before GRPO; None if it reads no images. config: the model's,
        of transformers."""
        return load_image_reader(self.reference, config, tokenizer)

    def save_random_returns(self, returns: Sequence[RandomReturns]) -> None:
        """Save what random play has shown about the returns of each environment.

        Call it after `save_reference`: it marks that as complete.
        """
        replace_text(self.folder / _RANDOM_RETURNS, json_text([asdict(one) for one in returns]))

    def load_random_returns(self) -> list[RandomReturns]:
        """Load what `save_random_returns` has saved."""
        return [RandomReturns(**one) for one in json.loads((self.folder / _RANDOM_RETURNS).read_text(encoding="utf-8"))]
