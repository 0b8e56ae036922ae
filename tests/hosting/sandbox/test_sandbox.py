"""Sandboxes: what programs can do in them, what they cannot, and what is left when they end."""

import contextlib
import gc
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from openenv.core.errors import ContainerFault
from openenv.hosting.sandbox.box_spec import PYTHON, BoxSpec, Level
from openenv.hosting.sandbox.host import DIRECTORY
from openenv.hosting.sandbox.limits import SandboxLimits
from openenv.hosting.sandbox.program import ProgramResult, run_program
from openenv.hosting.sandbox.python_files import installed, with_python
from openenv.hosting.sandbox.sandbox import SandboxHost
from tests.hostile.bystanders import left_of

pytestmark = pytest.mark.process

BENIGN = sorted(Path(__file__).with_name("benign").glob("*.py"))
NEEDS_NAMESPACES = {"pool_of_processes", "server_and_client", "shared_memory"}
SYSTEM_PYTHON = "/usr/bin/python3"
"""An interpreter that every user can reach: that of a home directory may be closed to others."""


def make_host(level: Level) -> SandboxHost:
    """A host on a level. Skips where this machine does not have it."""
    for python in (PYTHON, os.path.realpath(SYSTEM_PYTHON)):
        try:
            return SandboxHost(level, python=python)
        except ContainerFault as error:
            reason = str(error)
    pytest.skip(reason)


@pytest.fixture(scope="module", params=["namespaces", "landlock"])
def host(request: pytest.FixtureRequest) -> Iterator[SandboxHost]:
    with make_host(request.param) as made:
        yield made


def run_code(host: SandboxHost, code: str, limits: SandboxLimits | None = None, seconds: float = 20.0) -> ProgramResult:
    spec = BoxSpec(command=("python", "-c", code), limits=limits or SandboxLimits(), python=host.python)
    return run_program(host, with_python(spec), seconds=seconds)


@pytest.mark.parametrize("path", BENIGN, ids=lambda path: path.stem)
def test_usual_programs_work(host: SandboxHost, path: Path) -> None:
    if host.level == "landlock" and path.stem in NEEDS_NAMESPACES:
        pytest.skip("needs a network, or shared memory, of its own")
    result = run_code(host, path.read_text())

    assert result.stdout == b"ok\n", result


def test_chosen_packages_can_be_imported_and_no_others() -> None:
    with make_host("namespaces") as host:
        spec = with_python(BoxSpec(command=("python", "-c", "import numpy; print(numpy.arange(3).sum())")), ["numpy"])
        other = with_python(BoxSpec(command=("python", "-c", "import pydantic")), ["numpy"])

        assert run_program(host, spec).stdout == b"3\n"
        assert b"No module named 'pydantic'" in run_program(host, other).stderr
    assert set(installed(["numpy"])) == {"numpy"}


def test_a_package_that_is_not_installed_is_named() -> None:
    with pytest.raises(ValueError, match="packages: 'no-such-package' is not installed"):
        with_python(BoxSpec(command=("python",)), ["no-such-package"])


def test_the_server_s_environment_and_files_are_not_there(host: SandboxHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "secret")
    result = run_code(host, f"import os\nprint(sorted(os.environ))\nopen({__file__!r})")

    assert b"TOKEN" not in result.stdout
    assert b"OPENENV_SANDBOX" in result.stdout
    assert b"FileNotFoundError" in result.stderr or b"PermissionError" in result.stderr


def test_a_sandbox_has_its_own_directory(host: SandboxHost) -> None:
    code = "import os\nprint(os.listdir('.'))\nopen('left', 'w').write('x')"

    assert [run_code(host, code).stdout for _ in range(2)] == [b"[]\n", b"[]\n"]


@pytest.mark.parametrize(
    ("code", "limits", "reason"),
    [
        ("while True: pass", {"cpu_seconds": 1}, "out of processor time"),
        ("import time; time.sleep(60)", {}, "time limit"),
        ("while True: print('x' * 1000)", {}, "output limit"),
        ("import os; os.abort()", {}, "signal SIGABRT"),
        ("import sys; sys.exit(7)", {}, "exit code 7"),
    ],
)
def test_the_reason_of_an_end_is_named(host: SandboxHost, code: str, limits: dict[str, int], reason: str) -> None:
    result = run_code(host, code, SandboxLimits(**limits), seconds=4 if "sleep" in code else 20)

    assert result.reason == reason


def test_long_output_is_cut_and_marked(host: SandboxHost) -> None:
    spec = with_python(BoxSpec(command=("python", "-c", "print('x' * 5000)"), python=host.python))
    result = run_program(host, spec, output_bytes=1000)

    assert result.stdout == b"x" * 1000
    assert result.is_cut
    assert result.reason == "exit code 0"


def test_memory_and_processes_are_limited_in_sum(host: SandboxHost) -> None:
    if host.layers["memory"] != "on":
        pytest.skip(host.layers["memory"])
    limits = SandboxLimits(memory_bytes=64 << 20, processes=8)
    grown = run_code(host, "import os, time\nfor _ in 1, 2: os.fork()\nx = b'x' * (20 << 20)\ntime.sleep(3)", limits)
    forked = run_code(host, "import os, time\nwhile True: os.fork() or time.sleep(9)", limits)

    assert grown.end.out_of_memory > 0
    assert b"BlockingIOError" in forked.stderr


def test_an_interpreter_that_stays_answers_until_it_is_ended(host: SandboxHost) -> None:
    code = "import sys\nfor line in sys.stdin: print(eval(line), flush=True)"
    with host.start(with_python(BoxSpec(command=("python", "-c", code), python=host.python))) as box:
        for number in (3, 4):
            box.stdin.write(b"%d * 2\n" % number)
            assert box.stdout.readline() == b"%d\n" % (number * 2)
        first = box.end()

    assert first.exit_code == -signal.SIGKILL
    assert box.end() is first


def test_fifty_at_once_leave_nothing(host: SandboxHost) -> None:
    before = descriptors_and_mounts()
    code = "import os, time\nif os.fork() == 0:\n  os.setsid()\n  time.sleep(60)\nprint('ok')"
    with ThreadPoolExecutor(50) as threads:
        results = list(threads.map(lambda _: run_code(host, code, seconds=120), range(50)))
    wait_for_removals(host.pid)

    assert {result.stdout for result in results} == {b"ok\n"}
    assert left_of(host.pid) == []
    assert descriptors_and_mounts() == before


def test_a_question_about_a_sandbox_that_has_ended_is_an_error_and_the_others_go_on(host: SandboxHost) -> None:
    spec = with_python(BoxSpec(command=("python", "-c", "input()"), python=host.python))
    with host.start(spec) as box, host.start(spec) as other:
        box.end()
        with pytest.raises(ContainerFault, match="this sandbox has ended before"):
            box.out_of_memory_kills()
        other.stdin.write(b"\n")

        assert select.select([other.pidfd], [], [], 20.0)[0]
        assert other.end().exit_code == 0


def test_a_sandbox_that_takes_long_to_end_holds_up_no_other(host: SandboxHost) -> None:
    code = "import mmap, os, time\nmaps = [mmap.mmap(-1, 4096, prot=1 + n % 2) for n in range(60000)]\n"
    code += "for _ in range(16):\n  if os.fork() == 0: time.sleep(99)\nprint('ready', flush=True)\ntime.sleep(99)"
    with host.start(with_python(BoxSpec(command=("python", "-c", code), python=host.python))) as box:
        assert box.stdout.readline() == b"ready\n"
        with ThreadPoolExecutor(1) as threads:
            ending = threads.submit(box.end)
            num_others = 0
            while not ending.done():
                assert run_code(host, "print(1)").stdout == b"1\n"
                num_others += 1

    assert num_others > 1


def test_a_killed_server_leaves_nothing(host: SandboxHost) -> None:
    program = f"""
import time
from openenv.hosting.sandbox.box_spec import BoxSpec
from openenv.hosting.sandbox.python_files import with_python
from openenv.hosting.sandbox.sandbox import SandboxHost

host = SandboxHost({host.level!r}, python={host.python!r})
spec = BoxSpec(command=("python", "-c", "import time; time.sleep(99)"), python={host.python!r})
boxes = [host.start(with_python(spec)) for _ in range(3)]
print(host.pid, flush=True)
time.sleep(99)
"""
    before = descriptors_and_mounts()
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        pid = int(server.stdout.readline())
        assert left_of(pid)
        server.kill()
        server.stdout.read()  # the process that starts sandboxes holds the other end, until it has ended them

    assert left_of(pid) == []
    assert descriptors_and_mounts() == before


def descriptors_and_mounts() -> tuple[int, list[str]]:
    """Those of this process. Mounts of container engines, which tests beside this one start, are not counted."""
    gc.collect()
    return len(os.listdir("/proc/self/fd")), [
        line for line in Path("/proc/mounts").read_text().splitlines() if not re.search("docker|netns|overlay", line)
    ]


def wait_for_removals(pid: int) -> None:
    """Directories are removed beside the next requests."""
    deadline = time.monotonic() + 30
    while any(Path("/tmp").glob(f"{DIRECTORY.format(pid=pid)}*")) and time.monotonic() < deadline:
        time.sleep(0.01)


def test_a_missing_layer_that_is_required_is_refused() -> None:
    with make_host("landlock") as host:
        python = host.python
    with pytest.raises(ContainerFault, match="namespaces: off: not asked for"):
        SandboxHost("landlock", frozenset({"namespaces"}), python)


def test_without_bubblewrap_the_reason_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openenv.hosting.sandbox.sandbox.find_bubblewrap", lambda: None)

    with pytest.raises(ContainerFault, match="bubblewrap is missing: apt-get install bubblewrap"):
        SandboxHost("namespaces")


def test_a_program_that_cannot_be_started_is_an_error_in_its_output(host: SandboxHost) -> None:
    result = run_program(host, with_python(BoxSpec(command=("/no/such/program",), python=host.python)))

    assert result.reason == "exit code 1"
    assert b"No such file or directory" in result.stderr


@pytest.mark.parametrize(
    ("size", "message"), [(1 << 18, "bytes: at most 131072 are allowed"), (1 << 16, "Argument list too long")]
)
def test_a_sandbox_that_cannot_be_started_leaves_nothing_and_the_others_go_on(
    host: SandboxHost, size: int, message: str
) -> None:
    spec = with_python(BoxSpec(command=("python", "-c", "input()"), python=host.python))
    with host.start(spec) as other:
        with pytest.raises(ContainerFault, match=message):
            host.start(replace(spec, command=("python", "-c", "x" * size)))
        assert other.end().exit_code == -signal.SIGKILL

    wait_for_removals(host.pid)
    assert left_of(host.pid) == []


@pytest.mark.parametrize(
    ("field", "value"),
    [("memory_bytes", 1000), ("processes", 1), ("open_files", True), ("cpus", 0), ("cpu_seconds", 0)],
)
def test_a_limit_in_which_nothing_runs_is_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=rf"SandboxLimits\.{field}={value!r}: expected"):
        SandboxLimits(**{field: value})  # type: ignore[arg-type]


@pytest.mark.finding("no command line holds a secret")
def test_no_command_line_holds_a_variable_which_may_be_a_secret(host: SandboxHost) -> None:
    code = "import os, sys; print(os.environ['OPENENV_TOKEN'], flush=True); sys.stdin.read()"
    variables = {"OPENENV_TOKEN": "s3same-0pen"}
    spec = BoxSpec(command=("python", "-I", "-c", code), environment=variables, python=host.python)
    with host.start(with_python(spec)) as box:
        assert box.stdout.readline() == b"s3same-0pen\n"
        command_lines = []
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # it has ended
                command_lines.append((process / "cmdline").read_bytes())

    assert any(b"OPENENV_TOKEN" in line for line in command_lines)
    assert not any(b"s3same-0pen" in line for line in command_lines)


def test_directories_of_the_root_are_empty_writable_and_of_limited_size() -> None:
    code = (
        "import os\n"
        "print(os.listdir('/app'), os.path.exists('/data'))\n"
        "open('/app/small', 'w').write('x')\n"
        "open('/app/large', 'wb').write(bytes(2 << 20))\n"
    )
    limits = SandboxLimits(session_bytes=1 << 20)
    with make_host("namespaces") as host:
        spec = BoxSpec(command=("python", "-c", code), limits=limits, directories=("/app",), python=host.python)
        result = run_program(host, with_python(spec))

    assert result.stdout == b"[] False\n"
    assert b"No space left on device" in result.stderr


def test_directories_of_the_root_need_namespaces() -> None:
    with (
        make_host("landlock") as host,
        pytest.raises(ContainerFault, match=r"directories=\('/app',\): the level landlock"),
    ):
        host.start(with_python(BoxSpec(command=("python", "-c", ""), directories=("/app",), python=host.python)))
