"""Whether a server can be reached from other machines, and a warning when anybody there may use it."""

import logging

from openenv.core.env_server.config import ServerConfig
from openenv.core.protocol import UNIX

log = logging.getLogger(__name__)


def is_loopback(host: str) -> bool:
    """Whether an address is this machine alone."""
    return host in ("localhost", "::1") or host.startswith("127.")


def warn_if_exposed(host: str, config: ServerConfig) -> None:
    """Say loudly that anybody may come in, when that is so."""
    if not host.startswith(UNIX) and not is_loopback(host) and config.token is None:
        log.warning(
            "LISTENING ON %s WITHOUT A TOKEN: anybody who can reach this machine can use its sessions. Give "
            "ServerConfig(token=...) (the servers of bundled environments read OPENENV_TOKEN), or listen on 127.0.0.1.",
            host,
        )
