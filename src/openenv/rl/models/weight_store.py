"""The store of trained weights, which passes them from the trainer to generators."""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, cast

import torch
from torch import Tensor

from openenv.rl.models.divided_weights import trained_weights
from openenv.rl.models.prompt_tokens import TokenIds

if TYPE_CHECKING:
    from transformers import PreTrainedModel

log = logging.getLogger(__name__)


class Probe(Protocol):
    """Tokens whose log-probabilities show which weights a model has."""

    token_ids: TokenIds

    def measured(self, model: "PreTrainedModel") -> list[float]:
        """The log-probability of each token but the first."""
        ...

    def require_agreement(self, trainer: Sequence[float], generator: Sequence[float], version: int, url: str) -> None:
        """Raise an error unless both have nearly the same log-probabilities of the tokens."""
        ...


class WeightStore:
    """Passes trained weights from the trainer to generators in other threads, with their policy version.

    Readers load the newest weights, or those of the version that is pinned. Weights that are frozen, as all but the
    adapter's are with LoRA, are not passed: readers have them. A reader never receives half-written ones.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._weights: dict[int, Mapping[str, Tensor]] = {}
        """By version; without a pinned version only the newest."""
        self._version = -1
        self._pinned: int | None = None
        self.probe: Probe | None = None
        """Measures each version, for a generator that has to show that it has received it."""
        self._probed: dict[int, list[float]] = {}
        self.on_publish: list[Callable[[int, Mapping[str, Tensor], list[float] | None], None]] = []
        """Called with each version, its weights, and what the probe has measured of it, before readers may load it."""

    @property
    def version(self) -> int:
        """The policy version that was published last; -1 before the first."""
        return self._version

    def publish(self, model: torch.nn.Module, version: int, *, is_read: bool = True) -> None:
        """Publish a copy of the trained weights. Processes that hold parts of the model call it together.

        is_read: whether this process has readers. Raises ValueError if the version is not newer than the last.
        """
        if version <= self._version:
            raise ValueError(f"version={version}: {self._version} is already published, and versions must increase.")
        weights = trained_weights(model, kept=is_read)
        measured = None if self.probe is None else self.probe.measured(cast("PreTrainedModel", model))
        for receive in self.on_publish:
            receive(version, weights, measured)
        self.put(version, weights, measured)
        log.debug("published weights: version=%d", version)

    def put(self, version: int, weights: Mapping[str, Tensor], measured: list[float] | None) -> None:
        """Let readers load weights. measured: what the probe has measured of them; None without a probe."""
        with self._lock:
            if measured is not None:
                self._probed[version] = measured
            kept = {} if self._pinned is None else self._weights
            self._weights, self._version = {**kept, version: weights}, version

    def pin(self, version: int) -> None:
        """Let readers load exactly this version until another is pinned. Older ones are forgotten.

        Raises KeyError if it was not published, or was forgotten.
        """
        with self._lock:
            if version not in self._weights:
                raise KeyError(f"version {version} of the weights: there is {', '.join(map(str, self._weights))}")
            self._weights = {known: weights for known, weights in self._weights.items() if known >= version}
            self._pinned = version
            self._probed = {known: found for known, found in self._probed.items() if known >= version}

    def probed(self, version: int) -> list[float] | None:
        """What the probe has measured of a version; None without a probe."""
        return self._probed.get(version)

    def newer(self, than: int) -> tuple[int, Mapping[str, Tensor]] | None:
        """The version for readers and its weights by name; None unless it is newer than version `than`."""
        with self._lock:
            version = self._version if self._pinned is None else self._pinned
            return (version, self._weights[version]) if version > than else None

    def load_newer(self, model: torch.nn.Module, than: int) -> int:
        """Load the weights for readers into `model` if they are newer than version `than`. Returns its version."""
        found = self.newer(than)
        if found is not None:
            than, weights = found
            parameters = dict(model.named_parameters())
            with torch.no_grad():
                for name, trained in weights.items():
                    parameters[name].copy_(trained)
        return than
