"""Reads the files of a run's folder, which another program, or another user, may have put there."""

import json
import os
import stat
from pathlib import Path
from typing import Any, BinaryIO

_MAX_BYTES = 64 << 20
"""Of a file that is read as a whole."""


def open_run_file(path: Path) -> BinaryIO:
    """A file to read in binary mode. Raises FileNotFoundError without one.

    Raises OSError for anything but a regular file in its folder: to open a pipe may take for ever, a device has no
    end, and a link may lead to a file that no run has written.
    """
    real = os.path.realpath(path)
    if not Path(real).is_relative_to(os.path.realpath(path.parent)):
        raise OSError(f"{path} is a link out of its folder, which is not followed: copy the file there")
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    file = os.fdopen(os.open(real, flags), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(f"{path} is no regular file: remove it")
    return file


def read_run_text(path: Path) -> str:
    """The text of a file. Raises what `open_run_file` does, and ValueError for one that is too large or no UTF-8."""
    with open_run_file(path) as file:
        data = file.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise ValueError(f"{path} is larger than {_MAX_BYTES} bytes: it is no file of a run")
    return data.decode()


def read_run_json(path: Path) -> Any:
    """The JSON value of a file. Raises what `read_run_text` does, and ValueError for a value that cannot be read."""
    return parsed(path, read_run_text(path))


def parsed(path: Path, text: str | bytes) -> Any:
    """A JSON value of a file. Raises ValueError."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError(f"{path} has a value that is nested too deeply") from error
