"""Earlier weights of the trained policy, for its opponents in self-play."""

import json
import logging
from collections.abc import Mapping
from pathlib import Path

from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from openenv.formats.json_text import json_text
from openenv.rl.config import Config
from openenv.rl.models.weight_store import WeightStore

log = logging.getLogger(__name__)

_MEASURED = "probe"  # in the metadata of a file


class PastWeights(WeightStore):
    """The weights of the opponents: those of the newest version that is a multiple of `every`, at most the one played.

    They are kept in files, so that a resumed run has the same opponents.
    """

    def __init__(self, store: WeightStore, every: int, folder: Path) -> None:
        """store: of the trained policy. folder: of the files; it is made."""
        super().__init__()
        self._store = store
        self._every = every
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        store.on_publish.append(self._keep)

    def _keep(self, version: int, weights: Mapping[str, Tensor], measured: list[float] | None) -> None:
        """Write the weights of a version that opponents will have, with what the probe has measured of it."""
        if version % self._every:
            return
        path = self._path(version)
        written = path.with_suffix(".part")
        metadata = {} if measured is None else {_MEASURED: json_text(measured)}
        save_file({name: tensor.contiguous() for name, tensor in weights.items()}, written, metadata)
        written.replace(path)

    def newer(self, than: int) -> tuple[int, Mapping[str, Tensor]] | None:
        """The opponents' version and its weights by name; None unless it is newer than version `than`."""
        found = self._store.newer(-1)
        assert found is not None, "the trained policy has published no weights yet"
        version = found[0] // self._every * self._every
        if version <= than:
            return None
        log.info("self-play: the opponents have the weights of step %d", version)
        return version, load_file(self._path(version))

    def probed(self, version: int) -> list[float] | None:
        """As `WeightStore.probed`."""
        with safe_open(self._path(version), "pt") as file:
            measured = (file.metadata() or {}).get(_MEASURED)
        return None if measured is None else json.loads(measured)

    def _path(self, version: int) -> Path:
        return self._folder / f"{version:06d}.safetensors"


def past_weights(config: Config, store: WeightStore) -> dict[int, PastWeights]:
    """The weights of a run's opponents, by the number of steps after which they follow a store."""
    all_every = sorted({env.self_play.refresh for env in config.env if env.self_play})
    folder = config.run_dir / "opponents"
    return {every: PastWeights(store, every, folder / f"every_{every}") for every in all_every}
