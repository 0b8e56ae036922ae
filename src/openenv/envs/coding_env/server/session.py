"""Interpreters in sandboxes: a few wait, started, so that an episode begins in milliseconds."""

import json
import os
import selectors
import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from openenv.core.sandbox.box_spec import BoxSpec
from openenv.core.sandbox.limits import SandboxLimits
from openenv.core.sandbox.python_files import with_python
from openenv.core.sandbox.sandbox import Sandbox, SandboxHost

_PROGRAM = str(Path(__file__).with_name("interpreter.py"))
_MOST_RESPONSE = 1 << 20
_GRACE_S = 1.0
"""After its time, code may handle the exception that says so, for so long."""
_CHUNK = 1 << 16


class InterpreterEnded(Exception):
    """The interpreter has ended, and its variables are lost. The message says why, such as `out of memory`."""


class SandboxedInterpreter:
    """One interpreter. It can be used until it raises InterpreterEnded."""

    def __init__(self, box: Sandbox) -> None:
        self._box = box

    def request(self, within_s: float, /, **fields: Any) -> dict[str, Any]:
        """The response. Raises InterpreterEnded for code that ends the interpreter, or does not end in time."""
        line = json.dumps(fields).encode() + b"\n"
        deadline = time.monotonic() + within_s + _GRACE_S
        try:
            self._box.stdin.write(line)
            response = json.loads(self._read_line(deadline))
        except BrokenPipeError:
            raise self._ended("") from None
        except ValueError:
            raise self._ended("a response that is no JSON") from None
        if not isinstance(response, dict):
            raise self._ended("a response that is no object")
        return response

    def close(self) -> None:
        """End it, and all that its code has started."""
        self._box.close()

    def _read_line(self, deadline: float) -> bytes:
        """The next line that it writes. Raises InterpreterEnded."""
        received = bytearray()
        with selectors.DefaultSelector() as selector:
            selector.register(self._box.stdout, selectors.EVENT_READ)
            while not received.endswith(b"\n"):
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise self._ended("time limit")
                chunk = os.read(self._box.stdout.fileno(), _CHUNK)
                if not chunk:
                    raise self._ended("")
                received += chunk
                if len(received) > _MOST_RESPONSE:
                    raise self._ended("output limit")
        return bytes(received)

    def _ended(self, reason: str) -> InterpreterEnded:
        """End it; the exception has the reason, or how it ended by itself."""
        end = self._box.end()
        self.close()
        return InterpreterEnded(reason or end.reason)


class InterpreterPool:
    """Starts interpreters with the same limits and packages ahead of their use."""

    def __init__(self, host: SandboxHost, limits: SandboxLimits, packages: tuple[str, ...], num_ready: int = 2) -> None:
        """num_ready: interpreters that wait. Raises ValueError for a package that is not installed."""
        command = ("script", _PROGRAM)
        spec = BoxSpec(command=command, limits=limits, readable=(_PROGRAM,), python=host.python)
        self.host = host
        self._spec = with_python(spec, packages)
        self._num_ready = num_ready
        self._ready: deque[SandboxedInterpreter] = deque()
        self._changed = threading.Condition()
        self._is_filling = False
        self._discarding = ThreadPoolExecutor(1, "discarded-interpreters")

    def take(self) -> SandboxedInterpreter:
        """An interpreter that was not used before. Raises ContainerFault if it cannot be started."""
        with self._changed:
            found = self._ready.popleft() if self._ready else None
            if not self._is_filling:
                self._is_filling = True
                threading.Thread(target=self._fill, name="interpreters", daemon=True).start()
        return found or self._start()

    def discard(self, interpreter: SandboxedInterpreter) -> None:
        """End an interpreter without waiting for it."""
        self._discarding.submit(interpreter.close)

    def close(self) -> None:
        """End the interpreters that wait."""
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
