"""Runs one program in a sandbox to its end, with a limit of time and of output."""

import os
import selectors
import time
from dataclasses import dataclass

from openenv.hosting.sandbox.box_spec import BoxSpec
from openenv.hosting.sandbox.sandbox import Sandbox, SandboxEnd, SandboxHost

_CHUNK = 1 << 16
_FLOOD = 64
"""A program is killed when it has written so many times the output that is kept."""


@dataclass(frozen=True, kw_only=True)
class ProgramResult:
    """What a program wrote, and how it ended."""

    stdout: bytes
    stderr: bytes
    is_cut: bool
    """Whether it wrote more than what was kept."""
    stopped: str
    """Why it was killed: `time limit`, `output limit`, or nothing."""
    end: SandboxEnd
    seconds: float

    @property
    def reason(self) -> str:
        """How it ended, in words."""
        return self.stopped or self.end.reason


class _Output:
    """The first bytes of a stream."""

    def __init__(self, most: int) -> None:
        self.kept = bytearray()
        self.total = 0
        self._most = most

    def add(self, chunk: bytes) -> None:
        self.total += len(chunk)
        self.kept += chunk[: self._most - len(self.kept)]

    @property
    def is_cut(self) -> bool:
        return self.total > len(self.kept)


def run_program(
    host: SandboxHost, spec: BoxSpec, *, stdin: bytes = b"", seconds: float = 10.0, output_bytes: int = 1 << 16
) -> ProgramResult:
    """Run a program until it ends, or for so many seconds, and keep so many bytes of each of its two outputs.

    What it started ends with it. Raises ContainerFault if it cannot be started.
    """
    started = time.monotonic()
    with host.start(spec) as box:
        outputs = {box.stdout.fileno(): _Output(output_bytes), box.stderr.fileno(): _Output(output_bytes)}
        stopped = _watch(box, stdin, outputs, started + seconds)
        end = box.end()
        for fd, output in outputs.items():
            while output.total < _FLOOD * output_bytes and (chunk := _read(fd)):
                output.add(chunk)
    out, err = outputs.values()
    return ProgramResult(
        stdout=bytes(out.kept),
        stderr=bytes(err.kept),
        is_cut=out.is_cut or err.is_cut,
        stopped=stopped,
        end=end,
        seconds=time.monotonic() - started,
    )


def _watch(box: Sandbox, stdin: bytes, outputs: dict[int, _Output], deadline: float) -> str:
    """Feed and read a program until it ends; return why it has to be killed, or nothing."""
    unsent = memoryview(stdin)
    most = _FLOOD * next(iter(outputs.values()))._most
    for fd in (box.stdin.fileno(), *outputs):  # a program with this user can take its output back before it is read
        os.set_blocking(fd, False)
    with selectors.DefaultSelector() as selector:
        for fd in (box.pidfd, *outputs):
            selector.register(fd, selectors.EVENT_READ)
        selector.register(box.stdin, selectors.EVENT_WRITE)
        while (left := deadline - time.monotonic()) > 0:
            for key, _ in selector.select(left):
                if key.fd == box.pidfd:
                    return ""
                if key.fd not in outputs:
                    unsent = _send(box, unsent, selector)
                elif chunk := _read(key.fd):
                    outputs[key.fd].add(chunk)
                elif chunk is not None:
                    selector.unregister(key.fd)
            if sum(output.total for output in outputs.values()) > most:
                return "output limit"
    return "time limit"


def _send(box: Sandbox, unsent: memoryview, selector: selectors.BaseSelector) -> memoryview:
    """Write to the program's standard input, which is closed after the last byte."""
    try:
        unsent = unsent[os.write(box.stdin.fileno(), unsent[:_CHUNK]) :] if unsent else unsent
    except BrokenPipeError:
        unsent = unsent[:0]
    if not unsent:
        selector.unregister(box.stdin)
        box.stdin.close()
    return unsent


def _read(fd: int) -> bytes | None:
    """What can be read now: nothing at the end, and None where nothing has been written yet."""
    try:
        return os.read(fd, _CHUNK)
    except BlockingIOError:
        return None
