"""Runs in a sandbox: a process without threads that forks the interpreter of each episode, and passes requests on.

A request and a response are a line of JSON each. It uses the standard library only, since nothing else of the server is
in the sandbox. Whatever it answers may be made by the code that it runs, and can be trusted no more than that code.

    {"begin": {"data.csv": "a,b\\n1,2\\n"}}
    {"code": "x = 3\\nx + 1", "language": "python", "seconds": 5}
    {"calls": ["f(3)", "f(4)"], "seconds": 5}

Before an episode begins, all processes of the one before are killed, and its files are removed. What cannot be removed
ends the sandbox.
"""

import _ast  # what `ast` is made of: `ast`, `traceback`, `subprocess` and `typing` take longer to import than Python
import ctypes
import json
import os
import select
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any, NoReturn

MOST_OUTPUT = 1 << 16
"""Bytes of each output that are returned."""
MOST_VALUE = 10_000
"""Characters of a value, and of one of a call."""
MOST_FILES = 100
MOST_RESPONSE = 1 << 20
GRACE_S = 0.5
"""After its time, code may handle the exception that ends it, for so long."""
_BEGIN_S = 5.0
_EMPTY_TIMEOUT_S = 1.0
_CHUNK = 1 << 16
_PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER = 4, 36


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
            text = json.dumps(eval(call, self._variables))  # noqa: TID251  it runs without this package
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
    """Let an output go to memory, also that of other programs; return the descriptor from which it is read.

    A sandbox without a control group has no memory outside its processes: there it goes to a file without a name.
    """
    try:
        output = os.memfd_create("output")
    except OSError:
        output = os.open(f".output-{number}", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        os.unlink(f".output-{number}")
    os.dup2(output, number)
    return output


def _content(output: int) -> "dict[str, Any]":
    """The first bytes of an output as text, and how many there were."""
    size = os.fstat(output).st_size
    return {"text": os.pread(output, MOST_OUTPUT, 0).decode("utf-8", "replace"), "bytes": size}


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


class Ended(Exception):
    """The interpreter of the episode has ended; the exit code, or None for one that took too long."""

    def __init__(self, exit_code: "int | None") -> None:
        super().__init__()
        self.exit_code = exit_code


class ForkedInterpreter:
    """The interpreter of one episode, in a process of its own."""

    def __init__(self, not_passed: list[int]) -> None:
        """not_passed: descriptors that the new process closes."""
        requests, ours = os.pipe()
        theirs, responses = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            for fd in (ours, theirs, *not_passed):
                os.close(fd)
            _serve(requests, responses)
        os.close(requests)
        os.close(responses)
        self._requests, self._responses = ours, theirs

    def request(self, line: bytes, seconds: float) -> bytes:
        """The first line that it answers. Raises Ended.

        Code can write more lines. The server would read them as responses to its next requests, also in later episodes.
        """
        deadline = time.monotonic() + seconds + GRACE_S
        try:
            while line:
                line = line[os.write(self._requests, line) :]
        except BrokenPipeError:
            raise self._ended(deadline) from None
        received = b""
        while b"\n" not in received:
            if not select.select([self._responses], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise Ended(None)
            chunk = os.read(self._responses, _CHUNK)
            if not chunk or len(received) > MOST_RESPONSE:
                raise self._ended(deadline)
            received += chunk
        return received[: received.index(b"\n") + 1]

    def reap_others(self) -> None:
        """Reap processes that have lost their parent: they would count as processes of the sandbox."""
        ended = os.WEXITED | os.WNOHANG | os.WNOWAIT
        try:
            while (found := os.waitid(os.P_ALL, 0, ended)) and found.si_pid != self._pid:
                os.waitpid(found.si_pid, 0)
        except ChildProcessError:
            pass

    def close(self) -> None:
        """End it, and reap it."""
        for fd in (self._requests, self._responses):
            os.close(fd)
        try:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass

    def _ended(self, deadline: float) -> Ended:
        """How it has ended; it may only have closed its pipe."""
        while time.monotonic() < deadline:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            if pid:
                return Ended(os.waitstatus_to_exitcode(status))
            time.sleep(0.001)
        return Ended(None)


def _serve(requests: int, responses: int) -> "NoReturn":
    """Answer requests in a process that was forked, until the pipe closes."""
    try:
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)  # it may look at its own /proc/self
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGALRM, _on_alarm)
        interpreter = Interpreter()
        with os.fdopen(requests, encoding="utf-8") as lines, os.fdopen(responses, "w", encoding="utf-8") as answers:
            for line in lines:
                request = json.loads(line)
                if "code" in request:
                    response = interpreter.run(**request)
                elif "calls" in request:
                    response = interpreter.call(**request)
                else:
                    response = write_files(request["begin"])
                answers.write(json.dumps(response) + "\n")  # noqa: TID251  it runs without this package
                answers.flush()
        os._exit(0)
    except BaseException:  # noqa: BLE001  the code may have replaced anything that is used here
        os._exit(1)


def _end_all_processes() -> None:
    """Kill all other processes of the sandbox. Exits if some are left, with the whole sandbox.

    All descend from this one, to which those without a parent return. A call of kill() for all does not say whether
    there are some: on the level `landlock` it finds those of others, which it may not kill.
    """
    deadline = time.monotonic() + _EMPTY_TIMEOUT_S
    while time.monotonic() < deadline:
        try:
            os.kill(-1, signal.SIGKILL)  # this process is not among them
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except (ProcessLookupError, ChildProcessError):
            return
        time.sleep(0.001)
    sys.exit("processes of the last episode do not end")


class Folders:
    """The directories that code may write. They may contain what the sandbox shows of the server's machine."""

    def __init__(self) -> None:
        folders = [os.getcwd(), *(["/tmp", "/dev/shm"] if os.getcwd() == "/session" else [])]
        self._shown = {folder: set(os.listdir(folder)) for folder in folders}

    def empty(self) -> None:
        """Remove what code has left there. Exits if something remains, with the whole sandbox."""
        for folder, shown in self._shown.items():
            if set(os.listdir(folder)) == shown:
                continue
            os.system(f"chmod -R u+rwX {folder} 2>/dev/null; find {folder} -mindepth 1 -delete 2>/dev/null")
            if set(os.listdir(folder)) != shown:
                sys.exit("files of the last episode cannot be removed")


def main() -> None:
    """Pass requests to the interpreter of the episode, until the server closes the pipe.

    Code of an episode has the same user. It cannot open the pipes to the server by `/proc/PID/fd`, since this process
    is not dumpable.
    """
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    requests, responses = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    folders = Folders()
    current: ForkedInterpreter | None = None
    signal.signal(signal.SIGCHLD, lambda *_: None if current is None else current.reap_others())
    for line in requests:
        request = json.loads(line)
        if "begin" in request:
            if current is not None:
                current.close()
                _end_all_processes()
                folders.empty()
            current = ForkedInterpreter([requests.fileno(), responses.fileno()])
        assert current is not None, "begin comes first"
        try:
            response = current.request(line, request.get("seconds", _BEGIN_S))
        except Ended as ended:
            response = json.dumps({"ended": ended.exit_code}).encode() + b"\n"  # noqa: TID251  it runs without this package
        responses.write(response)
        responses.flush()


if __name__ == "__main__":
    main()
