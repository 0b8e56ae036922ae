"""Installing the package of a Hugging Face Space, which runs code of somebody else: only when the user has said so."""

import logging
import os
import shutil
import sys

from openenv.auto.discovery import EnvironmentInfo, environments
from openenv.core.containers.hub import Space
from openenv.core.containers.runtime.command_line import run_tool
from openenv.core.errors import OpenEnvError

log = logging.getLogger(__name__)

TRUST_VARIABLE = "OPENENV_TRUST_REMOTE_CODE"

_INSTALL_TIMEOUT_S = 900.0


class RemoteCodeRefused(OpenEnvError, ValueError):
    """A Space's code was to be installed, and nobody has said that it is trusted."""


def installed_space(space: Space, *, trust_remote_code: bool) -> EnvironmentInfo:
    """The environment of a Space, installed before if need be. Raises RemoteCodeRefused unless that is allowed.

    It is allowed by `trust_remote_code` or by OPENENV_TRUST_REMOTE_CODE=1 in the surroundings.
    """
    found = _of(space)
    if found is not None:
        return found
    trusted = trust_remote_code or os.environ.get(TRUST_VARIABLE, "").lower() in ("1", "true", "yes")
    if not trusted:
        raise RemoteCodeRefused(
            f"{space.repo_id} is not installed, and installing it runs code of its authors on this machine. Read "
            f"https://huggingface.co/spaces/{space.repo_id}, then pass trust_remote_code=True or set "
            f"{TRUST_VARIABLE}=1; or pass skip_install=True to play it with dictionaries instead of its own classes"
        )
    log.info("installing %s", space.repository)
    uv = shutil.which("uv")
    pip = [uv, "pip", "install", "--python", sys.executable] if uv else [sys.executable, "-m", "pip", "install"]
    remedy = "Does the Space exist, and is it a Python package?"
    run_tool(*pip, space.repository, remedy=remedy, timeout_s=_INSTALL_TIMEOUT_S)
    found = _of(space)
    if found is None:
        raise ImportError(f"{space.repo_id} was installed and brings no package named openenv-... with a client module")
    return found


def _of(space: Space) -> EnvironmentInfo | None:
    """The installed environment that came from the Space."""
    url = space.repository.removeprefix("git+")
    return next((info for info in environments().values() if (info.source or "").rstrip("/") == url), None)
