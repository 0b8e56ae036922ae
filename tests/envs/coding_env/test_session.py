"""Interpreters in sandboxes of every level: code that writes to their pipes, or stops them, harms its episode alone."""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from openenv.envs.coding_env.server.session import InterpreterEnded, InterpreterPool, SandboxedInterpreter
from openenv.envs.coding_env.server.settings import CodingSettings
from openenv.hosting.sandbox.limits import SandboxLimits
from tests.hosting.sandbox.test_sandbox import make_host

pytestmark = pytest.mark.process

PIPE = """
import gc, io, json, os, time
files = [found for found in gc.get_objects() if isinstance(found, io.TextIOWrapper)]
pipe = next(file.fileno() for file in files if file.mode == "w" and file.fileno() > 2)
"""
"""Finds the pipe on which the interpreter responds."""
PARENT = "import os\nos.getppid()"


@pytest.fixture(scope="module", params=["namespaces", "landlock"])
def pool(request: pytest.FixtureRequest) -> Iterator[InterpreterPool]:
    with make_host(request.param) as host:
        made = InterpreterPool(host, SandboxLimits(), (), num_ready=0)
        yield made
        made.close()


@pytest.fixture
def interpreter(pool: InterpreterPool) -> Iterator[SandboxedInterpreter]:
    made = pool.take()
    made.begin({})
    yield made
    made.close()


def run(interpreter: SandboxedInterpreter, code: str, seconds: float = 5.0) -> dict[str, Any]:
    return interpreter.request(seconds, code=code, language="python", seconds=seconds)


def test_the_next_episode_is_in_the_same_sandbox_whatever_was_left(interpreter: SandboxedInterpreter) -> None:
    first = run(interpreter, PARENT)["value"]
    run(interpreter, "import os, time\nif os.fork() == 0:\n  if os.fork() == 0:\n    os.setsid()\n    time.sleep(99)\n")
    interpreter.begin({})

    assert run(interpreter, PARENT)["value"] == first


def test_processes_that_lose_their_parent_and_end_are_not_counted(interpreter: SandboxedInterpreter) -> None:
    code = "import os\nfor _ in range(200):\n  if os.fork() == 0:\n    os._exit(0 if os.fork() else 0)\n  os.wait()\n"

    assert run(interpreter, code, 20.0)["exit_code"] == 0


def test_a_second_response_reaches_no_later_episode(interpreter: SandboxedInterpreter) -> None:
    forged = json.dumps({"files": {"forged": 1}})
    # the first response fills the pipe to the server, which then reads it to its end without the second one
    code = f"{PIPE}\nfirst = ('{{\"a\": 1}}'.ljust(65535) + '\\n' + {forged!r} + '\\n').encode()\n"
    code += "os.write(pipe, first[:1])\ntime.sleep(0.2)\nos.write(pipe, first[1:])\ntime.sleep(99)"

    assert run(interpreter, code) == {"a": 1}
    assert interpreter.begin({}) == {"files": {}}
    assert run(interpreter, "1 + 1")["value"] == "2"


def test_code_cannot_open_the_pipes_to_the_server(interpreter: SandboxedInterpreter) -> None:
    code = "import os\nfound = []\nfor fd in range(20):\n  for mode in os.O_RDONLY, os.O_WRONLY:\n    try:\n"
    code += "      found.append(os.open(f'/proc/{os.getppid()}/fd/{fd}', mode | os.O_NONBLOCK))\n"
    code += "    except OSError:\n      pass\nfound"

    assert run(interpreter, code)["value"] == "[]"


def test_a_request_to_a_sandbox_that_code_has_stopped_ends_in_time(interpreter: SandboxedInterpreter) -> None:
    code = "import os, signal, time\nparent = os.getppid()\nif os.fork() == 0:\n  time.sleep(0.2)\n"
    code += "  os.kill(parent, signal.SIGSTOP)\n  os._exit(0)\n"
    run(interpreter, code)

    time.sleep(0.3)  # until it is stopped

    with pytest.raises(InterpreterEnded, match="time limit"):
        run(interpreter, "#" * 200_000, 0.5)


@pytest.mark.parametrize("line", ["[" * 60_000, "1" * 60_000, "3", '{"a": ', "\0"], ids=lambda line: line[:10])
def test_a_line_that_is_no_response_ends_the_interpreter(interpreter: SandboxedInterpreter, line: str) -> None:
    code = f"{PIPE}\nos.write(pipe, {line!r}.encode() + b'\\n')\ntime.sleep(99)"

    with pytest.raises(InterpreterEnded, match="a response that is no"):
        run(interpreter, code)


def test_a_sandbox_may_be_ended_from_many_threads(pool: InterpreterPool) -> None:
    ended = pool.take()
    ended.begin({})
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: ended.close(), range(8)))
    after = pool.take()

    assert after.begin({}) == {"files": {}}
    after.close()


@pytest.mark.parametrize("field", ["memory_mb", "processes"])
def test_a_limit_that_no_sandbox_can_have_is_refused_before_a_session_opens(field: str) -> None:
    with pytest.raises(ValueError, match=f"{field}=0"):
        CodingSettings(**{field: 0})
