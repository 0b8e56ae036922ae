"""A process without threads that forks a worker for each session of `execution = "process"`.

It imports the environment's module once, so that a new worker costs milliseconds.
"""

import asyncio
import contextlib
import ctypes
import logging
import multiprocessing
import os
import pickle
import signal
import socket
import sys
import time
from collections import OrderedDict

from openenv.core.env_server.execution.env_worker import run_worker
from openenv.core.env_server.observability.log_context import LogFormat, configure_logging, logging_settings
from openenv.core.env_server.runner.env_spec import EnvSpec
from openenv.core.env_server.runner.environment_calls import MethodArguments
from openenv.core.errors import FactoryFault

log = logging.getLogger(__name__)

_PR_SET_PDEATHSIG = 1
_REAP_INTERVAL_S = 1.0
_MAX_EXIT_STATUSES = 256
_EXIT_TIMEOUT_S = 2.0
_MAX_REPLY_BYTES = 1024


class ForkServer:
    """The server's handle of the process, which starts when the first worker is forked."""

    def __init__(self, spec: EnvSpec) -> None:
        self._spec = spec
        self._process: multiprocessing.process.BaseProcess | None = None
        self._control: socket.socket | None = None
        self._lock = asyncio.Lock()

    async def start(self) -> None:
        """Start the process. Raises FactoryFault without forks, or when the environment cannot be pickled."""
        if not hasattr(os, "fork"):
            raise FactoryFault(
                f"{self._spec.name}: execution = 'process' needs forks, which {sys.platform} does not have: serve with "
                "execution = 'thread' or 'inline'"
            )
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        context = multiprocessing.get_context("spawn")
        self._process = context.Process(
            target=fork_server_main, args=(self._spec, theirs, logging_settings()), daemon=True
        )
        try:
            await asyncio.to_thread(self._process.start)
        except (AttributeError, TypeError, OSError, ValueError, pickle.PicklingError) as error:
            raise FactoryFault(
                f"{self._spec.name} cannot run in worker processes ({error}): "
                "serve a class, or a functools.partial of one, that a module defines"
            ) from error
        finally:
            theirs.close()
        self._control = ours

    async def fork(self) -> tuple[int, socket.socket]:
        """Fork a worker: its process id and our end of its socket. Raises FactoryFault."""
        ours, theirs = socket.socketpair()
        with theirs:
            reply = await self._request(b"fork", [theirs.fileno()])
        if reply.startswith(b"!"):
            ours.close()
            raise FactoryFault(f"no process could be made for {self._spec.name}: {reply[1:].decode()}")
        ours.setblocking(False)
        return int(reply), ours

    async def exit_status(self, pid: int) -> str:
        """How a worker ended, such as `exit code 3` or `signal SIGSEGV`; `unknown` where that is not known."""
        with contextlib.suppress(FactoryFault):
            return (await self._request(b"exit_status %d" % pid)).decode()
        return "unknown"

    async def kill(self, pid: int) -> None:
        """Kill a worker that may have ended already. Only the fork server knows if the id is still the worker's."""
        with contextlib.suppress(FactoryFault):  # workers end with a fork server that has ended
            await self._request(b"kill %d" % pid)

    async def stop(self) -> None:
        """End the process and every worker of it."""
        if self._control is not None:
            self._control.close()  # the process reads the end of its socket, kills its workers and exits
        if self._process is not None:
            await asyncio.to_thread(self._process.join, 5.0)
            if self._process.is_alive():
                self._process.kill()

    async def _request(self, message: bytes, fds: list[int] | None = None) -> bytes:
        async with self._lock:
            if self._control is None:
                await self.start()
            assert self._control is not None
            exchange = asyncio.ensure_future(asyncio.to_thread(self._exchange, self._control, message, fds or []))
            try:
                return await asyncio.shield(exchange)
            except asyncio.CancelledError:
                await asyncio.wait({exchange})  # else the next request would read this reply
                raise
            except FactoryFault:
                self._control.close()
                self._control = None  # the next request starts another process
                raise

    def _exchange(self, control: socket.socket, message: bytes, fds: list[int]) -> bytes:
        try:
            socket.send_fds(control, [message], fds)
            reply = control.recv(_MAX_REPLY_BYTES)
        except OSError as error:
            raise FactoryFault(f"the fork server of {self._spec.name} has ended: {error}") from error
        if not reply:
            raise FactoryFault(f"the fork server of {self._spec.name} could not start: see the server's log")
        return reply


def fork_server_main(spec: EnvSpec, control: socket.socket, log_settings: tuple[int, LogFormat]) -> None:
    """Fork workers on request and report their exit status. Kills all workers when the server closes the socket.

    log_settings: level and format of the server's log.
    """
    configure_logging(*log_settings)
    _ignore_signals_of_the_group()
    arguments = MethodArguments(spec)
    workers = _Workers()
    control.settimeout(_REAP_INTERVAL_S)
    try:
        while True:
            workers.reap()
            try:
                message, fds, _, _ = socket.recv_fds(control, _MAX_REPLY_BYTES, 1)
            except TimeoutError:
                continue
            if not message:
                return
            if message == b"fork":
                control.send(_fork_reply(spec, arguments, control, fds[0], workers))
            else:
                request, pid = message.split()
                status = workers.kill(int(pid)) if request == b"kill" else workers.exit_status(int(pid))
                control.send(status.encode())
    finally:
        workers.kill_all()


def _ignore_signals_of_the_group() -> None:
    """Leave Ctrl-C, and a SIGTERM to the process group, to the server, which ends this process by its socket.

    Empty handlers instead of SIG_IGN: a program that an environment starts gets the default handlers back.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)


def _fork_reply(
    spec: EnvSpec, arguments: MethodArguments, control: socket.socket, fd: int, workers: "_Workers"
) -> bytes:
    """The new worker's process id, or `!` and the reason why there is none."""
    try:
        pid = _fork_worker(spec, arguments, control, fd)
    except OSError as error:
        os.close(fd)
        return f"!{error}".encode()
    workers.alive.add(pid)
    return b"%d" % pid


def _fork_worker(spec: EnvSpec, arguments: MethodArguments, control: socket.socket, fd: int) -> int:
    pid = os.fork()
    if pid:
        os.close(fd)
        return pid
    code = 0
    try:
        control.close()
        os.setsid()  # programs that the environment starts end with it
        _reseed()
        kill_with_parent()  # also when the fork server itself is killed
        run_worker(spec, arguments, socket.socket(fileno=fd))
    except BaseException:
        log.exception("a worker of %s ends", spec.name)
        code = 1
    finally:
        os._exit(code)  # a worker never returns into the fork server's code


def kill_with_parent() -> None:
    """Let the kernel kill this process when its parent ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _reseed() -> None:
    """Give each worker random numbers of its own. Python reseeds its own generator after a fork."""
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.seed()


class _Workers:
    """The workers of a fork server, and the exit status of those that ended."""

    def __init__(self) -> None:
        self.alive: set[int] = set()
        self._exit_statuses: OrderedDict[int, str] = OrderedDict()

    def reap(self) -> None:
        """Collect workers that have ended, so that none stays a zombie."""
        for pid in list(self.alive):
            self._collect(pid)

    def exit_status(self, pid: int) -> str:
        """How a worker ended that has just closed its socket. Waits up to 2 s for its end."""
        given_up_at = time.monotonic() + _EXIT_TIMEOUT_S
        while pid in self.alive and time.monotonic() < given_up_at:
            self._collect(pid)
            time.sleep(0.005)
        return self._exit_statuses.pop(pid, "unknown")

    def kill(self, pid: int) -> str:
        """Kill a worker, unless it has ended already."""
        if pid in self.alive:
            _kill_group(pid)
        return "killed"

    def kill_all(self) -> None:
        """Kill all workers."""
        for pid in self.alive:
            _kill_group(pid)

    def _collect(self, pid: int) -> None:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended == 0:
            return
        self.alive.discard(pid)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)  # programs that it left running
        code = os.waitstatus_to_exitcode(status)
        self._exit_statuses[pid] = f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"
        while len(self._exit_statuses) > _MAX_EXIT_STATUSES:
            self._exit_statuses.popitem(last=False)


def _kill_group(pid: int) -> None:
    """Kill a worker and the programs that it started."""
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError):
            kill(pid, signal.SIGKILL)
