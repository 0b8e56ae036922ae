"""Where the trainer leaves its weights and the generator finds them."""

import logging
import threading
from collections.abc import Mapping

import torch
from torch import Tensor

log = logging.getLogger(__name__)


class WeightStore:
    """The latest weights and their policy version, for threads. A reader never sees half-written weights."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._weights: dict[str, Tensor] = {}
        self._version = -1

    @property
    def version(self) -> int:
        """The policy version published last; -1 when there is none."""
        return self._version

    def publish(self, model: torch.nn.Module, version: int) -> None:
        """Copy the model's weights and make them the latest. Raises ValueError for a version that is not newer."""
        if version <= self._version:
            raise ValueError(f"version={version}: {self._version} is published already, and versions only rise.")
        weights = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
        with self._lock:
            self._weights, self._version = weights, version
        log.debug("published weights: version=%d", version)

    def load_newer(self, model: torch.nn.Module, than: int) -> int:
        """Load the latest weights into `model` when they are newer than `than`. Returns the version it now has."""
        with self._lock:
            weights: Mapping[str, Tensor] = self._weights
            version = self._version
        if version > than:
            model.load_state_dict(weights)
        return max(version, than)
