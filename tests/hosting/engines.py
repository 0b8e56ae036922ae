"""A Docker engine for tests, and images of this Python with this package: no registry is asked.

The engine is the one that answers at DOCKER_HOST; else root starts one whose data are in a temporary folder.
"""

import contextlib
import fcntl
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest
from docker.errors import DockerException, ImageNotFound

import openenv
from openenv.hosting.sandbox.box_spec import BoxSpec
from openenv.hosting.sandbox.python_files import with_python
from tests.core.env_server.probes import is_running, wait_until

SERVERS = {
    "echo-env": ["openenv.envs.echo_env.server.app"],
    "openspiel-env": ["openenv.envs.openspiel_env.server.app", "--game", "catch"],
    "coding-env": ["openenv.envs.coding_env.server.app"],
}
"""The server of each image, and its arguments."""
_PROGRAMS = ("/bin/sh", "/usr/bin/env", "/usr/bin/sleep", "/usr/bin/cat", "/usr/bin/id", "/usr/bin/touch")
_PROGRAMS += ("/usr/bin/chmod", "/usr/bin/rm", "/usr/bin/find")  # with which sandboxes empty their folders
_NAME = "openenv-engine-{}"
_LEFT_OUT = ("test", "site-packages", "idlelib", "turtledemo", "ensurepip")


def answering() -> Any:
    """A client of the engine at DOCKER_HOST; None if none answers."""
    with contextlib.suppress(DockerException):
        client = docker.from_env()
        if client.ping():
            return client
    return None


@contextlib.contextmanager
def engine_of_this_run(run: str) -> Iterator[Any]:
    """A client of an engine with the images of SERVERS. Skips the test, with the reason, where there is none.

    run: an id of the run of tests, whose processes share an engine that has to be started. DOCKER_HOST names it
    meanwhile.
    """
    if (client := answering()) is not None:
        with contextlib.closing(client):
            make_images(client)
            yield client
        return
    if shutil.which("dockerd") is None or os.geteuid() != 0:
        pytest.skip("no Docker engine answers at DOCKER_HOST, and only root with dockerd can start one")
    for left in Path(tempfile.gettempdir()).glob(_NAME.format("*/d.pid")):
        _stop_unused(left.parent)
    folder = Path(tempfile.gettempdir(), _NAME.format(run))
    with _in_use(folder), pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOCKER_HOST", f"unix://{folder}/d.sock")
        with (folder / "start").open("w") as start:
            fcntl.flock(start, fcntl.LOCK_EX)
            if (client := answering()) is None:
                client = _start_engine(folder)
                make_images(client)
        with contextlib.closing(client):
            yield client


@contextlib.contextmanager
def _in_use(folder: Path) -> Iterator[None]:
    """A folder with a lock that each process which uses its engine shares; the last one stops the engine."""
    while True:
        folder.mkdir(exist_ok=True)
        users = (folder / "users").open("w")
        fcntl.flock(users, fcntl.LOCK_SH)
        if os.fstat(users.fileno()).st_nlink:  # else the last process has removed it meanwhile
            break
        users.close()
    try:
        with users:
            yield
    finally:
        _stop_unused(folder)


def is_own(client: Any) -> bool:
    """Whether tests have started this engine."""
    return _NAME.format("") in client.info()["DockerRootDir"]


def _start_engine(folder: Path) -> Any:
    """Start an engine that changes nothing of the machine's network but a bridge of its own."""
    bridge = _bridge(folder)
    number = next(n for n in range(240, 255) if f"172.31.{n}." not in _ip("addr"))
    _ip("link", "add", "name", bridge, "type", "bridge")
    _ip("addr", "add", f"172.31.{number}.1/24", "dev", bridge)
    _ip("link", "set", bridge, "up")
    command = ["dockerd", "-H", f"unix://{folder}/d.sock", "--data-root", f"{folder}/data", "-p", f"{folder}/d.pid"]
    command += ["--exec-root", f"{folder}/exec", "--bridge", bridge, "--iptables=false", "--ip-forward=false"]
    command += ["--ip-masq=false", "--config-file", f"{folder}/daemon.json"]
    (folder / "daemon.json").write_text(json.dumps({"runtimes": _runtimes()}))
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    wait_until(lambda: process.poll() is not None or answering() is not None, timeout_s=60)
    if process.poll() is not None:
        pytest.skip(f"dockerd does not start: {(folder / 'log').read_text()[-500:]}")
    return answering()


def _stop_unused(folder: Path) -> None:
    """Stop the engine of a folder unless a process uses it, as none does after a run of tests that was killed."""
    with (folder / "users").open("w") as users, contextlib.suppress(BlockingIOError):
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
        pid = int((folder / "d.pid").read_text() or 0) if (folder / "d.pid").exists() else 0
        if is_running(pid) and str(folder) in Path(f"/proc/{pid}/cmdline").read_text():
            os.kill(pid, signal.SIGTERM)
            wait_until(lambda: not is_running(pid), timeout_s=60)
        if _bridge(folder) in _ip("link"):
            _ip("link", "del", _bridge(folder))
        shutil.rmtree(folder, ignore_errors=True)


def _bridge(folder: Path) -> str:
    return f"oe{zlib.crc32(folder.name.encode()):08x}"


def _ip(*arguments: str) -> str:
    return subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True).stdout


def _runtimes() -> dict[str, Any]:
    """Runtimes that are called so that they do not enforce what a test asks for. None of them is run."""
    return {
        "loose": {"path": "runc", "runtimeArgs": ["--ignore-cgroups"]},
        "runsc": {"path": "runsc", "runtimeArgs": ["--network=none"]},
    }


def make_images(client: Any) -> None:
    """Make the images of SERVERS with the package as it is now."""
    spec = with_python(BoxSpec(command=("python",)), ["openenv-rl", "open_spiel", "numpy"])
    packages = [Path(entry) for entry in spec.packages if not Path(entry).name.startswith(("scipy", "_editable"))]
    base = f"openenv-test-base:{zlib.crc32(repr((sys.version, sorted(packages), _PROGRAMS)).encode()):08x}"
    try:
        client.images.get(base)
    except ImageNotFound:
        _import_base(client, base, packages)
    for name, module in SERVERS.items():
        _build(client, name, base, ["python3", "-m", *module, "--host", "0.0.0.0", "--port", "8000"])


def _import_base(client: Any, name: str, packages: list[Path]) -> None:
    """Make an image of this Python with packages."""
    environment = f"ENV PYTHONPATH=/app PATH={Path(sys.executable).resolve().parent}:/usr/bin:/bin"
    repository, tag = name.split(":")
    with tempfile.NamedTemporaryFile(suffix=".tar") as file:
        write_base(Path(file.name), packages)
        client.api.import_image_from_file(file.name, repository=repository, tag=tag, changes=[environment])


def _build(client: Any, name: str, base: str, command: list[str]) -> None:
    """Make an image of a base image with this package, whose command is a server."""
    words = ", ".join(f'"{word}"' for word in command)
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w") as tar:
        writer = _Writer(tar)
        writer.add_text("Dockerfile", f"FROM {base}\nWORKDIR /app\nCOPY openenv openenv\nCMD [{words}]\n")
        writer.add_tree(Path(openenv.__file__).parent, Path("/openenv"))
    context.seek(0)
    client.images.build(fileobj=context, custom_context=True, tag=name, rm=True)


def write_base(path: Path, packages: list[Path]) -> None:
    """Write the files of an image: this Python, packages, and a few programs, with what they are linked to."""
    prefix, python = Path(sys.base_prefix), Path(sys.executable).resolve()
    standard_library = Path(sysconfig.get_path("stdlib"))
    libraries = [*standard_library.glob("lib-dynload/*.so"), *_libraries(packages)]
    programs = [python, *prefix.glob("bin/python3*"), *prefix.glob("lib/libpython3*"), *map(Path, _PROGRAMS)]
    with tarfile.open(path, "w") as tar:
        writer = _Writer(tar)
        for file in (*map(Path, ("/lib", "/lib64", "/bin")), *programs, *_linked([*programs, *libraries])):
            writer.add(file)
        writer.add_tree(standard_library, standard_library, _LEFT_OUT)
        for package in packages:
            writer.add_tree(package, Path("/app") / package.name)
        writer.add_text("etc/passwd", "root:x:0:0::/root:/bin/sh\nsandbox:x:1000:1000::/tmp:/bin/sh\n")
        for folder, mode in (("tmp", 0o1777), ("proc", 0o555), ("dev", 0o755), ("run", 0o755)):
            writer.add_folder(folder, mode)


class _Writer:
    """Adds each file once: a second entry of the same name would be a link to itself."""

    def __init__(self, tar: tarfile.TarFile) -> None:
        self._tar = tar
        self._seen: set[str] = set()

    def add(self, path: Path, name: Path | None = None) -> None:
        """Add a file, or a link with the file that it leads to."""
        path = path.parent.resolve() / path.name
        name = name or path
        if str(name) in self._seen:
            return
        self._seen.add(str(name))
        self._tar.add(path, str(name).lstrip("/"), recursive=False)
        if path.is_symlink():
            self.add(path.parent / os.readlink(path))

    def add_tree(self, folder: Path, name: Path, left_out: tuple[str, ...] = ()) -> None:
        """Add a file, or the files of a folder but those in folders of these names."""
        if folder.is_file():
            self.add(folder, name)
            return
        for root, folders, files in os.walk(folder):
            folders[:] = [each for each in folders if each not in left_out]
            for file in files:
                self.add(Path(root, file), name / Path(root, file).relative_to(folder))

    def add_text(self, name: str, text: str) -> None:
        """Add a file with this text."""
        entry = tarfile.TarInfo(name)
        entry.size = len(text)
        self._tar.addfile(entry, io.BytesIO(text.encode()))

    def add_folder(self, name: str, mode: int) -> None:
        """Add an empty folder."""
        entry = tarfile.TarInfo(name)
        entry.type, entry.mode = tarfile.DIRTYPE, mode
        self._tar.addfile(entry)


def _libraries(packages: list[Path]) -> Iterator[Path]:
    for package in packages:
        yield from package.rglob("*.so*") if package.is_dir() else [package] * package.name.endswith(".so")


def _linked(programs: list[Path]) -> set[Path]:
    """The shared libraries of the system that these programs and libraries need."""
    found: set[Path] = set()
    for program in programs:
        output = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
        found |= {Path(match) for match in re.findall(r"(?:=> |^\s+)(/(?:usr/)?lib\S*) \(0x", output, re.MULTILINE)}
    return found
