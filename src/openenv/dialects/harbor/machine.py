"""Where one episode of a task plays: a sandbox of this machine, or a container. Both have the same verbs."""

import io
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

SHELL = 'if command -v bash >/dev/null 2>&1; then exec bash -c "$1"; else exec sh -c "$1"; fi'
"""A script of sh that runs its first argument in bash, or in sh where there is no bash."""


class MachineEnded(RuntimeError):
    """The sandbox or container of the episode has ended. The message is the reason."""


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command of the shell."""

    text: str
    timeout_s: float
    variables: Mapping[str, str] = field(default_factory=dict)
    """Of its environment, beside those of the machine."""
    user: str | int | None = None
    """None: the machine's own."""
    output_bytes: int = 1 << 16
    """How much of its output is kept."""


@dataclass(frozen=True, kw_only=True)
class CommandResult:
    """What a command has printed, and how it ended."""

    exit_code: int | None
    """None: it was killed at its time limit."""
    output: str
    """The beginning of its two outputs, as they came."""
    num_left_out: int = 0
    """Bytes that it has printed beyond that."""


class Machine(Protocol):
    """A sandbox or a container. What a command starts runs on until the machine closes. All methods
    block, and raise MachineEnded where its programs have ended it, ContainerFault where the engine fails."""

    workdir: str
    """Where commands run."""

    def run(self, command: Command) -> CommandResult:
        """Run a command of the shell in the working directory."""

    def put(self, archive: bytes) -> None:
        """Extract a tar archive at the root. Raises OSError where that is refused."""

    def read(self, path: str, most_bytes: int) -> bytes | None:
        """The beginning of a file; None where there is none. path: an absolute one."""

    def close(self) -> None:
        """End it, with all that runs there."""


def packed(sources: Mapping[str, Path | bytes], empty: Iterable[str] = ()) -> bytes:
    """A tar archive of files, folders and contents, by their absolute path in it.

    empty: folders that are made without content. All users may write there, and run scripts `*.sh` of the others.
    """
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for folder in empty:
            entry = tarfile.TarInfo(folder.lstrip("/"))
            entry.type, entry.mode = tarfile.DIRTYPE, 0o777
            tar.addfile(entry)
        for target, source in sources.items():
            if isinstance(source, Path):
                tar.add(source, target.lstrip("/"), filter=_without_owner)
            else:
                entry = tarfile.TarInfo(target.lstrip("/"))
                entry.size = len(source)
                tar.addfile(entry, io.BytesIO(source))
    return buffer.getvalue()


def _without_owner(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """The entry as one of root, which all may read."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mode |= 0o555 if entry.isdir() or entry.name.endswith(".sh") else 0o444
    return entry
