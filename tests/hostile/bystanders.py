"""What hostile programs must not reach: secrets, sockets, processes and folders of this machine."""

import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import Self

from openenv.core.sandbox.cgroups import server_group
from openenv.core.sandbox.host import DIRECTORY, users_of

SECRET, EXPECTED = "CANARY-SECRET-FILE", "CANARY-EXPECTED"
SECRET_VARIABLE, SECRET_VALUE = "OPENENV_SECRET", "CANARY-ENVIRONMENT"
LEAKS = (b"CANARY", b"root:")
"""Bytes that no output may have: those of secrets, and of /etc/shadow."""
_WATCHED = ("/", "/usr", "/usr/bin", "/etc", "/etc/passwd", "/srv", "/opt")


class Bystanders:
    """A folder of secrets, listening sockets, and a process that runs as the user of the sandboxes of this server."""

    def __init__(self, user: int | None) -> None:
        """user: of the process; None: this one."""
        self._folder = Path(tempfile.mkdtemp(prefix="bystanders-"))
        self._folder.chmod(0o755)
        self._sockets: list[socket.socket] = []
        self._user = user
        self.reached: list[str] = []
        """Sockets that something has connected to, or written to."""

    def __enter__(self) -> Self:
        os.environ[SECRET_VARIABLE] = SECRET_VALUE
        (self._folder / "secret.txt").write_text(SECRET)
        (self._folder / "expected.json").write_text(EXPECTED)
        tcp = self._listen("tcp", socket.AF_INET, ("127.0.0.1", 0))
        self._abstract = f"bystander-{secrets.token_hex(8)}"
        self._listen("abstract", socket.AF_UNIX, f"\0{self._abstract}")
        path = str(self._folder / "server.sock")
        self._listen("path", socket.AF_UNIX, path)
        os.chmod(path, 0o777)
        self._process = subprocess.Popen(["sleep", "3600"], user=self._user, group=self._user, start_new_session=True)
        self.info = {
            "secret": str(self._folder / "secret.txt"),
            "expected": str(self._folder / "expected.json"),
            "port": tcp.getsockname()[1],
            "abstract": self._abstract,
            "unix": path,
            "server_pid": os.getpid(),
            "victim_pid": self._process.pid,
        }
        self._before = self._folders()
        return self

    def __exit__(self, *_: object) -> None:
        for listener in self._sockets:
            listener.close()
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._folder)
        del os.environ[SECRET_VARIABLE]

    def harm(self) -> list[str]:
        """What has been reached since the last call."""
        found, self.reached = [f"connected to the {name} socket" for name in self.reached], []
        if self._process.poll() is not None:
            found.append("another process was ended")
        if os.getpriority(os.PRIO_PROCESS, self._process.pid) != os.getpriority(os.PRIO_PROCESS, 0):
            found.append("another process was slowed")
        now = self._folders()
        found += [f"{path} was changed" for path, changed in now.items() if changed != self._before[path]]
        self._before = now
        return found

    def _listen(self, name: str, family: int, address: object) -> socket.socket:
        listener = socket.socket(family)
        listener.bind(address)  # type: ignore[arg-type]
        listener.listen()
        self._sockets.append(listener)
        threading.Thread(target=self._accept, args=(name, listener), daemon=True).start()
        return listener

    def _accept(self, name: str, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            self.reached.append(name)
            connection.close()

    def _folders(self) -> dict[str, tuple[int, ...]]:
        """What any change of the content, mode, owner or times of a watched path would change."""
        paths = [*_WATCHED, str(self._folder), *map(str, self._folder.iterdir())]
        found = {path: os.stat(path) for path in paths if os.path.exists(path)}
        return {path: (stat.st_mtime_ns, stat.st_ctime_ns, stat.st_mode, stat.st_size) for path, stat in found.items()}


def left_of(pid: int) -> list[str]:
    """The processes, directories and control groups of sandboxes that a process has started, as root."""
    found = [str(path) for path in Path(tempfile.gettempdir()).glob(f"{DIRECTORY.format(pid=pid)}*")]
    found += [str(path) for path in Path("/sys/fs/cgroup").glob(f"*/{server_group(pid)}/*/")]
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if folder.stat().st_uid in users_of(pid) and (folder / "cmdline").read_bytes():
                found.append(f"process {folder.name}")
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found
