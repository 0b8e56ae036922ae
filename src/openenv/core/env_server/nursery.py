"""What runs in the nursery process and in the workers that it forks."""

import contextlib
import ctypes
import logging
import os
import signal
import socket
import struct
import sys
import time
from collections import OrderedDict
from typing import Any

import orjson

from openenv.core.arrays import pack
from openenv.core.env_server.declaration import Declaration
from openenv.core.env_server.episode_log import Episode, LogFormat, configure_logging, current_episode
from openenv.core.env_server.loop_thread import LoopThread
from openenv.core.env_server.manner import Manner, VectorManner, verbs_for
from openenv.core.env_server.verbs import Answer, Verbs, VerbSignatures
from openenv.core.env_server.wire import error_data, error_json
from openenv.core.errors import RequestRefused

log = logging.getLogger(__name__)

REQUEST_LENGTH = struct.Struct(">I")
ANSWER_HEAD = struct.Struct(">cddII")
"""Kind of an answer, seconds in the environment and in encoding, steps that a step was, length of the body."""
_PR_SET_PDEATHSIG = 1
_REAP_EVERY_S = 1.0
_FATES_KEPT = 256
_FATE_PATIENCE_S = 2.0


def nursery_main(declaration: Declaration, control: socket.socket, logging_choice: tuple[int, LogFormat]) -> None:
    """Fork workers on demand, tell their fate, and end with the server, killing what is left.

    logging_choice: level and format of the server's log.
    """
    configure_logging(*logging_choice)
    _leave_signals_to_the_server()
    signatures = VerbSignatures(declaration.environment_cls)
    children = _Children()
    control.settimeout(_REAP_EVERY_S)
    try:
        while True:
            children.reap()
            try:
                message, fds, _, _ = socket.recv_fds(control, 1024, 1)
            except TimeoutError:
                continue
            if not message:
                return
            if message == b"fork":
                control.send(_forked(declaration, signatures, control, fds[0], children))
            else:
                question, pid = message.split()
                control.send((children.end(int(pid)) if question == b"kill" else children.fate(int(pid))).encode())
    finally:
        children.kill()


def _leave_signals_to_the_server() -> None:
    """Ctrl-C and a SIGTERM to the whole group are the server's to handle: it ends us by closing our socket.

    Handlers that do nothing, rather than ignoring: a program that an environment starts gets its default ones back.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)


def _forked(
    declaration: Declaration, signatures: VerbSignatures, control: socket.socket, fd: int, children: "_Children"
) -> bytes:
    """The new worker's process id, or `!` and why there is none: the workers that run go on either way."""
    try:
        pid = _fork_worker(declaration, signatures, control, fd)
    except OSError as error:
        os.close(fd)
        return f"!{error}".encode()
    children.alive.add(pid)
    return b"%d" % pid


class _Children:
    """The workers of this nursery, and how those that ended did."""

    def __init__(self) -> None:
        self.alive: set[int] = set()
        self._fates: OrderedDict[int, str] = OrderedDict()

    def reap(self) -> None:
        """Collect workers that have ended, so that none stays a zombie."""
        for pid in list(self.alive):
            self._collect(pid)

    def fate(self, pid: int) -> str:
        """How a worker ended that has just closed its socket; waits a little for its end."""
        given_up = time.monotonic() + _FATE_PATIENCE_S
        while pid in self.alive and time.monotonic() < given_up:
            self._collect(pid)
            time.sleep(0.005)
        return self._fates.pop(pid, "unknown")

    def end(self, pid: int) -> str:
        """Kill a worker, unless it has ended already."""
        if pid in self.alive:
            _kill(pid)
        return "killed"

    def kill(self) -> None:
        """End all of them."""
        for pid in self.alive:
            _kill(pid)

    def _collect(self, pid: int) -> None:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended == 0:
            return
        self.alive.discard(pid)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)  # what it has left running
        code = os.waitstatus_to_exitcode(status)
        self._fates[pid] = f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"
        while len(self._fates) > _FATES_KEPT:
            self._fates.popitem(last=False)


def _kill(worker: int) -> None:
    """End a worker and what it has started."""
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError):
            kill(worker, signal.SIGKILL)


def _reseed() -> None:
    """Workers are forked off one process and must not all draw the same numbers. Python sees to its own generator."""
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.seed()


def _fork_worker(declaration: Declaration, signatures: VerbSignatures, control: socket.socket, fd: int) -> int:
    pid = os.fork()
    if pid:
        os.close(fd)
        return pid
    code = 0
    try:
        control.close()
        os.setsid()  # what the environment starts ends with it
        _reseed()
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # also when the nursery itself is killed
        _worker_main(declaration, signatures, socket.socket(fileno=fd))
    except BaseException:
        log.exception("a worker of %s ends", declaration.name)
        code = 1
    finally:
        os._exit(code)  # a worker never returns into the nursery's code


def _worker_main(declaration: Declaration, signatures: VerbSignatures, connection: socket.socket) -> None:
    """Answer requests until the server closes the socket."""
    worker = _Worker(declaration, signatures)
    with connection, connection.makefile("rb") as requests:
        while head := requests.read(REQUEST_LENGTH.size):
            request = orjson.loads(requests.read(REQUEST_LENGTH.unpack(head)[0]))
            head, body = worker.answer(request)
            sys.stdout.flush()
            connection.sendall(head + body)


class _Worker:
    """One environment in a process of its own."""

    def __init__(self, declaration: Declaration, signatures: VerbSignatures) -> None:
        self._declaration = declaration
        self._signatures = signatures
        self._verbs: Verbs | None = None

    def answer(self, request: dict[str, Any]) -> tuple[bytes, bytes]:
        """The answer's head (its kind, its times, its length) and its body.

        Kinds: a: the episode goes on, d: it is done, t: it is cut short, e: error; a capital where arrays follow.
        """
        try:
            answer = self._call(request)
        except RequestRefused as error:
            body = error_json(error_data(error))
            return ANSWER_HEAD.pack(b"e", 0.0, 0.0, 0, len(body)), body
        kind = b"t" if answer.truncated else b"d" if answer.done else b"a"
        body = answer.data
        if answer.arrays:
            kind, body = kind.upper(), pack(body, answer.arrays)
        return ANSWER_HEAD.pack(kind, answer.environment_s, answer.encode_s, answer.num_steps, len(body)), body

    def _call(self, request: dict[str, Any]) -> Answer:
        verb, data = request["verb"], request.get("data", {})
        if verb == "open":
            self._verbs = verbs_for(self._declaration, self._signatures, LoopThread(), _manner(request["manner"]))
            return Answer(b"")
        assert self._verbs is not None, "open comes first"
        current_episode.set(Episode(*request["episode"]) if request.get("episode") else None)
        if verb == "close":
            self._verbs.close()
            return Answer(b"")
        if verb == "load":
            data = {"snapshot": bytes.fromhex(data["snapshot"])}
        return self._verbs.call(verb, data, request.get("options", {}))


def _manner(said: dict[str, Any]) -> Manner:
    vector = said["vector"]
    return Manner(said["packs_arrays"], None if vector is None else VectorManner(**vector))
