"""Commands of a page that serve until Ctrl-C: each answers at the address that the page names."""

import contextlib
import os
import signal
import socket
import subprocess
import time
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest


class Servers:
    """The servers of a page, by their ports."""

    def __init__(self, folder: Path, variables: dict[str, str]) -> None:
        self._folder, self._variables = folder, variables
        self._running: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, command: str, url: str) -> None:
        """Start one in place of the last one of this port, and wait until it answers."""
        port = urlsplit(url).port or 80
        self._stop(port)
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                pytest.fail(f"another program has port {port}, which the page names: stop it")
        with (self._folder / f"server-{port}.log").open("wb") as log:
            self._running[port] = process = subprocess.Popen(
                ["bash", "-c", command], cwd=self._folder, env=self._variables, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
        until = time.monotonic() + 120
        while not _answers(url):
            if process.poll() or time.monotonic() > until:
                pytest.fail(f"{command}\n{(self._folder / f'server-{port}.log').read_text()}")
            time.sleep(0.1)

    def _stop(self, port: int) -> None:
        if port in self._running:
            process = self._running.pop(port)
            with contextlib.suppress(ProcessLookupError):  # it has failed
                os.killpg(process.pid, signal.SIGTERM)
            process.wait(60)
            until = time.monotonic() + 60
            while _has_members(process.pid) and time.monotonic() < until:
                time.sleep(0.05)
            assert not _has_members(process.pid), f"the server of port {port} does not stop"

    def stop(self) -> None:
        """Stop all."""
        for port in list(self._running):
            self._stop(port)


def _answers(url: str) -> bool:
    with contextlib.suppress(httpx.HTTPError):
        return httpx.get(url, timeout=5, trust_env=False).status_code < 400
    return False


def _has_members(group: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, 0)
        return True
    return False
