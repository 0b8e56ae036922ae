"""Runs an agent's Python code with the interpreter of smolagents, which executes a safe part of the language."""

import re
import traceback
from typing import Any

from openenv.core.env_server.types import CodeExecResult
from openenv.core.utils import check_type
from openenv.formats.json_text import json_text

_FOLDER = re.compile(r'(?<=  File ").*/')


class PyExecutor:
    """Runs programs one after another that share their variables. Needs the package smolagents.

    A program may call `format_exc()`, the text of the exception that it handles, and `safe_json_dumps(value)`, which
    writes what JSON lacks as its `repr`. The interpreter refuses imports that are not allowed, but it is no sandbox:
    serve the environment isolated.
    """

    def __init__(self, additional_imports: list[str] | None = None) -> None:
        """additional_imports: modules that a program may import besides those of smolagents' list.

        Raises ImportError where smolagents is not installed.
        """
        check_type("additional_imports", additional_imports, (list, tuple), "a list of modules", optional=True)
        try:
            from smolagents import LocalPythonExecutor
        except ImportError as error:
            raise ImportError("PyExecutor needs smolagents: pip install smolagents") from error
        self._executor: Any = LocalPythonExecutor(additional_authorized_imports=additional_imports or [])
        self._executor.send_tools({"format_exc": _format_exc, "safe_json_dumps": _safe_json_dumps})

    def run(self, code: str) -> CodeExecResult:
        """Run a program.

        `stdout` is its output and, on a line of its own, the value of its last line: as JSON where that can be, else
        its `repr`, and nothing for None. The traceback of an exception is in `stderr`, with exit code 1.
        """
        try:
            result = self._executor(code)
        except Exception:  # noqa: BLE001  border: an agent's program may raise anything
            return CodeExecResult(stdout="", stderr=_format_exc(), exit_code=1)
        parts = [result.logs, "" if result.output is None else _text_of(result.output)]
        return CodeExecResult(stdout="\n".join(filter(None, parts)), stderr="", exit_code=0)


def _text_of(value: Any) -> str:
    try:
        return json_text(value)
    except (TypeError, ValueError, RecursionError):
        return repr(value)


def _format_exc() -> str:
    """The traceback of the exception that is handled now, without the folders of this machine."""
    return _FOLDER.sub("", traceback.format_exc())


def _safe_json_dumps(obj: Any) -> str:
    return json_text(obj, default=repr)
