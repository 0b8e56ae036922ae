"""The server of an environment that no person has read, in a sandbox of this machine."""

import codecs
import contextlib
import os
import select
import socket
import stat
import sysconfig
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Literal

from openenv.core.client.providers import RuntimeProvider
from openenv.core.errors import ContainerFault, NotReady
from openenv.core.wire.constants import INHERITED, UNIX
from openenv.hosting.sandbox.box_spec import BoxSpec, Level
from openenv.hosting.sandbox.limits import SandboxLimits
from openenv.hosting.sandbox.python_files import with_python
from openenv.hosting.sandbox.sandbox import Layer, RunningBox, SandboxHost
from openenv.hosting.server_process import wait_until_ready
from openenv.hosting.serving.listeners import open_unix_listener
from openenv.installation import PACKAGE_FOLDER

_OUTPUT_BYTES = 1 << 20
_OUTPUT_IN_ERRORS = 4000  # characters
_CHUNK = 1 << 16
_TOKEN = "OPENENV_TOKEN"
LIMITS = SandboxLimits(
    memory_bytes=2 << 30,
    processes=512,
    cpus=float(os.cpu_count() or 1),
    cpu_seconds=10**9,
    open_files=4096,
    file_bytes=256 << 20,
    session_bytes=256 << 20,
    session_files=50_000,
)
"""What a server may use where no other limits are given."""


class SandboxedServer(RuntimeProvider):
    """Serves an environment in a sandbox, as `openenv serve ENVIRONMENT` does without one.

    This process opens the port; the server can open no other. The server sees the packages of this Python, the
    environment's own folder, and a directory that ends with it. It has none of this process's environment variables
    but OPENENV_TOKEN, and no network. It ends with this process.

    Example:
        with SandboxedServer("./downloaded_env") as server:
            server.wait_for_ready()
            env = GenericEnvClient(base_url=server.base_url)
    """

    def __init__(
        self,
        environment: str,
        args: Sequence[str] = (),
        *,
        limits: SandboxLimits = LIMITS,
        level: Literal["strongest"] | Level = "strongest",
        require: frozenset[Layer] = frozenset(),
        readable: Sequence[str] = (),
        env_vars: Mapping[str, str] | None = None,
        relay: BinaryIO | None = None,
        start_timeout_s: float = 60.0,
    ) -> None:
        """Nothing is started before `start`.

        Args:
            environment: a bundled or installed one, a folder with openenv.yaml, FILE.py:CLASS or MODULE:CLASS.
            args: options of the environment's server, such as `--game chess`, or limits.
            level, require: as SandboxHost has them.
            readable: further paths that the server may read.
            relay: gets a copy of the server's output, in which control characters are escaped: a terminal would obey
                them.

        Raises:
            ContainerFault: for a folder that the server could not read.
        """
        self._environment, own = _environment_files(environment)
        self._args = args
        self._limits = limits
        self._host_settings = (level, require)
        self._readable = (*own, *(os.path.realpath(path) for path in readable))
        self._env_vars = dict(env_vars or {})
        self._relay = relay
        self._start_timeout_s = start_timeout_s
        self._host: SandboxHost | None = None
        self._box: RunningBox | None = None
        self._output: _Output | None = None
        self.base_url = ""

    def start(
        self, port: int | None = None, env_vars: dict[str, str] | None = None, *, host: str = "127.0.0.1", **kwargs: Any
    ) -> str:
        """Start the server without waiting for it, and return its base URL.

        port: None for an unused one. host: the address to listen on, or unix:/path. Raises ContainerFault if the
        server runs already or no such sandbox can be made here, OSError if the address is in use, and
        TypeError for other keywords.
        """
        if kwargs:
            raise TypeError(f"{', '.join(kwargs)}: a sandboxed server takes port, env_vars and host")
        if self._box is not None:
            raise ContainerFault("this provider already runs a server: stop() it first")
        with contextlib.ExitStack() as on_error, open_listener(host, port or 0) as listener:
            on_error.callback(self.stop)
            self._host = SandboxHost(*self._host_settings)
            self._output = _Output(self._relay)
            fds = (listener.fileno(), self._output.input, self._output.input)
            self._box = self._host.start_on(self._spec({**self._env_vars, **(env_vars or {})}), fds)
            self._output.start()
            self.base_url = host if host.startswith(UNIX) else f"http://{host}:{listener.getsockname()[1]}"
            on_error.pop_all()
        return self.base_url

    def wait_for_ready(self, timeout_s: float | None = None) -> None:
        """Wait until the server is healthy. Raises NotReady, with its output, if it ends or takes too long.

        timeout_s: None for `start_timeout_s`.
        """
        if self._box is None:
            raise NotReady("no server runs: start() it first")
        try:
            wait_until_ready(self.base_url, self._start_timeout_s if timeout_s is None else timeout_s, self._ended)
        except NotReady as error:
            raise NotReady(f"{error}\n{_shown(self.output()[-_OUTPUT_IN_ERRORS:])}".rstrip()) from None

    @property
    def layers(self) -> dict[Layer, str]:
        """Each layer of the sandbox: `on`, or `off` with the reason. Raises RuntimeError if no server runs."""
        if self._host is None:
            raise RuntimeError("no server runs: start() it first")
        return self._host.layers

    def output(self) -> str:
        """The last mebibyte of the server's output, including its log."""
        return "" if self._output is None else self._output.text()

    def wait(self) -> str:
        """Wait until the server ends by itself; return why, in words."""
        if self._box is None:
            raise RuntimeError("no server runs: start() it first")
        select.select([self._box.pidfd], [], [])
        return self._box.end().reason

    def stop(self) -> None:
        """End the server at once, with all that it has started. A second call does nothing."""
        host, self._host, self._box = self._host, None, None
        if host is not None:
            host.close()
        if self._output is not None:
            self._output.close()

    def _spec(self, env_vars: Mapping[str, str]) -> BoxSpec:
        folders = {str(PACKAGE_FOLDER.parent), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
        token = {_TOKEN: os.environ[_TOKEN]} if _TOKEN in os.environ else {}
        spec = BoxSpec(
            command=("python", "-m", "openenv.auto", self._environment, "--host", f"{INHERITED}0", *self._args),
            limits=self._limits,
            readable=self._readable,
            packages=tuple(sorted({str(PACKAGE_FOLDER), *folders - {str(PACKAGE_FOLDER.parent)}})),
            environment={"PYTHONPATH": ":".join(sorted(folders)), **token, **env_vars},
        )
        return with_python(spec)

    def _ended(self) -> str | None:
        assert self._box is not None
        if not select.select([self._box.pidfd], [], [], 0)[0]:
            return None
        return f"the sandboxed server of {self._environment} has ended: {self._box.end().reason}"


class _Output(threading.Thread):
    """Keeps the end of what a server writes, and passes it on."""

    def __init__(self, relay: BinaryIO | None) -> None:
        super().__init__(name="server-output", daemon=True)
        self._reading, self.input = os.pipe()
        self._relay = relay
        self._kept = bytearray()

    def start(self) -> None:
        """Begin, once the server has its end of the pipe."""
        os.close(self.input)
        self.input = -1
        super().start()

    def run(self) -> None:
        """Read until the server has ended."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        while chunk := os.read(self._reading, _CHUNK):
            self._kept += chunk
            del self._kept[:-_OUTPUT_BYTES]
            if self._relay is not None:
                self._relay.write(_shown(decoder.decode(chunk)).encode())
                self._relay.flush()

    def text(self) -> str:
        """What is kept."""
        return self._kept.decode(errors="replace")

    def close(self) -> None:
        """Wait for the rest of the output."""
        if self._reading < 0:
            return
        if self.input >= 0:  # nothing was started
            os.close(self.input)
        else:
            self.join()
        os.close(self._reading)
        self._reading = self.input = -1


def open_listener(host: str, port: int) -> socket.socket:
    """A socket that listens on an address, or at unix:/path. Raises OSError."""
    if host.startswith(UNIX):
        return open_unix_listener(host.removeprefix(UNIX))
    return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)


def _refuse_unreadable(folder: Path) -> None:
    """As root, each sandbox has a user of its own. Raises ContainerFault for a folder that only its owner may read."""
    others = stat.S_IROTH | stat.S_IXOTH
    if os.geteuid() == 0 and folder.stat().st_mode & others != others:
        raise ContainerFault(f"{folder} cannot be read by the user of the sandbox: chmod -R o+rX {folder}")


def _environment_files(environment: str) -> tuple[str, tuple[str, ...]]:
    """An environment as `openenv serve` can name it from any directory, and the folder of its files.

    A folder is one of a package where folders above it are, too. Raises ContainerFault for one that cannot be read.
    """
    path, colon, name = environment.rpartition(":") if ".py:" in environment else (environment, "", "")
    if not colon and not Path(path).is_dir():
        return environment, ()
    found = Path(path).resolve()
    folder = found.parent if colon else found
    while (folder.parent / "__init__.py").is_file():
        folder = folder.parent
    _refuse_unreadable(folder)
    return f"{found}{colon}{name}", (str(folder),)


def _shown(text: str) -> str:
    """The text with escapes in place of control characters other than the ends of lines, and tabs."""
    return "".join(
        char if char.isprintable() or char in "\n\t" else char.encode("unicode_escape").decode() for char in text
    )
