"""This package as it is installed: its version, its folder, and the command that installs an extra of it."""

import importlib.metadata
import json
import shlex
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

BUNDLE = "openenv-rl"
"""The distribution of this package."""
PACKAGE_FOLDER = Path(__file__).parent
"""The folder that has the packages of `openenv`."""


def bundle_version() -> str:
    """The version of this package; `0` where it is not installed."""
    try:
        return importlib.metadata.version(BUNDLE)
    except importlib.metadata.PackageNotFoundError:
        return "0"


def install_line(extra: str) -> str:
    """The command that installs an extra of this package, from the folder from which the package was installed.

    Where that folder is gone, as after the installation of a wheel, the command names the installed package. pip takes
    what is installed, and asks no index for it.
    """
    folder = source_folder()
    if folder is None:
        return f"pip install '{BUNDLE}[{extra}]'"
    option = "-e " if _origin()["dir_info"].get("editable") else ""
    return f"pip install {option}{shlex.quote(f'{folder}[{extra}]')}"


def source_folder() -> Path | None:
    """The folder from which this package was installed, such as a clone; None where it is unknown or gone."""
    origin = _origin()
    folder = Path(url2pathname(urlsplit(origin.get("url", "")).path))
    return folder if "dir_info" in origin and folder.is_dir() else None


def _origin() -> dict[str, Any]:
    """What pip has written about where this package came from."""
    try:
        found: dict[str, Any] = json.loads(importlib.metadata.distribution(BUNDLE).read_text("direct_url.json") or "{}")
    except importlib.metadata.PackageNotFoundError:
        return {}
    return found
