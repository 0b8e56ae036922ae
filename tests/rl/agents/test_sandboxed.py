"""An agent's program in a sandbox reaches its model and its environment, and nothing else."""

import asyncio
import os
import socket
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from openenv.agents.endpoint.requests import ModelAnswer, ModelReply, ModelRequest
from openenv.agents.endpoint.server import Endpoint
from openenv.hosting.sandbox.sandbox import RunningBox, SandboxHost
from openenv.rl.agents.program import AgentFailed, AgentTask
from openenv.rl.agents.sandboxed import SandboxedCommand
from openenv.rl.config.playing import AgentSandboxConfig

pytestmark = pytest.mark.process

ASKS = """
import os, openai
client = openai.OpenAI(max_retries=0)
for number in range(3):
    answer = client.chat.completions.create(model="any", messages=[{"role": "user", "content": f"{number}"}])
    assert answer.choices[0].message.content == "well", answer
stream = client.chat.completions.create(model="any", stream=True, messages=[{"role": "user", "content": "stream"}])
assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == "well"
"""
LOOKS = """
import os, socket, sys
assert "SECRET" not in os.environ, "a variable of the run"
for path in os.environ["HIDDEN"].split(":"):
    assert not os.path.exists(path), path
try:
    socket.create_connection(("127.0.0.1", int(os.environ["OTHER_PORT"])), timeout=2)
except OSError:
    sys.exit(0)
sys.exit("a server of the machine answers")
"""


class Well:
    """A model with one answer."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def answer(self, request: ModelRequest) -> ModelAnswer:
        self.asked.append(request.messages[-1]["content"])
        return ModelAnswer((ModelReply("well"),))


async def run(code: str, folder: Path, *, model: Any = None, **variables: str) -> None:
    program = folder / "agent.py"
    program.write_text(code, encoding="utf-8")
    async with Endpoint() as endpoint:
        key = endpoint.open(model or Well())
        environment = {**endpoint.environment_variables(key), **variables}
        task = AgentTask("", "", f"{endpoint.base_url}/v1", key, "", environment)
        settings = AgentSandboxConfig(packages=["openai"])
        await SandboxedCommand(["python3", str(program)], settings)(task)


async def test_a_program_asks_its_model_through_the_clients_own_addresses(tmp_path: Path) -> None:
    model = Well()

    await run(ASKS, tmp_path, model=model)

    assert model.asked == ["0", "1", "2", "stream"]


async def test_it_sees_no_variable_file_or_server_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "a provider's key")
    hidden = f"/etc/passwd:{__file__}"
    with socket.create_server(("127.0.0.1", 0)) as other:
        await run(LOOKS, tmp_path, HIDDEN=hidden, OTHER_PORT=str(other.getsockname()[1]))


async def test_how_it_failed_and_the_end_of_its_output_are_named(tmp_path: Path) -> None:
    with pytest.raises(AgentFailed, match=r"it ended with exit code 3: so it goes"):
        await run("import sys; print('so it goes', flush=True); sys.exit(3)", tmp_path)
    endpoint = AgentTask("", "", "http://127.0.0.1:9999/v1", "", "", {})
    with pytest.raises(AgentFailed, match=r"nothing-like-it: No such file or directory"):
        await SandboxedCommand(["nothing-like-it"], AgentSandboxConfig())(endpoint)


async def test_one_whose_time_is_over_ends_with_all_that_it_has_started(tmp_path: Path) -> None:
    marker = f"sleep 3{os.getpid()}"
    code = f"import subprocess; subprocess.run(['sh', '-c', '{marker}'])"

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(2):
            await run(code, tmp_path)

    listed = await asyncio.create_subprocess_exec("ps", "-eo", "args", stdout=asyncio.subprocess.PIPE)
    written, _ = await listed.communicate()
    assert marker not in written.decode()


async def test_one_that_is_cancelled_while_its_sandbox_starts_leaves_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begins, goes_on, boxes = threading.Event(), threading.Event(), list[RunningBox]()
    start_on = SandboxHost.start_on

    def start_later(*arguments: Any) -> RunningBox:
        begins.set()
        goes_on.wait()
        boxes.append(start_on(*arguments))
        return boxes[0]

    monkeypatch.setattr(SandboxHost, "start_on", start_later)
    running = asyncio.create_task(run("import time; time.sleep(60)", tmp_path))
    await asyncio.to_thread(begins.wait)
    running.cancel()
    goes_on.set()

    with pytest.raises(asyncio.CancelledError):
        await running
    (box,) = boxes
    with pytest.raises(OSError, match="Bad file descriptor"):  # it was ended, and its descriptor is closed
        os.fstat(box.pidfd)


def test_a_package_that_is_not_installed_is_named() -> None:
    with pytest.raises(ValueError, match="'no-such-package' is not installed"):
        SandboxedCommand([sys.executable], AgentSandboxConfig(packages=["no-such-package"]))
