"""The sockets on which a server listens, and the line that says where that is."""

import contextlib
import errno
import logging
import os
import socket
import stat
import sys
from collections.abc import Container
from typing import Any

from openenv.core.env_server.config import ServerConfig
from openenv.core.env_server.runner.env_spec import TITLE_END
from openenv.core.utils import is_loopback
from openenv.core.wire.constants import INHERITED, UNIX

log = logging.getLogger(__name__)

_BACKLOG = 2048
_HOST_REMEDY = "Give an address of this machine, such as 127.0.0.1"


def open_listeners(host: str, port: int) -> list[socket.socket]:
    """Sockets that listen on every address of `host`. Port 0 takes a free one. Raises OSError with the address,
    ValueError for a number that is no port."""
    if not 0 <= port <= 65535:  # the system would take the number's last 16 bits
        raise ValueError(f"port={port}: give 1 to 65535, or 0 for a free one")
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise OSError(f"cannot listen on {host}:{port}: {reason}. {_HOST_REMEDY}") from None
    opened: list[socket.socket] = []
    try:
        for family, _, _, _, address in dict.fromkeys(addresses):
            opened.append(_open_listener(family, address))
    except OSError as error:
        for listener in opened:
            listener.close()
        remedy = _HOST_REMEDY if error.errno == errno.EADDRNOTAVAIL else "Give another port"
        raise OSError(error.errno, f"cannot listen on {host}:{port}: {error.strerror}. {remedy}") from None
    return opened


def open_unix_listener(path: str) -> socket.socket:
    """A socket that listens at a path, in place of one that an earlier server has left there. Raises OSError.

    It is open to those that could replace it: its user, and the group or all where they may write in its folder.
    """
    listener = socket.socket(socket.AF_UNIX)
    try:
        with contextlib.suppress(FileNotFoundError):
            if stat.S_ISSOCK(os.lstat(path).st_mode):
                os.unlink(path)
        folder = os.stat(os.path.dirname(path) or ".").st_mode
        shared = 0 if folder & stat.S_ISVTX else folder & (stat.S_IWGRP | stat.S_IWOTH)
        before = os.umask(0o177 & ~(shared | shared << 1))  # not chmod, which a link in place of the socket misleads
        try:
            listener.bind(path)
        finally:
            os.umask(before)
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise OSError(error.errno, f"cannot listen on {UNIX}{path}: {error.strerror}. Give another path") from None
    return listener


def enable_keepalive(listener: socket.socket) -> None:
    """Let the kernel probe the connections that `listener` accepts, and break those whose client has vanished.

    The first probe follows a minute of silence; four that are not answered, 15 s apart, break the connection.
    """
    if listener.family not in (socket.AF_INET, socket.AF_INET6):
        return
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4)):
        if hasattr(socket, option):  # Linux
            listener.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


def warn_if_exposed(host: str, config: ServerConfig) -> None:
    """Log a warning when the server listens for other machines without a token.

    Of a socket that a server inherits, the program that has opened it warns.
    """
    if not host.startswith((UNIX, INHERITED)) and not is_loopback(host) and config.token is None:
        log.warning(
            "LISTENING ON %s WITHOUT A TOKEN: every machine that reaches this address can use its sessions. Give "
            "ServerConfig(token=...) (the servers of bundled environments read OPENENV_TOKEN), or listen on 127.0.0.1.",
            host,
        )


_PAGES = {"/web": "page", "/docs": "documentation"}


def announce_app(app: Any, host: str, port: int) -> None:
    """`announce` an application of this process, by its title."""
    paths = {getattr(route, "path", None) for route in getattr(app, "routes", ())}
    announce(getattr(app, "title", "the application").removesuffix(TITLE_END), host, port, paths)


def announce(name: str, host: str, port: int, paths: Container[str | None] = _PAGES) -> None:
    """Write to stderr where an environment is served, and which of the pages at `paths` it has.

    Nothing for an inherited socket, whose opener knows it.
    """
    if host.startswith(INHERITED):
        return
    shown = ", ".join(f"{page} at {path}" for path, page in _PAGES.items() if path in paths)
    address = f"[{host}]" if ":" in host else host
    where = host if host.startswith(UNIX) else f"http://{address}:{port}"
    sys.stderr.write(f"serving {name} at {where}{f' ({shown})' if shown else ''}; stop it with Ctrl-C\n")
    sys.stderr.flush()


def _open_listener(family: int, address: object) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind(address)  # type: ignore[arg-type]
        enable_keepalive(listener)
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener
