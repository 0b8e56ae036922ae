"""The process that starts sandboxes, limits them, and ends them: `python -m openenv.hosting.sandbox.host FD`.

It has one thread, since a sandbox ends with the thread that started it. It reads requests from a socket, each a JSON
object with at most three file descriptors, and ends all sandboxes when the server closes the socket, or is killed.
"""

import contextlib
import ctypes
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from typing import Any

from openenv.formats.json_text import json_text
from openenv.hosting.process_tree import children_of
from openenv.hosting.sandbox import seccomp
from openenv.hosting.sandbox.box import Box, kill_tree, session_of
from openenv.hosting.sandbox.box_spec import (
    OWN_FILE_SYSTEMS,
    SESSION,
    BoxSpec,
    Level,
    bubblewrap_command,
    find_bubblewrap,
    init_command,
)
from openenv.hosting.sandbox.cgroups import (
    Cgroup,
    Hierarchy,
    find_hierarchy,
    remove_group,
    remove_groups_of_ended_servers,
    server_group,
)
from openenv.hosting.sandbox.watch import Watch, checked_layers

MAX_MESSAGE = 1 << 17
_FIRST_UID, _USERS = 1_000_000, 1000
DIRECTORY = "openenv-sandbox-{pid}-"
"""How the names of the directories of a host begin."""
_PR_SET_CHILD_SUBREAPER = 36
_STANDARD_FDS = 3
_END_WAIT_S, _POLL_S = 0.02, 0.0005
"""How long one request waits for processes to end, and how often it looks."""
_CLOSE_TIMEOUT_S = 8.0


def users_of(pid: int) -> range:
    """The users of the sandboxes that a process starts as root: one each, so that they cannot reach one another."""
    return range(_FIRST_UID + pid * _USERS, _FIRST_UID + (pid + 1) * _USERS)


class Host:
    """Starts and ends sandboxes."""

    def __init__(self, hierarchy: Hierarchy) -> None:
        self._hierarchy = hierarchy
        self._group = server_group(os.getpid())
        self._boxes: dict[int, Box] = {}
        self._count = 0
        self._removing: set[int] = set()
        """Processes that remove directories of ended sandboxes."""
        self.watch = Watch(self._boxes, self._orphans_of, self._is_ended)
        self._is_root = os.geteuid() == 0
        self._bubblewrap = find_bubblewrap()
        self._filter = seccomp.deny_filter(
            is_apart=True, is_same_user=not self._is_root, has_memory_group="memory" in hierarchy.folders
        )
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        if hierarchy.roots:
            remove_groups_of_ended_servers(hierarchy)
            Cgroup(hierarchy, self._group).create()

    def start(self, spec: BoxSpec, level: Level, fds: list[int]) -> tuple[int, int]:
        """Start a sandbox with these standard input, output and error; return its number and its first process.

        Raises OSError.
        """
        if spec.directories and level != "namespaces":
            raise OSError(f"directories={spec.directories}: the level {level} has no file systems of its own")
        self._count += 1
        number = self._count
        uid = self._unused_user(number) if self._is_root else None
        cgroup = self._make_cgroup(number, spec)
        directory = None if level == "namespaces" else self._make_directory(uid)
        command = init_command(
            spec, level, directory or SESSION, uid, has_memory_group="memory" in self._hierarchy.folders
        )
        filter_fd = -1
        if level == "namespaces":
            filter_fd = _fd_with(self._filter)
            command = [*bubblewrap_command(str(self._bubblewrap), spec, filter_fd, is_root=self._is_root), *command]
        try:
            pid = _fork_and_execute(command, spec.variables(directory or SESSION), fds, cgroup)
        except (OSError, subprocess.SubprocessError):
            if cgroup is not None:
                cgroup.remove()
            if directory is not None:
                os.rmdir(directory)
            raise
        finally:
            if filter_fd >= 0:
                os.close(filter_fd)
        checks = checked_layers(level, self._hierarchy.folders, is_root=self._is_root)
        file_systems = (*OWN_FILE_SYSTEMS, *spec.directories)
        self._boxes[number] = Box(pid, cgroup, directory, uid, spec.limits, file_systems, checks)
        return number, pid

    def end(self, number: int) -> dict[str, Any]:
        """Kill what still runs in a sandbox and remove it. Returns how its first process ended, and what it used.

        Nothing is returned while processes are still ending, which takes long if they have much memory: the other
        sandboxes do not wait for them, and the next call goes on.
        """
        box = self._boxes[number]
        deadline = time.monotonic() + _END_WAIT_S
        box.poll()
        while not self._is_ended(box):
            if time.monotonic() > deadline:
                return {}
            time.sleep(_POLL_S)
        del self._boxes[number]
        used = box.used()
        if box.cgroup is not None:
            box.cgroup.remove()
        if box.directory is not None:
            self._removing.add(_start_removal(box.directory))
        assert box.status is not None
        return {"exit_code": os.waitstatus_to_exitcode(box.status), **used}

    def used(self, number: int) -> dict[str, int | str]:
        """What a sandbox has used until now."""
        return self._boxes[number].used()

    def close(self) -> None:
        """End all sandboxes."""
        deadline = time.monotonic() + _CLOSE_TIMEOUT_S
        while self._boxes and time.monotonic() < deadline:
            for number in list(self._boxes):
                self.end(number)
        for pid in self._removing:
            os.waitpid(pid, 0)
        if self._hierarchy.roots:
            remove_group(self._hierarchy, self._group)

    def _unused_user(self, number: int) -> int:
        """A user of no other sandbox, unless all have one."""
        users, used = users_of(os.getpid()), {box.uid for box in self._boxes.values()}
        in_turn = (users[(number + place) % len(users)] for place in range(len(users)))
        return next((uid for uid in in_turn if uid not in used), users[number % len(users)])

    def _make_cgroup(self, number: int, spec: BoxSpec) -> Cgroup | None:
        if not self._hierarchy.roots:
            return None
        cgroup = Cgroup(self._hierarchy, f"{self._group}/{number}")
        cgroup.create()
        cgroup.limit(spec.limits.memory_bytes, spec.limits.processes, spec.limits.cpus)
        return cgroup

    def _make_directory(self, uid: int | None) -> str:
        directory = tempfile.mkdtemp(prefix=DIRECTORY.format(pid=os.getpid()))
        if uid is not None:
            os.chown(directory, uid, uid)
        return directory

    def _is_ended(self, box: Box) -> bool:
        """Kill all processes of a sandbox; return whether none is left."""
        if box.cgroup is not None:
            box.cgroup.kill()
        elif box.status is None:
            box.killed |= kill_tree(box.pid)
        if box.status is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(box.pid, signal.SIGKILL)
            box.poll()
        orphans = self._kill_orphans(box)
        if box.cgroup is not None:
            return box.cgroup.is_empty() and box.status is not None
        of_others = {pid for other in self._boxes.values() if other is not box for pid in other.killed}
        box.killed |= orphans - of_others
        return not orphans & box.killed and box.status is not None

    def _kill_orphans(self, box: Box) -> set[int]:
        """Kill processes that have lost their parent, but for those of other sandboxes; return those that still end."""
        others = {other.pid for other in self._boxes.values() if other is not box}
        orphans = {pid for pid in self._orphans() if session_of(pid) not in others}
        for pid in orphans:
            kill_tree(pid)
        return {pid for pid in orphans if not os.waitpid(pid, os.WNOHANG)[0]}

    def _orphans_of(self, box: Box) -> set[int]:
        """Processes of a sandbox that have lost their parent.

        What has left the session of every sandbox is killed: it would be in none of them.
        """
        if box.cgroup is not None:
            return set()
        sessions = {pid: session_of(pid) for pid in self._orphans()}
        of_any = {other.pid for other in self._boxes.values()}
        for pid in sessions:
            if sessions[pid] not in of_any:
                kill_tree(pid)
        return {pid for pid, session in sessions.items() if session == box.pid}

    def _orphans(self) -> set[int]:
        """Processes of sandboxes that have lost their parent and still run."""
        self._removing = {pid for pid in self._removing if not os.waitpid(pid, os.WNOHANG)[0]}
        orphans = children_of(os.getpid()) - {box.pid for box in self._boxes.values()} - self._removing
        return {pid for pid in orphans if not os.waitpid(pid, os.WNOHANG)[0]}


def _fork_and_execute(command: list[str], variables: dict[str, str], fds: list[int], cgroup: Cgroup | None) -> int:
    """Start a program in a group with these standard file descriptors; return its process id. Raises OSError."""

    def prepare() -> None:
        if cgroup is not None:
            cgroup.enter()

    passed = [int(command[command.index("--seccomp") + 1])] if "--seccomp" in command else []
    process = subprocess.Popen(
        command,
        stdin=fds[0],
        stdout=fds[1],
        stderr=fds[2],
        env=variables,
        pass_fds=passed,
        preexec_fn=prepare,
        start_new_session=True,
        cwd="/",
    )
    process.returncode = 0  # it is waited for by its id
    return process.pid


def _fd_with(content: bytes) -> int:
    """A file descriptor from which the content can be read."""
    reading, writing = os.pipe()
    os.write(writing, content)
    os.close(writing)
    return reading


def _start_removal(directory: str) -> int:
    """Start a process that removes a tree of any depth, also one whose owner may not read it; return its id.

    Programs can make trees that take seconds to remove.
    """
    script = 'rm -rf -- "$1" 2>/dev/null || { chmod -R u+rwX -- "$1"; rm -rf -- "$1"; }'
    process = subprocess.Popen(["/bin/sh", "-c", script, "sh", directory], start_new_session=True)
    process.returncode = 0  # it is waited for by its id
    return process.pid


def main() -> None:
    """Answer requests until the server closes its end."""
    control = socket.socket(fileno=int(sys.argv[1]))
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)  # they are the server's, which closes the socket
    host = Host(find_hierarchy())
    control.send(b"{}")
    try:
        while True:
            if select.select([control], [], [], host.watch.wait_s())[0]:
                message, fds, _, _ = socket.recv_fds(control, MAX_MESSAGE, _STANDARD_FDS)
                if not message:
                    return
                response, handed = _answer(host, json.loads(message), fds)
                socket.send_fds(control, [json_text(response).encode()], handed)
                for fd in (*fds, *handed):
                    os.close(fd)
            host.watch.step()
    finally:
        host.close()


def _answer(host: Host, request: dict[str, Any], fds: list[int]) -> tuple[dict[str, Any], list[int]]:
    """The response to a request, and a file descriptor of the process that was started."""
    try:
        if "end" in request:
            return host.end(request["end"]), []
        if "used" in request:
            return dict(host.used(request["used"])), []
        number, pid = host.start(BoxSpec.from_json(request["start"]), request["level"], fds)
        return {"number": number}, [os.pidfd_open(pid)]
    except (OSError, subprocess.SubprocessError) as error:
        return {"error": f"{type(error).__name__}: {error}"}, []
    except KeyError:
        return {"error": "this sandbox has ended before"}, []


if __name__ == "__main__":
    main()
