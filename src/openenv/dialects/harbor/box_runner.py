"""Runs in the sandbox of a task, and does what the server asks for: commands, archives and files.

A request and a response are a line of JSON each. It uses the standard library only, since nothing else of the server is
in the sandbox. The server believes its answers no more than the programs that it runs.

    {"command": ["sh", "-c", "make"], "directory": "/app", "seconds": 30, "most": 65536, "variables": {}}
    {"archive": "... base64 ..."}
    {"read": "/app/notes.txt", "most": 65536}
"""

import base64
import ctypes
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import tempfile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PR_SET_DUMPABLE = 4


def run(command: list[str], directory: str, seconds: float, most: int, variables: dict[str, str]) -> "dict[str, Any]":
    """Run a command until it ends, or kill it. Programs that it leaves running keep its outputs, which are a file."""
    os.makedirs(directory, exist_ok=True)
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=directory,
            env={**os.environ, **variables},
            start_new_session=True,
        )
        try:
            exit_code: int | None = process.wait(seconds)
        except subprocess.TimeoutExpired:
            exit_code = None
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        size = output.seek(0, os.SEEK_END)
        kept = os.pread(output.fileno(), most, 0)
    return {"exit_code": exit_code, "output": base64.b64encode(kept).decode(), "num_left_out": size - len(kept)}


def extract(archive: str) -> "dict[str, Any]":
    """Extract a tar archive at the root."""
    with tarfile.open(fileobj=io.BytesIO(base64.b64decode(archive))) as tar:
        tar.extractall("/", filter="tar")
    return {}


def read(path: str, most: int) -> "dict[str, Any]":
    """The beginning of a file."""
    if not os.path.isfile(path):
        return {"content": None}
    with open(path, "rb") as file:
        return {"content": base64.b64encode(file.read(most)).decode()}


def answer(request: "dict[str, Any]") -> "dict[str, Any]":
    """The response to a request, or what the system refused of it."""
    try:
        if "archive" in request:
            return extract(**request)
        return read(request["read"], request["most"]) if "read" in request else run(**request)
    except (OSError, tarfile.TarError) as error:
        return {"error": str(error)}


def main() -> None:
    """Answer requests until the server closes the pipe.

    Programs of the task have the same user. They cannot open the pipes to the server by `/proc/PID/fd`, since this
    process is not dumpable.
    """
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    requests, responses = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.umask(0o022)
    for line in requests:
        response = json.dumps(answer(json.loads(line)))  # noqa: TID251  it runs without this package
        responses.write(response.encode() + b"\n")
        responses.flush()
    sys.exit()


if __name__ == "__main__":
    main()
