"""Runs command-line tools without a shell. Errors contain the tool's output."""

import subprocess
import time
from collections.abc import Iterator, Mapping
from typing import Any

from openenv.core.errors import ContainerFault

PORT_IN_CONTAINER = 8000
"""Port on which environments listen inside their containers."""


def run_tool(*command: str, remedy: str, timeout_s: float) -> None:
    """Run a command. Raises ContainerFault if it is missing, fails, or times out. remedy: added to the error."""
    shown = " ".join(command)
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=timeout_s,
            stdin=subprocess.DEVNULL,
        )
    except FileNotFoundError:
        raise ContainerFault(f"there is no command {command[0]!r} on PATH. {remedy}") from None
    except PermissionError as error:
        raise ContainerFault(f"{command[0]} cannot be run: {error}. {remedy}") from error
    except subprocess.TimeoutExpired:
        raise ContainerFault(f"`{shown}` took longer than {timeout_s:g} s. {remedy}") from None
    if done.returncode != 0:
        output = (done.stderr.strip() or done.stdout.strip() or "no output")[-2000:]
        raise ContainerFault(f"`{shown}` failed with code {done.returncode}: {output}\n{remedy}")


def options(given: Mapping[str, Any]) -> Iterator[str]:
    """Convert keywords to options: memory="2g" to --memory=2g, rm=True to --rm, a list to one option for each item."""
    for name, value in given.items():
        flag = f"--{name.replace('_', '-')}"
        for each in value if isinstance(value, list | tuple) else [value]:
            if each is True:
                yield flag
            elif each is not None and each is not False:
                yield f"{flag}={each}"


def unique_name(image: str) -> str:
    """A unique container name for `image`, of letters, digits and hyphens."""
    stem = image.rsplit("/", 1)[-1].split(":")[0].split("@")[0]
    return f"{''.join(c if c.isalnum() else '-' for c in stem.lower())[:40].strip('-')}-{time.time_ns():x}"
