"""An agent's program in a sandbox: it reaches the endpoint, the files that it is given, and nothing else."""

import asyncio
import os
import tempfile
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from urllib.parse import urlsplit

from openenv.hosting.sandbox.box_spec import BoxSpec
from openenv.hosting.sandbox.limits import SandboxLimits
from openenv.hosting.sandbox.python_files import with_python
from openenv.hosting.sandbox.sandbox import RunningBox, SandboxEnd, SandboxHost
from openenv.rl.agents.program import AgentFailed, AgentTask, end_of_text
from openenv.rl.config.playing import AgentSandboxConfig

_RELAY = str(Path(__file__).with_name("box_relay.py"))
_PROCESSES, _OPEN_FILES = 256, 1024


@cache
def sandbox_host() -> SandboxHost:
    """Starts the sandboxes of all episodes. Raises ContainerFault where this machine has no namespaces."""
    return SandboxHost("namespaces")


class SandboxedCommand:
    """A program that is a process of its own, in a sandbox with a network of its own. As `program.Agent`."""

    def __init__(self, command: Sequence[str], settings: AgentSandboxConfig) -> None:
        """Raises ContainerFault where there is no sandbox, ValueError for a package that is not installed."""
        self._host = sandbox_host()
        files = [str(Path(part).resolve()) if Path(part).is_file() else "" for part in command]
        self._command = [file or part for part, file in zip(command, files, strict=True)]
        readable = [*filter(None, files), *(str(Path(path).resolve()) for path in settings.readable)]
        spec = BoxSpec(
            command=("script", _RELAY),
            limits=SandboxLimits(memory_bytes=settings.memory_mb << 20, processes=_PROCESSES, open_files=_OPEN_FILES),
            readable=tuple(dict.fromkeys(readable)),
            environment={"PATH": f"{Path(self._host.python).parent}:/usr/local/bin:/usr/bin:/bin"},
            python=self._host.python,
        )
        self._spec = with_python(spec, settings.packages)

    async def __call__(self, task: AgentTask) -> None:
        """Run it to its end. Raises AgentFailed with how it ended and the end of its output."""
        endpoint = urlsplit(task.base_url)
        with tempfile.TemporaryDirectory(prefix="openenv-agent-") as folder, tempfile.TemporaryFile() as output:
            os.chmod(folder, 0o755)  # its user is another one
            path = f"{folder}/endpoint"
            relay = partial(_relay, str(endpoint.hostname), endpoint.port or 80)
            async with await asyncio.start_unix_server(relay, path):
                os.chmod(path, 0o777)
                end = await self._run(self._spec_of(task, path), output.fileno())
            if end.exit_code or end.out_of_memory or end.over:
                output.seek(0)
                raise AgentFailed(f"it ended with {end.reason}: {end_of_text(output.read())}")

    def _spec_of(self, task: AgentTask, path: str) -> BoxSpec:
        port = str(urlsplit(task.base_url).port)
        fields = {
            "command": (*self._spec.command, path, port, *self._command),
            "readable": (*self._spec.readable, path),
            "environment": {**self._spec.environment, **task.environment},
        }
        return BoxSpec.from_json({**self._spec.to_json(), **fields})

    async def _run(self, spec: BoxSpec, output: int) -> SandboxEnd:
        starting = asyncio.ensure_future(asyncio.to_thread(self._start, spec, output))
        try:
            box = await asyncio.shield(starting)
        except asyncio.CancelledError:  # the thread starts it all the same
            await asyncio.wait([starting])
            if starting.exception() is None:
                await asyncio.to_thread(starting.result().end)
            raise
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(box.pidfd, ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(box.pidfd)
            end = await asyncio.to_thread(box.end)
        return end

    def _start(self, spec: BoxSpec, output: int) -> RunningBox:
        null = os.open(os.devnull, os.O_RDONLY)
        try:
            return self._host.start_on(spec, (null, output, output))
        finally:
            os.close(null)


async def _relay(host: str, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass a connection of the program on to the endpoint."""
    far_reader, far_writer = await asyncio.open_connection(host, port)
    try:
        await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))
    except OSError:
        return  # one side is gone, and the other one sees that
    finally:
        far_writer.close()
        writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()
