"""How often one address may give a wrong token to the login page."""

import ipaddress
import logging
import math
import time
from collections.abc import Callable

log = logging.getLogger(__name__)

MAX_FAILED = 10
"""Wrong tokens of one address within the window."""
WINDOW_S = 60.0
_MAX_ADDRESSES = 1024
"""Addresses that are remembered; beyond it the one that failed first is forgotten."""
_IPV6_PREFIX = 64
"""Bits of an IPv6 address that name a network: the rest is its owner's choice."""


class LoginLimit:
    """Counts wrong tokens by address, and refuses an address with too many for the rest of a minute."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failed: dict[str, tuple[float, int]] = {}
        """The end of the window and the number of wrong tokens, by network, oldest first."""

    def wait_s(self, address: str) -> int:
        """Whole seconds until the address may try again; 0: it may now."""
        ends_at, count = self._failed.get(_network(address), (0.0, 0))
        return math.ceil(max(0.0, ends_at - self._clock())) if count >= MAX_FAILED else 0

    def count_failed(self, address: str) -> None:
        """Count and log a wrong token."""
        network, now = _network(address), self._clock()
        ends_at, count = self._failed.get(network, (0.0, 0))
        if ends_at <= now:
            self._failed.pop(network, None)
            ends_at, count = now + WINDOW_S, 0
        self._failed[network] = (ends_at, count + 1)
        if len(self._failed) > _MAX_ADDRESSES:
            del self._failed[next(iter(self._failed))]
        log.warning("wrong token at the login page: address=%s number=%d in %.0f s", network, count + 1, WINDOW_S)


def _network(address: str) -> str:
    try:
        found = ipaddress.ip_address(address)
    except ValueError:  # a Unix socket has no address
        return address or "local socket"
    if found.version == 4:
        return address
    return str(ipaddress.ip_network((int(found), _IPV6_PREFIX), strict=False))
