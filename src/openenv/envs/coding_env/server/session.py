"""Interpreters in sandboxes. A session has a sandbox; a few wait, started, so that it begins in milliseconds."""

import json
import os
import selectors
import threading
import time
from collections import deque
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from openenv.formats.json_text import json_text
from openenv.hosting.sandbox.box_spec import BoxSpec
from openenv.hosting.sandbox.limits import SandboxLimits
from openenv.hosting.sandbox.python_files import with_python
from openenv.hosting.sandbox.sandbox import Sandbox, SandboxHost, exit_text

_PROGRAM = str(Path(__file__).with_name("interpreter.py"))
_MOST_RESPONSE = 1 << 20
_GRACE_S = 2.0
"""The sandbox itself stops code that takes too long; this is for one that does not."""
_BEGIN_S = 10.0
_CHUNK = 1 << 16
_ENVIRONMENT = {"PYTHONHASHSEED": "0"}  # sets of texts have the same order in every episode


class InterpreterEnded(Exception):
    """The interpreter of the episode has ended, and its variables are lost. The message is the reason."""


class SandboxedInterpreter:
    """A sandbox with the interpreter of one episode after another."""

    def __init__(self, box: Sandbox) -> None:
        self._box = box
        os.set_blocking(box.stdin.fileno(), False)
        self._num_killed = 0
        """Processes that were killed because the memory was used up."""
        self.is_usable = True
        """Whether another episode can begin in the sandbox."""

    def begin(self, files: Mapping[str, str]) -> dict[str, Any]:
        """Begin an episode with these texts in its directory: nothing is left of the one before.

        Raises InterpreterEnded, also where something of it cannot be removed.
        """
        return self.request(_BEGIN_S, begin=files)

    def request(self, within_s: float, /, **fields: Any) -> dict[str, Any]:
        """The response. Raises InterpreterEnded for code that ends the interpreter, or does not end in time."""
        line = json_text(fields).encode() + b"\n"
        deadline = time.monotonic() + within_s + _GRACE_S
        try:
            self._write(line, deadline)
            response = json.loads(self._read_line(deadline))
        except BrokenPipeError:
            raise self._ended_with_sandbox("") from None
        except (ValueError, RecursionError):
            raise self._ended_with_sandbox("a response that is no JSON") from None
        if not isinstance(response, dict):
            raise self._ended_with_sandbox("a response that is no object")
        if "ended" in response:
            raise InterpreterEnded(self._reason(response["ended"]))
        return response

    def close(self) -> None:
        """End the sandbox, and all that its code has started."""
        self.is_usable = False
        self._box.close()

    def _write(self, line: bytes, deadline: float) -> None:
        """Write to the sandbox, whose code may have stopped the process that reads. Raises InterpreterEnded."""
        fd, unsent = self._box.stdin.fileno(), memoryview(line)
        while unsent:
            try:
                unsent = unsent[os.write(fd, unsent) :]
            except BlockingIOError:
                with selectors.DefaultSelector() as selector:
                    selector.register(fd, selectors.EVENT_WRITE)
                    if not selector.select(max(0.0, deadline - time.monotonic())):
                        raise self._ended_with_sandbox("time limit") from None

    def _read_line(self, deadline: float) -> bytes:
        """The next line from the sandbox. Raises InterpreterEnded."""
        received = bytearray()
        with selectors.DefaultSelector() as selector:
            selector.register(self._box.stdout, selectors.EVENT_READ)
            while not received.endswith(b"\n"):
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise self._ended_with_sandbox("time limit")
                chunk = os.read(self._box.stdout.fileno(), _CHUNK)
                if not chunk:
                    raise self._ended_with_sandbox("")
                received += chunk
                if len(received) > _MOST_RESPONSE:
                    raise self._ended_with_sandbox("output limit")
        return bytes(received)

    def _reason(self, exit_code: Any) -> str:
        """Why an interpreter has ended whose sandbox has not."""
        num_killed = self._box.out_of_memory_kills()
        is_out_of_memory, self._num_killed = num_killed > self._num_killed, num_killed
        if is_out_of_memory:
            return "out of memory"
        return "time limit" if not isinstance(exit_code, int) else exit_text(exit_code)

    def _ended_with_sandbox(self, reason: str) -> InterpreterEnded:
        """End the sandbox; the exception has the reason, or how it ended by itself."""
        end = self._box.end()
        self.close()
        return InterpreterEnded(reason or end.reason)


class InterpreterPool:
    """Starts sandboxes with the same limits and packages ahead of their use."""

    def __init__(self, host: SandboxHost, limits: SandboxLimits, packages: tuple[str, ...], num_ready: int = 2) -> None:
        """num_ready: sandboxes that wait. Raises ValueError for a package that is not installed."""
        command = ("script", _PROGRAM)
        spec = BoxSpec(command=command, limits=limits, environment=_ENVIRONMENT, python=host.python)
        self.host = host
        self._spec = with_python(spec, packages)
        self._num_ready = num_ready
        self._ready: deque[SandboxedInterpreter] = deque()
        self._changed = threading.Condition()
        self._is_filling = False
        self._discarding = ThreadPoolExecutor(1, "discarded-interpreters")

    def take(self) -> SandboxedInterpreter:
        """A sandbox that was not used before. Raises ContainerFault if it cannot be started."""
        with self._changed:
            found = self._ready.popleft() if self._ready else None
            if not self._is_filling:
                self._is_filling = True
                threading.Thread(target=self._fill, name="interpreters", daemon=True).start()
        return found or self._start()

    def discard(self, interpreter: SandboxedInterpreter) -> None:
        """End a sandbox without waiting for it."""
        self._discarding.submit(interpreter.close)

    def close(self) -> None:
        """End the sandboxes that wait."""
        self._discarding.shutdown()
        with self._changed:
            self._num_ready = 0
            ready, self._ready = self._ready, deque()
        for interpreter in ready:
            interpreter.close()

    def _fill(self) -> None:
        while True:
            with self._changed:
                if len(self._ready) >= self._num_ready:
                    self._is_filling = False
                    return
            interpreter = self._start()
            with self._changed:
                self._ready.append(interpreter)

    def _start(self) -> SandboxedInterpreter:
        return SandboxedInterpreter(self.host.start(self._spec))
