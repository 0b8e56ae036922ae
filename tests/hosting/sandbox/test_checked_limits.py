"""Limits of a whole sandbox where no control group may be made: as an ordinary user, which root becomes for these."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from openenv.core.errors import ContainerFault
from openenv.hosting.sandbox.box_spec import BoxSpec
from openenv.hosting.sandbox.limits import SandboxLimits
from openenv.hosting.sandbox.program import run_program
from openenv.hosting.sandbox.python_files import with_python
from openenv.hosting.sandbox.sandbox import SandboxHost
from tests.hosting.sandbox.test_sandbox import make_host

pytestmark = [
    pytest.mark.process,
    pytest.mark.finding("limits of a sandbox hold for the session, also without a control group"),
]

_AS_USER = str(Path(__file__).parents[2] / "hostile" / "as_user.sh")
_WAIT = "import mmap, os, time\n{}\nprint('DONE', flush=True)\ntime.sleep(20)"
IN_SUM = _WAIT.format("for _ in range(3): os.fork()\nx = b'x' * (40 << 20)")
SHARED = _WAIT.format("for _ in range(3): os.fork()\nx = mmap.mmap(-1, 40 << 20)\nx.write(b'x' * (40 << 20))")
NOT_RESIDENT = SHARED.replace("print", "x.madvise(mmap.MADV_DONTNEED)\nprint")
OF_AN_ORPHAN = _WAIT.format(
    "for _ in range(2):\n  if os.fork() == 0:\n    if os.fork(): os._exit(0)\n    break\nx = b'x' * (90 << 20)"
)
MEMFD = """
import os
os.fork()
try:
    while True: os.write(os.memfd_create('x'), bytes(20 << 20))
except OSError as error: print(error.strerror, flush=True)
os.wait()
"""
IN_DIRECTORIES = _WAIT.format(
    "for path in ('/session', '/tmp', '/app', '/data'): open(f'{path}/f', 'wb').write(bytes(30 << 20)),"
    " open(f'{path}/g', 'wb').write(bytes(30 << 20))"
)
FORKS = "import os, time\nwhile True:\n  try: os.fork() or time.sleep(20)\n  except OSError: time.sleep(20)"
FORKS_WITHOUT_END = "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass"
SESSIONS_WITHOUT_END = "import os\nwhile True:\n  try: os.fork() or os.setsid()\n  except OSError: pass"
THREADS = _WAIT.format(
    "import threading\nthreading.stack_size(65536)\n"
    "for _ in range(30): threading.Thread(target=time.sleep, args=(20,)).start()"
)
FILES = _WAIT.format("for n in range(30000): open(f'{n}', 'w').close()")
LARGE_FILES = _WAIT.format("for n in range(20): open(f'{n}', 'wb').write(bytes(20 << 20))")
DELETED_FILES = _WAIT.format(
    "held = []\nfor _ in range(20):\n  held.append(open('f', 'wb', 0))\n"
    "  held[-1].write(bytes(20 << 20))\n  os.unlink('f')"
)
HIDDEN_FILES = _WAIT.format("os.mkdir('h', 0o300)\nfor n in range(1000): open(f'h/{n}', 'w').close()")


def run_as_user(level: str, program: str) -> dict[str, Any]:
    """What `beside.py` prints as an ordinary user. Skips where there is no such sandbox."""
    command = [*(["sh", _AS_USER] if os.geteuid() == 0 else []), sys.executable, "-m", "tests.hosting.sandbox.beside"]
    ran = subprocess.run([*command, level], input=program, capture_output=True, text=True, timeout=60, check=False)
    if "no sandbox can be made here" in ran.stderr or "unshare failed" in ran.stderr:
        pytest.skip(ran.stderr.splitlines()[-1])
    assert ran.returncode == 0, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


@pytest.mark.parametrize(
    ("level", "program", "reason"),
    [
        ("namespaces", IN_SUM, "out of memory"),
        ("namespaces", NOT_RESIDENT, "out of memory"),
        ("namespaces", IN_DIRECTORIES, "out of memory"),
        ("landlock", IN_SUM, "out of memory"),
        ("landlock", SHARED, "out of memory"),
        ("landlock", OF_AN_ORPHAN, "out of memory"),
        ("landlock", FORKS, "too many processes"),
        ("landlock", FORKS_WITHOUT_END, "too many processes"),
        ("landlock", SESSIONS_WITHOUT_END, "too many processes"),
        ("landlock", THREADS, "too many processes"),
        ("landlock", FILES, "too many files"),
        ("landlock", LARGE_FILES, "out of space for files"),
        ("landlock", DELETED_FILES, "out of space for files"),
        ("landlock", HIDDEN_FILES, "files that cannot be counted"),
    ],
    ids=[
        "memory of processes",
        "shared memory that is not resident",
        "files in directories of the root",
        "memory of processes on landlock",
        "shared memory",
        "memory of orphans",
        "processes",
        "processes without end",
        "sessions without end",
        "threads",
        "files",
        "large files",
        "deleted files",
        "hidden files",
    ],
)
def test_a_sandbox_over_a_limit_ends_with_the_reason_and_others_go_on(level: str, program: str, reason: str) -> None:
    found = run_as_user(level, program)

    assert found["reason"] == reason
    assert found["neighbour"] == "started"


@pytest.mark.parametrize("level", ["namespaces", "landlock"])
def test_memory_without_a_name_that_no_limit_counts_cannot_be_made(level: str) -> None:
    found = run_as_user(level, MEMFD)

    assert found["stdout"] == "Function not implemented\n" * 2


@pytest.mark.parametrize("level", ["namespaces", "landlock"])
def test_memory_that_processes_share_counts_once(level: str) -> None:
    shared = "import os, time\nx = b'x' * (100 << 20)\nfor _ in range(3): os.fork()\ntime.sleep(2)"

    assert run_as_user(level, shared)["reason"] == "exit code 0"


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (FILES, "too many files"),
        (LARGE_FILES, "out of space for files"),
        (DELETED_FILES, "out of space for files"),
        (HIDDEN_FILES, "too many files"),
    ],
)
def test_files_are_limited_in_sum_where_a_sandbox_has_no_file_system_of_its_own(program: str, reason: str) -> None:
    limits = SandboxLimits(session_bytes=64 << 20, session_files=500)
    with make_host("landlock") as host:
        if os.geteuid() != 0:
            pytest.skip("the tests above run as this user")
        spec = with_python(BoxSpec(command=("python", "-c", program), limits=limits, python=host.python))
        result = run_program(host, spec)

        assert result.reason == reason
        assert run_program(host, with_python(BoxSpec(command=("python", "-c", "print(1)"), python=host.python))).stdout


def test_a_layer_that_is_checked_is_not_one_that_the_kernel_holds() -> None:
    with make_host("landlock") as host:
        python = host.python
    with pytest.raises(ContainerFault, match="session size: on: checked 4 times a second, not held by the kernel"):
        SandboxHost("landlock", frozenset({"session size"}), python)
