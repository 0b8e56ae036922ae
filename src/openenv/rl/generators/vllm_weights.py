"""Gives vLLM servers the weights of each step: an adapter, or all of them."""

import asyncio
import contextlib
import logging
import os
import secrets
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

import torch
from safetensors.torch import save_file
from torch import Tensor

from openenv.agents.llm.http import LLMError, post_json
from openenv.rl.models.lora import save_adapter

log = logging.getLogger(__name__)

_TIMEOUT_S = 600.0
_SHARED_MEMORY = Path("/dev/shm")


class Delivery(Protocol):
    """A way of giving a server the weights of a version."""

    model: str
    """The name by which the server knows what it was given last."""
    labels_versions: bool
    """Whether the server labels the weights with their version."""

    def in_use(self) -> AbstractContextManager[str]:
        """That name. The server keeps what it stands for during the `with` statement, also if a newer version comes."""
        ...

    async def deliver(self, version: int, weights: Mapping[str, Tensor]) -> None:
        """Let the server answer with these weights from now on."""
        ...

    def forget(self) -> None:
        """The server has begun anew, without what was delivered."""
        ...

    async def close(self) -> None:
        """Remove what was delivered."""
        ...


class Adapters:
    """Each version is an adapter of its own, as a file in a folder that the server can read.

    Start the server with VLLM_ALLOW_RUNTIME_LORA_UPDATING=True and
    `vllm serve MODEL --enable-lora --max-lora-rank RANK --max-loras 4 --enable-scale-out`.
    """

    labels_versions = False

    def __init__(self, urls: Sequence[str], base_model: str, folder: Path, adapter_config: Any) -> None:
        """urls: of all servers. adapter_config: peft's."""
        self.model = self._base_model = base_model
        self._urls, self._folder, self._adapter_config = urls, folder, adapter_config
        self._prefix = f"policy-{secrets.token_hex(4)}"  # generators of one server do not share adapters
        self._loaded: list[str] = []
        self._uses = Counter[str]()
        self._number = self._num_forgotten = 0

    @contextlib.contextmanager
    def in_use(self) -> Iterator[str]:
        """As `Delivery.in_use`."""
        name = self.model
        self._uses[name] += 1
        try:
            yield name
        finally:
            self._uses[name] -= 1

    async def deliver(self, version: int, weights: Mapping[str, Tensor]) -> None:
        """As `Delivery.deliver`. Earlier adapters are taken off, but for those in use."""
        self._number += 1  # a delivery that was broken off is repeated under another name
        name = f"{self._prefix}-{self._number}-{version}"
        await asyncio.to_thread(save_adapter, self._folder / name, weights, self._adapter_config)
        path, known = str((self._folder / name).resolve()), self._num_forgotten
        await _post(self._urls, "v1/load_lora_adapter", {"lora_name": name, "lora_path": path})
        if known != self._num_forgotten:
            return  # a server that has begun anew does not have it
        self.model = name
        self._loaded.append(name)
        for earlier in self._loaded[:-1]:
            if not self._uses[earlier]:
                await self._unload(earlier)

    def forget(self) -> None:
        """As `Delivery.forget`."""
        self.model, self._loaded = self._base_model, []
        self._num_forgotten += 1

    async def close(self) -> None:
        """Take the adapters off, and remove their files."""
        for adapter in list(self._loaded):
            await self._unload(adapter)

    async def _unload(self, adapter: str) -> None:
        # one that a server refuses to take off is not asked for again
        self._loaded = [name for name in self._loaded if name != adapter]
        try:
            await _post(self._urls, "v1/unload_lora_adapter", {"lora_name": adapter})
        except LLMError as error:
            log.warning("an adapter stays on the server: %s", error)
        shutil.rmtree(self._folder / adapter, ignore_errors=True)


class AllWeights:
    """Each version replaces all weights of the server, which reads them from shared memory of this machine."""

    labels_versions = True
    method = "load_openenv_weights"
    """Of vLLM's workers, see `openenv_vllm.WholeWeights`."""

    def __init__(self, urls: Sequence[str], model: str, dtype: torch.dtype, *, interrupts: bool = False) -> None:
        """
        Args:
            urls: of all servers.
            dtype: of the servers' weights.
            interrupts: whether replies that are being written go on with the new weights, which read what was written
                anew. Otherwise they are finished before.
        """
        self.model = model
        self._urls, self._dtype, self._interrupts = urls, dtype, interrupts

    @contextlib.contextmanager
    def in_use(self) -> Iterator[str]:
        """As `Delivery.in_use`. The name stands for the newest weights."""
        yield self.model

    async def deliver(self, version: int, weights: Mapping[str, Tensor]) -> None:
        """As `Delivery.deliver`."""
        size = sum(tensor.numel() for tensor in weights.values()) * self._dtype.itemsize
        with tempfile.TemporaryDirectory(prefix="openenv-", dir=_folder_for(size)) as place:
            file = str(Path(place) / "weights.safetensors")
            await asyncio.to_thread(_write, weights, self._dtype, file)
            try:
                await _post(self._urls, f"pause?mode={'keep' if self._interrupts else 'wait'}", {})
                await _post(self._urls, "collective_rpc", {"method": self.method, "args": [file]})
                await _post(self._urls, "reset_prefix_cache?reset_running_requests=true", {})
                await _post(self._urls, "update_weight_version", {"new_version": str(version)})
            finally:
                await _post(self._urls, "resume", {})

    def forget(self) -> None:
        """The server has those of its model again."""

    async def close(self) -> None:
        """The server keeps the weights."""


def _folder_for(size: int) -> Path | None:
    """Shared memory that has room for a file; None, for the folder of temporary files, where it has none."""
    if not os.access(_SHARED_MEMORY, os.W_OK) or shutil.disk_usage(_SHARED_MEMORY).free < 1.1 * size + (1 << 20):
        return None
    return _SHARED_MEMORY


def _write(weights: Mapping[str, Tensor], dtype: torch.dtype, file: str) -> None:
    save_file({name: tensor.detach().to("cpu", dtype).contiguous() for name, tensor in weights.items()}, file)


async def _post(urls: Sequence[str], route: str, body: dict[str, Any]) -> None:
    """Send all servers a command, which they answer in words. Raises the LLMError of the first that fails, once all
    have answered."""
    sent = (post_json(f"{url}/{route}", body, {}, timeout_s=_TIMEOUT_S, takes_text=True) for url in urls)
    for answer in await asyncio.gather(*sent, return_exceptions=True):
        if isinstance(answer, BaseException):
            raise answer
