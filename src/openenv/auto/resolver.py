"""What a name of an environment stands for: one reader of names, for every command and class."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from openenv.auto.discovery import EnvironmentInfo, check_name, find_environment
from openenv.auto.environment_folder import FolderTarget, file_target, folder_target
from openenv.core.net.websocket_protocol import websocket_uri
from openenv.core.wire.constants import UNIX
from openenv.dialects.names import DIALECTS
from openenv.hosting.hub import Space, is_space_page

FORMS = (
    "the name of a bundled or installed environment (`openenv envs`), a folder with openenv.yaml, MODULE:CLASS or "
    "FILE.py:CLASS, the URL of a server, docker:IMAGE, gymnasium:ID, or verifiers:NAME, ors:URL, nemo-gym:URL or "
    "harbor:PATH of another standard"
)
"""The names that an environment may have."""

IMAGE = "docker:"
"""Begins the name of an environment in a container image."""
GYMNASIUM = "gymnasium:"
"""Begins the id of a registered environment of Gymnasium, which the bundled environment of that name plays."""

_WINDOWS_PATH = re.compile(r"[A-Za-z]:[\\/]")

Kind = Literal["package", "space", "folder", "program", "url", "image", "dialect"]
"""package: bundled or installed. space: at the Hugging Face Hub. program: MODULE:NAME or FILE.py:NAME. dialect: of
another standard."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where an environment is. Nothing of it has been imported or started."""

    name: str
    kind: Kind
    info: EnvironmentInfo | None = None
    """Of a package."""
    space: Space | None = None
    target: FolderTarget | None = None
    """What serves a folder or a program."""
    options: Sequence[str] = ()
    """Of the server of a package: what the name says after a colon."""

    @property
    def folder(self) -> Path:
        """The path of a folder."""
        return Path(self.name).expanduser()


def resolve(name: str) -> Source:
    """What a name stands for; `FORMS` lists the forms, and `owner/name` is a Space of the Hugging Face Hub.

    Raises UnknownEnvironment that lists the bundled and installed environments, LookupError for a folder or file that
    is not there, ValueError for a URL that no client can use, TypeError for a name that is no text.
    """
    check_name(name)
    if name.startswith(DIALECTS):
        return Source(name=name, kind="dialect")
    if name.startswith(IMAGE):
        return Source(name=name, kind="image")
    if name.startswith(GYMNASIUM):
        options = ["--env-id", name.removeprefix(GYMNASIUM)]
        return Source(name=name, kind="package", info=find_environment("gymnasium"), options=options)
    if is_space_page(name):
        return Source(name=name, kind="space", space=Space(name))
    if "://" in name or name.startswith(UNIX):
        websocket_uri(name)  # raises for a wrong URL
        return Source(name=name, kind="url")
    is_folder = name.startswith((".", "/", "~")) or name.endswith("/") or _WINDOWS_PATH.match(name) is not None
    if ":" in name and not (is_folder and ".py:" not in name):
        if name.rpartition(":")[2].isdigit():
            raise ValueError(
                f"{name!r} names no environment: a server's URL begins with http://, as http://{name} does"
            )
        target = file_target(name) if ".py:" in name else FolderTarget(name, [])
        return Source(name=name, kind="program", target=target)
    if is_folder or name.count("/") > 1 or Path(name, "openenv.yaml").is_file():
        return Source(name=name, kind="folder", target=folder_target(Path(name).expanduser()))
    if "/" in name:
        return Source(name=name, kind="space", space=Space(name))
    return Source(name=name, kind="package", info=find_environment(name))
