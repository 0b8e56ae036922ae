"""Runs an agent's Python code with the interpreter of smolagents, which executes a safe part of the language."""

from typing import Any

from openenv.core.env_server.types import CodeExecResult


class PyExecutor:
    """Runs programs one after another that share their variables. Needs the package smolagents.

    The interpreter refuses imports that are not allowed, but it is no sandbox: serve the environment isolated.
    """

    def __init__(self, additional_imports: list[str] | None = None) -> None:
        """additional_imports: modules that a program may import besides those of smolagents' list.

        Raises ImportError where smolagents is not installed.
        """
        try:
            from smolagents import LocalPythonExecutor
        except ImportError as error:
            raise ImportError("PyExecutor needs smolagents: pip install smolagents") from error
        self._executor: Any = LocalPythonExecutor(additional_authorized_imports=additional_imports or [])
        self._executor.send_tools({})

    def run(self, code: str) -> CodeExecResult:
        """Run a program. Its output and the value of its last line are in `stdout`; an exception is in `stderr`, with
        exit code 1."""
        try:
            result = self._executor(code)
        except Exception as error:  # noqa: BLE001  border: an agent's program may raise anything
            return CodeExecResult(stdout="", stderr=f"{type(error).__name__}: {error}", exit_code=1)
        value = "" if result.output is None else str(result.output)
        return CodeExecResult(stdout="\n".join(filter(None, (result.logs.rstrip("\n"), value))), stderr="", exit_code=0)
