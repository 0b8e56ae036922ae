"""A Unix socket beside a server's port: the way to it for clients of the same user on the same machine.

A message through it costs a good part less than through TCP. Both ends know its path: a folder that nobody else can
enter, and a name made of the network namespace, the address and the port. Who finds nobody there uses the port.
A second socket, whose name says so, takes trunks: many connections in one.
"""

import errno
import functools
import logging
import os
import socket
import stat
import tempfile
from pathlib import Path

log = logging.getLogger(__name__)

LOCAL = ("127.0.0.1", 0)
"""The address of whoever comes this way, as far as anybody asks."""
BACKLOG = 2048
_LONGEST_PATH = 100
_SUFFIX = ".sock"
_TRUNKS = "-trunk-2"
"""In the name of a socket for trunks. The number goes up when packets change, so that versions pass each other by."""
_CLIENTS_ADDRESSES = {"localhost": ("::1", "127.0.0.1"), "127.0.0.1": ("127.0.0.1",), "::1": ("::1",)}
"""Addresses of the server that a client may mean by a host."""
_SERVERS_ADDRESSES = {"127.0.0.1": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::1": "::1", "::": "::1"}
"""The address by which clients of this machine know a server that listens on another."""


def may_be_beside(host: str) -> bool:
    """Whether a server that a client calls so may listen beside its port."""
    return host in _CLIENTS_ADDRESSES


def connected_beside(host: str, port: int) -> socket.socket | None:
    """A connection, not blocking, to the server of that port; None where it has no such socket, or none for us."""
    for path in _paths(host, port, for_trunks=False):
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        if connection.connect_ex(path) == 0:
            return connection
        connection.close()
    return None


def trunk_path(host: str, port: int) -> str | None:
    """Where the server of that port takes many connections in one; None where it does not, or not for us."""
    return next(filter(os.path.exists, _paths(host, port, for_trunks=True)), None)


def _paths(host: str, port: int, *, for_trunks: bool) -> list[str]:
    """Where a server may be that a client knows by that host and port."""
    addresses, folder = _CLIENTS_ADDRESSES.get(host, ()), _folder()
    if not addresses or folder is None or not _is_private(folder):
        return []
    return [_path(folder, address, port, for_trunks=for_trunks) for address in addresses]


class LocalListener:
    """The Unix socket beside one listening socket, for as long as the server runs."""

    def __init__(self, listening: socket.socket, path: str, address: tuple[str, int]) -> None:
        """address: the one beside which it is."""
        self.socket = listening
        self.address = address
        self._path = path

    @classmethod
    def beside(cls, listener: socket.socket, *, for_trunks: bool = False) -> "LocalListener | None":
        """Listen beside a socket that does. None where no client would look, or where that cannot be: it is only a
        shorter way. for_trunks: for many connections in one."""
        if listener.family not in (socket.AF_INET, socket.AF_INET6):
            return None
        host, port = listener.getsockname()[:2]
        address, folder = _SERVERS_ADDRESSES.get(host), _folder()
        if address is None or folder is None:
            return None
        path = _path(folder, address, port, for_trunks=for_trunks)
        try:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            if not _is_private(folder):
                raise PermissionError(errno.EPERM, "others may enter it", folder)
            return cls(_listening(path), path, (address, port))
        except OSError as error:
            log.info("clients of this machine use the port: no socket at %s (%s)", path, error)
            return None

    def hide(self) -> None:
        """Let no client find the way here any more. Before the port is free: it may have a successor then."""
        Path(self._path).unlink(missing_ok=True)

    def remove(self) -> None:
        """Stop listening, and leave nothing behind."""
        self.hide()
        self.socket.close()


def _listening(path: str) -> socket.socket:
    """Raises OSError where somebody listens already."""
    for left in Path(path).parent.glob(f"{_namespace()}-*{_SUFFIX}*"):
        if _is_deserted(left):
            left.unlink(missing_ok=True)  # by a server that was killed
    if Path(path).exists():
        raise FileExistsError(errno.EADDRINUSE, "another server listens there", path)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    begun = f"{path}.{os.getpid()}"
    try:
        listening.bind(begun)
        listening.listen(BACKLOG)
        os.rename(begun, path)  # whatever has such a name is listening
    except BaseException:
        listening.close()
        Path(begun).unlink(missing_ok=True)
        raise
    return listening


def _is_deserted(path: Path) -> bool:
    """Whether nobody listens there, nor is about to: until then a socket's name ends with its process's number."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as connection:
        if connection.connect_ex(str(path)) != errno.ECONNREFUSED:
            return False
    number = path.suffix.removeprefix(".")
    return path.suffix == _SUFFIX or (number.isdecimal() and not _is_running(int(number)))


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # another user's
        pass
    return True


def _folder() -> str | None:
    """The user's own; None on systems without users or Unix sockets."""
    if not (hasattr(os, "getuid") and hasattr(socket, "SOCK_NONBLOCK")):
        return None
    folder = f"{tempfile.gettempdir()}/openenv-{os.getuid()}"
    return folder if len(folder) < _LONGEST_PATH - len("/4026531840-127.0.0.1-65535-trunk-2.sock.4194304") else None


def _is_private(folder: str) -> bool:
    """Whether it is a folder of this user that no other may enter."""
    try:
        status = os.lstat(folder)
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077


def _path(folder: str, address: str, port: int, *, for_trunks: bool) -> str:
    return f"{folder}/{_namespace()}-{address}-{port}{_TRUNKS if for_trunks else ''}{_SUFFIX}"


@functools.cache
def _namespace() -> int:
    """This process's network namespace: in another the same address and port are another server's."""
    try:
        return os.stat("/proc/self/ns/net").st_ino
    except OSError:  # a system that has none
        return 0
