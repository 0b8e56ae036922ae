"""What hostile programs must not reach: secrets, sockets, processes and folders of this machine."""

import ctypes
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import Self

from openenv.hosting.sandbox.cgroups import server_group
from openenv.hosting.sandbox.host import DIRECTORY, users_of

SECRET, EXPECTED = "CANARY-SECRET-FILE", "CANARY-EXPECTED"
SECRET_VARIABLE, SECRET_VALUE = "OPENENV_SECRET", "CANARY-ENVIRONMENT"
LEAKS = (b"CANARY", b"root:")
"""Bytes that no output may have: those of secrets, and of /etc/shadow."""
_WATCHED = ("/", "/usr", "/usr/bin", "/etc", "/etc/passwd", "/srv", "/opt")


class _SharedObjects:
    """Shared memory, a semaphore, and queues of messages with a secret, which any user of this machine may use."""

    _CREATE = 0o1666

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._libc.shmat.restype = ctypes.c_void_p
        self._shm = self._libc.shmget(0, 4096, self._CREATE)
        self._address = self._libc.shmat(self._shm, None, 0)
        ctypes.memmove(self._address, SECRET.encode(), len(SECRET))
        self._sem = self._libc.semget(0, 1, self._CREATE)
        self._queue = self._libc.msgget(0, self._CREATE)
        self._libc.msgsnd(self._queue, (1).to_bytes(8, "little") + SECRET.encode(), len(SECRET), 0)
        self._name = f"/bystander-{secrets.token_hex(8)}"
        self._mq = self._libc.mq_open(self._name.encode(), os.O_CREAT | os.O_RDWR, 0o666, None)
        os.fchmod(self._mq, 0o666)
        self._libc.mq_send(self._mq, SECRET.encode(), len(SECRET), 0)
        self.info = {"shm": self._shm, "sem": self._sem, "queue": self._queue, "mq": self._name}

    def harm(self) -> list[str]:
        """What was removed or changed."""
        status = ctypes.create_string_buffer(256)
        found = []
        if ctypes.string_at(self._address, len(SECRET)) != SECRET.encode() or self._libc.shmctl(self._shm, 2, status):
            found.append("shared memory was changed")
        if self._libc.semctl(self._sem, 0, 12, 0) != 0:
            found.append("a semaphore was changed")
        if self._libc.msgctl(self._queue, 2, status) or int.from_bytes(status.raw[80:88], "little") != 1:
            found.append("a queue of messages was changed")
        queued = self._libc.mq_open(self._name.encode(), os.O_RDWR)
        if queued < 0:
            found.append("a queue of messages was removed")
        else:
            os.close(queued)
        return found

    def close(self) -> None:
        self._libc.shmdt(ctypes.c_void_p(self._address))
        self._libc.shmctl(self._shm, 0, None)
        self._libc.semctl(self._sem, 0, 0)
        self._libc.msgctl(self._queue, 0, None)
        self._libc.mq_unlink(self._name.encode())
        os.close(self._mq)


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
        os.setxattr(self._folder / "secret.txt", "user.secret", SECRET.encode())
        (self._folder / "expected.json").write_text(EXPECTED)
        tcp = self._listen("tcp", socket.AF_INET, ("127.0.0.1", 0))
        self._abstract = f"bystander-{secrets.token_hex(8)}"
        self._listen("abstract", socket.AF_UNIX, f"\0{self._abstract}")
        path = str(self._folder / "server.sock")
        self._listen("path", socket.AF_UNIX, path)
        os.chmod(path, 0o777)
        self._process = subprocess.Popen(["sleep", "3600"], user=self._user, group=self._user, start_new_session=True)
        self._shared = _SharedObjects()
        self.info = {
            **self._shared.info,
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
        self._shared.close()
        shutil.rmtree(self._folder)
        del os.environ[SECRET_VARIABLE]

    def harm(self) -> list[str]:
        """What has been reached since the last call."""
        found, self.reached = [f"connected to the {name} socket" for name in self.reached], []
        if self._process.poll() is not None:
            found.append("another process was ended")
        if os.getpriority(os.PRIO_PROCESS, self._process.pid) != os.getpriority(os.PRIO_PROCESS, 0):
            found.append("another process was slowed")
        if changed := self._shared.harm():
            found += changed
            self._shared.close()
            self._shared = _SharedObjects()
            self.info |= self._shared.info
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
