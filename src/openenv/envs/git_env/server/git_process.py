"""Runs git in a folder: without a shell, with a fixed environment, a time limit and an output limit."""

import contextlib
import os
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

TIME_LIMIT_S = 10.0
TIMED_OUT = 124
"""Exit code of a command that the limit of time or of output has ended, as of timeout(1)."""
_MOST_BYTES = 1_000_000
"""Of an output that are read. A command that writes more is ended."""
_CHUNK = 65_536

FIRST_DATE = 1_767_600_000
"""Seconds since 1970, in January 2026. The dates of commits count from it, so that equal commands give equal hashes."""

CONFIG = """[core]
\trepositoryformatversion = 0
\tbare = {bare}
\tlogAllRefUpdates = true
\thooksPath = /dev/null
\tfsmonitor = false
\tsymlinks = false
\tpager = cat
\teditor = :
\tsshCommand = false
[protocol]
\tallow = never
[protocol "file"]
\tallow = always
[protocol "ext"]
\tallow = never
[safe]
\tbareRepository = explicit
[gpg]
\tprogram = false
[gc]
\tauto = 0
[maintenance]
\tauto = false
[submodule]
\trecurse = false
[fetch]
\trecurseSubmodules = false
[credential]
\thelper =
"""
"""Of both repositories. The work tree's names origin too."""


@dataclass(frozen=True, kw_only=True)
class Completed:
    """A command of git that has ended."""

    exit_code: int
    stdout: str
    stderr: str
    is_cut: bool
    """Whether the command was ended because it wrote too much."""


def git_program() -> str:
    """The path of git. Raises FileNotFoundError, with the remedy, where there is none."""
    found = shutil.which("git")
    if found is None:
        raise FileNotFoundError("this environment needs the program git: install it, and start the server again")
    return found


def run_git(
    arguments: Sequence[str], folder: Path, work_tree: Path, *, clock: int = 0, time_limit_s: float = TIME_LIMIT_S,
    stdin: bytes = b"",
) -> Completed:  # fmt: skip
    """Run git in a work tree.

    Args:
        folder: of the session; git looks for repositories and settings nowhere else.
        clock: seconds since FIRST_DATE, which commits take as their date.
        stdin: of a command that reads all of it.
    """
    process = subprocess.Popen(
        [git_program(), *arguments],
        cwd=work_tree,
        env=_environment(folder, clock),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    with process:
        try:
            output, has_ended, is_cut = _read(process, stdin, time.monotonic() + time_limit_s)
        finally:
            _end_group(process)
    texts = [part.decode(errors="replace").replace(f"{folder}/", "") for part in output]
    if not has_ended and not is_cut:
        texts[1] += f"\nthe command took longer than {time_limit_s:g} s and was ended\n"
    return Completed(
        exit_code=process.returncode if has_ended else TIMED_OUT, stdout=texts[0], stderr=texts[1], is_cut=is_cut
    )


def _read(process: "subprocess.Popen[bytes]", stdin: bytes, deadline: float) -> tuple[list[bytes], bool, bool]:
    """Standard output and errors, whether the command has ended by itself, and whether it wrote too much."""
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    parts: dict[int, bytearray] = {0: bytearray(), 1: bytearray()}
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ, 0)
        selector.register(process.stderr, selectors.EVENT_READ, 1)
        if stdin:
            process.stdin.write(stdin)
        process.stdin.close()
        while selector.get_map():
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if not ready:
                return [bytes(part) for part in parts.values()], False, False
            for key, _ in ready:
                chunk = os.read(key.fd, _CHUNK)
                parts[key.data] += chunk
                if not chunk:
                    selector.unregister(key.fileobj)
            if sum(map(len, parts.values())) > _MOST_BYTES:
                return [bytes(part) for part in parts.values()], False, True
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(max(0.0, deadline - time.monotonic()))
    return [bytes(part) for part in parts.values()], process.returncode is not None, False


def _end_group(process: "subprocess.Popen[bytes]") -> None:
    """End what the command has started and left running, and wait for it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _environment(folder: Path, clock: int) -> Mapping[str, str]:
    """Nothing of the server's own environment; no settings but the repository's; no network, editor or pager."""
    date = f"{FIRST_DATE + clock} +0000"
    person = {"NAME": "Agent", "EMAIL": "agent@example.com", "DATE": date}
    return {
        "PATH": f"{Path(git_program()).parent}:/usr/bin:/bin",
        "HOME": str(folder),
        "LC_ALL": "C",
        "TZ": "UTC",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_SYSTEM": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_CEILING_DIRECTORIES": str(folder),
        "GIT_ALLOW_PROTOCOL": "file",
        "GIT_PROTOCOL_FROM_USER": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_PAGER": "cat",
        "GIT_EDITOR": ":",
        "GIT_SEQUENCE_EDITOR": ":",
        "GIT_SSH_COMMAND": "false",
        "GIT_MERGE_AUTOEDIT": "no",
        "GIT_TEST_DATE_NOW": str(FIRST_DATE + clock),
        **{f"GIT_{role}_{name}": value for role in ("AUTHOR", "COMMITTER") for name, value in person.items()},
    }
