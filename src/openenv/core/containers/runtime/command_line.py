"""Command-line tools as functions: arguments in, output back, errors with what the tool said. Never through a shell."""

import subprocess
import time
from collections.abc import Iterator, Mapping
from typing import Any

from openenv.core.errors import ContainerFault

PORT_IN_CONTAINER = 8000
"""Where environments listen inside their containers."""

LABEL = "org.openenv=1"
"""On everything that is started here: `docker ps --filter label=org.openenv=1` finds it."""


def run_tool(*command: str, remedy: str, timeout_s: float = 60.0, errors_too: bool = False) -> str:
    """What the command prints. Raises ContainerFault when it is missing, fails, or takes longer than `timeout_s`.

    errors_too: with what it prints on its standard error.
    """
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, stdin=subprocess.DEVNULL)
    except FileNotFoundError:
        raise ContainerFault(f"there is no command {command[0]!r} on PATH. {remedy}") from None
    except PermissionError as error:
        raise ContainerFault(f"{command[0]} may not be run: {error}. {remedy}") from error
    except subprocess.TimeoutExpired:
        raise ContainerFault(f"`{_shown(command)}` took longer than {timeout_s:g} s. {remedy}") from None
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip() or "it said nothing")[-2000:]
        raise ContainerFault(f"`{_shown(command)}` failed with code {done.returncode}: {said}\n{remedy}")
    return (done.stdout + done.stderr if errors_too else done.stdout).strip()


def options(given: Mapping[str, Any]) -> Iterator[str]:
    """Keywords as options: memory="2g" is --memory=2g, volume=["a:b", "c:d"] one --volume for each, rm=True is --rm."""
    for name, value in given.items():
        flag = f"--{name.replace('_', '-')}"
        for each in value if isinstance(value, list | tuple) else [value]:
            if each is True:
                yield flag
            elif each is not None and each is not False:
                yield f"{flag}={each}"


def unique_name(image: str) -> str:
    """A name for a container of `image`, of letters, digits and hyphens, that no other container has."""
    stem = image.rsplit("/", 1)[-1].split(":")[0].split("@")[0]
    return f"{''.join(c if c.isalnum() else '-' for c in stem.lower())[:40].strip('-')}-{time.time_ns():x}"


def _shown(command: tuple[str, ...]) -> str:
    """The command without the values of environment variables, which may be secrets."""
    return " ".join(part.partition("=")[0] + "=..." if part.startswith("--env=") else part for part in command)
