"""Spaces of the Hugging Face Hub: each is a repository, an image, and perhaps a running server."""

import os
import re
from typing import Any

from openenv.core.client.owned_server import BoundProvider
from openenv.core.client.providers import ContainerProvider, RuntimeProvider
from openenv.core.errors import OpenEnvError
from openenv.core.utils import check_type, hf_space_subdomain
from openenv.hosting.runtime.docker import LocalDockerProvider
from openenv.hosting.runtime.uv_provider import UVProvider

OPENENV_TRUST_REMOTE_CODE = "OPENENV_TRUST_REMOTE_CODE"
HUB = "https://huggingface.co"
_SPACE = re.compile(r"([\w.-]+/[\w.-]+?)/?")


def hub_endpoint() -> str:
    """URL of the Hub: that of the environment variable HF_ENDPOINT, else of huggingface.co."""
    return (os.environ.get("HF_ENDPOINT") or HUB).rstrip("/")


def is_space_page(url: str) -> bool:
    """Whether a URL is one of the Hub's own, such as the page of a Space."""
    return _path_at_hub(url) is not None


def _path_at_hub(url: str) -> str | None:
    """The path of a URL of the Hub, without its slash; None for another URL."""
    hubs = {hub_endpoint(), HUB, HUB.replace("https", "http")}
    return next((url.removeprefix(f"{hub}/") for hub in hubs if url.startswith(f"{hub}/")), None)


class Space:
    """A Space, from its id `owner/name` or the URL of its page. Raises ValueError for anything else."""

    def __init__(self, repo_id: str) -> None:
        check_type("repo_id", repo_id, str, "the name of a Space, owner/name")
        path = _path_at_hub(repo_id)
        match = _SPACE.fullmatch(repo_id if path is None else path.removeprefix("spaces/"))
        if match is None:
            raise ValueError(f"{repo_id!r} is not a Space: give owner/name or {hub_endpoint()}/spaces/owner/name")
        self.repo_id = match[1]
        self._subdomain = hf_space_subdomain(self.repo_id)

    @property
    def page(self) -> str:
        """URL of its page at the Hub."""
        return f"{hub_endpoint()}/spaces/{self.repo_id}"

    @property
    def base_url(self) -> str:
        """URL of the Space's server while it runs."""
        return f"https://{self._subdomain}.hf.space"

    @property
    def repository(self) -> str:
        """URL of its code, as pip, uv and `UVProvider` accept it."""
        return f"git+{self.page}"

    def image(self, tag: str = "latest") -> str:
        """Name of its container image."""
        return f"registry.hf.space/{self._subdomain}:{tag}"


class RemoteCodeRefused(OpenEnvError, ValueError):
    """Code of a Space would run on this machine, and the user has not declared that it is trusted."""


def require_trust(space: Space, *, trust_remote_code: bool, otherwise: str) -> None:
    """Raise RemoteCodeRefused unless the user trusts the code of the Space.

    trust_remote_code: the user's argument; OPENENV_TRUST_REMOTE_CODE=1 is equal to it. otherwise: what the user can do
    without that trust.
    """
    if not (trust_remote_code or os.environ.get(OPENENV_TRUST_REMOTE_CODE, "").lower() in ("1", "true", "yes")):
        raise RemoteCodeRefused(
            f"{space.repo_id}: this would install {space.repository} with its dependencies, and run code of its "
            f"authors on this machine. Read {space.page}, then pass "
            f"trust_remote_code=True or set {OPENENV_TRUST_REMOTE_CODE}=1; or {otherwise}"
        )


def space_runtime(
    repo_id: str,
    *,
    use_docker: bool,
    trust_remote_code: bool,
    provider: ContainerProvider | RuntimeProvider | None,
    **kwargs: Any,
) -> BoundProvider:
    """A provider that runs a Space on this machine: its image in a container, or its repository with uv.

    The repository runs only with trust, as `require_trust` has it. A folder (project_path) and a provider are the
    caller's own.
    """
    space = Space(repo_id)
    if use_docker:
        return BoundProvider(provider or LocalDockerProvider, space.image(kwargs.pop("tag", "latest")), **kwargs)
    start = {key: kwargs.pop(key) for key in ("port", "env_vars", "workers", "wait_timeout") if key in kwargs}
    if provider is None:
        if "project_path" not in kwargs:
            require_trust(space, trust_remote_code=trust_remote_code, otherwise="run its image: use_docker=True")
        provider = UVProvider(project_path=kwargs.pop("project_path", space.repository), **kwargs)
    elif kwargs:
        raise ValueError(f"{', '.join(kwargs)}: not accepted with a provider, which is already configured")
    return BoundProvider(provider, **start)
