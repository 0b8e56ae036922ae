"""Spaces of the Hugging Face Hub: each is a repository, an image, and perhaps a running server."""

import re
from typing import Any

from openenv.core.containers.runtime.base import ContainerProvider, RuntimeProvider
from openenv.core.containers.runtime.owned_server import BoundProvider
from openenv.core.containers.runtime.uv_provider import UVProvider
from openenv.core.utils import hf_space_subdomain

_SPACE = re.compile(r"(?:https?://huggingface\.co/(?:spaces/)?)?([\w.-]+/[\w.-]+?)/?")


class Space:
    """A Space, from its id `owner/name` or the URL of its page. Raises ValueError for anything else."""

    def __init__(self, repo_id: str) -> None:
        match = _SPACE.fullmatch(repo_id)
        if match is None:
            raise ValueError(f"{repo_id!r} is not a Space: give owner/name or https://huggingface.co/spaces/owner/name")
        self.repo_id = match[1]
        self._subdomain = hf_space_subdomain(self.repo_id)

    @property
    def base_url(self) -> str:
        """URL of the Space's server while it runs."""
        return f"https://{self._subdomain}.hf.space"

    @property
    def repository(self) -> str:
        """URL of its code, as pip, uv and `UVProvider` accept it."""
        return f"git+https://huggingface.co/spaces/{self.repo_id}"

    def image(self, tag: str = "latest") -> str:
        """Name of its container image."""
        return f"registry.hf.space/{self._subdomain}:{tag}"


def space_runtime(
    repo_id: str, *, use_docker: bool, provider: ContainerProvider | RuntimeProvider | None, **kwargs: Any
) -> BoundProvider:
    """A provider that runs a Space on this machine: its image in a container, or its repository with uv."""
    space = Space(repo_id)
    if use_docker:
        return BoundProvider(provider, space.image(kwargs.pop("tag", "latest")), **kwargs)
    start = {key: kwargs.pop(key) for key in ("port", "env_vars", "workers", "wait_timeout") if key in kwargs}
    if provider is None:
        provider = UVProvider(project_path=kwargs.pop("project_path", space.repository), **kwargs)
    elif kwargs:
        raise ValueError(f"{', '.join(kwargs)}: not accepted with a provider, which is already configured")
    return BoundProvider(provider, **start)
