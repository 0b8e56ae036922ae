"""The Python interpreter of one episode: it runs in a sandbox, and reads requests from its standard input.

A request and a response are a line of JSON each. It uses the standard library only, since nothing else of the server is
in the sandbox. Whatever it answers was made by the code that it runs, and can be trusted no more than that code.

    {"code": "x = 3\\nx + 1", "language": "python", "seconds": 5}
    {"calls": ["f(3)", "f(4)"], "seconds": 5}
    {"files": {"data.csv": "a,b\\n1,2\\n"}}
"""

import _ast  # what `ast` is made of: `ast`, `traceback`, `subprocess` and `typing` take longer to import than Python
import json
import os
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any, NoReturn

MOST_OUTPUT = 1 << 16
"""Bytes of each output that are returned."""
MOST_VALUE = 10_000
"""Characters of a value, and of one of a call."""
MOST_FILES = 100


class TimeLimit(BaseException):
    """A step has used up its time."""


class Interpreter:
    """Variables that live from step to step, and the outputs of the step that runs."""

    def __init__(self) -> None:
        self._variables: dict[str, Any] = {"__name__": "__main__", "__builtins__": __builtins__}
        self._steps = 0
        self._sources: dict[str, str] = {}
        """The programs, by their names in tracebacks."""
        self._outputs = [_redirect(1), _redirect(2)]

    def run(self, code: str, language: str, seconds: float) -> "dict[str, Any]":
        """Run a program; return its outputs, its exit code, and the value of its last expression."""
        self._steps += 1
        for output in self._outputs:
            os.ftruncate(output, 0)
            os.lseek(output, 0, os.SEEK_SET)
        value, exit_code, stopped = "", 0, ""
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            if language == "shell":
                exit_code = os.waitstatus_to_exitcode(os.system(code))
            else:
                value = self._execute(code)
        except TimeLimit:
            exit_code, stopped = 1, "time limit"
        except SystemExit as ended:
            exit_code = ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
        except BaseException as error:  # noqa: BLE001  the code may raise anything
            exit_code = 1
            self._print_traceback(error)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        _flush()
        stdout, stderr = map(_content, self._outputs)
        return {
            "stdout": stdout,
            "stderr": stderr,
            "exit_code": exit_code,
            "value": value,
            "stopped": stopped,
            "files": _files(),
        }

    def call(self, calls: list[str], seconds: float) -> "dict[str, Any]":
        """The value of each expression as JSON, or nothing where it has none."""
        values: list[str | None] = []
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            for call in calls:
                values.append(self._value_of(call))
        except TimeLimit:
            pass
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        return {"values": values + [None] * (len(calls) - len(values))}

    def _execute(self, code: str) -> str:
        """Run a program, and return the representation of its last expression; nothing where that is None."""
        name = f"<step {self._steps}>"
        self._sources[name] = code
        tree = compile(code, name, "exec", _ast.PyCF_ONLY_AST)
        assert isinstance(tree, _ast.Module)
        last = tree.body[-1] if tree.body else None
        if not isinstance(last, _ast.Expr):
            exec(compile(tree, name, "exec"), self._variables)
            return ""
        exec(compile(_ast.Module(tree.body[:-1], []), name, "exec"), self._variables)
        value = eval(compile(_ast.Expression(last.value), name, "eval"), self._variables)
        return "" if value is None else repr(value)[:MOST_VALUE]

    def _print_traceback(self, error: BaseException) -> None:
        """Print an exception as Python does, without the frames of this module."""
        import linecache
        import traceback

        for name, code in self._sources.items():
            linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
        frames = error.__traceback__
        while frames is not None and frames.tb_frame.f_code.co_filename == __file__:
            frames = frames.tb_next
        sys.stderr.write("".join(traceback.format_exception(type(error), error, frames)))

    def _value_of(self, call: str) -> str | None:
        try:
            text = json.dumps(eval(call, self._variables))
        except TimeLimit:
            raise
        except BaseException:  # noqa: BLE001  the code may raise anything
            return None
        return text if len(text) <= MOST_VALUE else None


def write_files(files: dict[str, str]) -> "dict[str, Any]":
    """Write text files below the working directory."""
    for name, text in files.items():
        folder = os.path.dirname(name)
        if folder:
            os.makedirs(folder, exist_ok=True)
        with open(name, "w", encoding="utf-8") as file:
            file.write(text)
    return {"files": _files()}


def _redirect(number: int) -> int:
    """Let an output go to memory, also that of other programs; return the descriptor from which it is read."""
    memory = os.memfd_create("output")
    os.dup2(memory, number)
    return memory


def _content(memory: int) -> "dict[str, Any]":
    """The first bytes of an output as text, and how many there were."""
    size = os.fstat(memory).st_size
    return {"text": os.pread(memory, MOST_OUTPUT, 0).decode("utf-8", "replace"), "bytes": size}


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            continue  # the code has closed or replaced it, or the output is too large


def _files() -> dict[str, int]:
    """Sizes in bytes of the files in the working directory, by name."""
    found: dict[str, int] = {}
    for entry in sorted(os.scandir("."), key=lambda entry: entry.name)[:MOST_FILES]:
        if entry.is_file(follow_symlinks=False):
            found[entry.name] = entry.stat(follow_symlinks=False).st_size
    return found


def _on_alarm(_: int, __: "FrameType | None") -> "NoReturn":
    raise TimeLimit


def main() -> None:
    """Answer requests until the server closes the pipe."""
    requests, responses = os.fdopen(os.dup(0), "r", encoding="utf-8"), os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    signal.signal(signal.SIGALRM, _on_alarm)
    interpreter = Interpreter()
    for line in requests:
        request = json.loads(line)
        if "code" in request:
            response = interpreter.run(**request)
        elif "calls" in request:
            response = interpreter.call(**request)
        else:
            response = write_files(**request)
        responses.write(json.dumps(response) + "\n")
        responses.flush()


if __name__ == "__main__":
    main()
