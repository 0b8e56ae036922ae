"""The interface of an evaluation harness."""

from abc import ABC, abstractmethod
from typing import Any

from openenv.integrations.evals.types import EvalConfig, EvalResult


class EvalHarness(ABC):
    """Runs evaluations. Write `run` for another harness."""

    @abstractmethod
    def run(
        self, harness_version: str, library_versions: dict[str, str], dataset: str, eval_parameters: dict[str, Any]
    ) -> dict[str, Any]:
        """The scores of one evaluation by their names.

        Args:
            harness_version, library_versions: as the caller records them.
            dataset: the name of the data set or task.
            eval_parameters: whatever else the harness takes.
        """

    def run_from_config(self, config: EvalConfig) -> EvalResult:
        """`run` with the fields of a configuration. Raises what `run` raises."""
        scores = self.run(
            harness_version=config.harness_version, library_versions=config.library_versions, dataset=config.dataset,
            eval_parameters=config.eval_parameters,
        )  # fmt: skip
        return EvalResult(config=config, scores=scores)

    @property
    def name(self) -> str:
        """Name of the harness: that of its class."""
        return type(self).__name__
