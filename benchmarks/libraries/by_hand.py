"""What this package does by hand, beside the library that could: `python -m benchmarks.libraries.by_hand`.

It needs the extra `dev`, msgpack, and Chromium. Medians are shown. Decisions 0021 to 0023 cite them.
"""

import asyncio
import multiprocessing
import shutil
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgpack
import numpy as np
import orjson
from playwright.sync_api import sync_playwright
from rich.console import Console
from rich.table import Table
from safetensors.numpy import load, save

from openenv.core.env_server.execution.fork_server import ForkServer
from openenv.core.env_server.execution.process_executor import ProcessExecutor
from openenv.core.env_server.runner.env_spec import resolve_env_spec
from openenv.core.wire.arrays import packed, unpacked
from openenv.envs.browser_env.server import chromium
from openenv.envs.echo_env.server.environment import EchoEnvironment

_PROCESSES = 20
Line = tuple[str, str, float]
"""What is done, by which way, and its median in milliseconds."""


def _median_ms(calls: int, do: Callable[[], object]) -> float:
    times = []
    for _ in range(calls):
        began = time.perf_counter()
        do()
        times.append(time.perf_counter() - began)
    return statistics.median(times) * 1e3


def arrays() -> Iterator[Line]:
    """An observation with one array and five small fields, written and read."""
    for pixels in (np.zeros((84, 84, 4), np.uint8), np.zeros((210, 160, 3), np.uint8), np.zeros(17, np.float32)):
        small = {"reward": 0.5, "done": False, "lives": 3, "legal_actions": [0, 1, 2], "note": "go"}
        message, what = {**small, "pixels": pixels}, f"an array of {pixels.nbytes:,} bytes in a message"
        described = {**small, "pixels": [pixels.dtype.str, pixels.shape, pixels.tobytes()]}

        def by_msgpack(described: object = described) -> object:
            found = msgpack.unpackb(msgpack.packb(described))
            dtype, shape, data = found["pixels"]
            return np.frombuffer(data, dtype).reshape(shape)

        def by_safetensors(small: object = small, pixels: "np.ndarray" = pixels) -> object:
            return load(save({"pixels": pixels})), orjson.loads(orjson.dumps(small))

        yield what, "by hand", _median_ms(2000, lambda message=message: unpacked(packed(message)))  # type: ignore[misc]
        yield what, "msgpack", _median_ms(2000, by_msgpack)
        yield what, "safetensors and JSON", _median_ms(2000, by_safetensors)
        numbers = {**small, "pixels": pixels.tolist()}
        yield what, "lists in JSON", _median_ms(20, lambda numbers=numbers: orjson.loads(orjson.dumps(numbers)))  # type: ignore[misc]


async def processes() -> list[Line]:
    """A process for a session, forked from one that has imported the environment, until it answers."""
    what, server = "a process for a session", ForkServer(resolve_env_spec(EchoEnvironment))
    times = []
    for _ in range(_PROCESSES + 1):
        began, session = time.perf_counter(), ProcessExecutor(server)
        await session.open(10)
        times.append(time.perf_counter() - began)
        await session.close()
    await server.stop()
    own = statistics.median(times[1:]) * 1e3  # the first one starts the server
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["openenv.envs.echo_env.server.environment"])

    def start() -> None:
        here, there = context.Pipe()
        process = context.Process(target=there.send_bytes, args=(b"1",))
        process.start()
        here.recv_bytes()
        process.join()

    start()
    return [(what, "by hand", own), (what, "multiprocessing's forkserver", _median_ms(_PROCESSES, start))]


def browser() -> Iterator[Line]:
    """A call to a page of Chromium, and a page in a context of its own."""
    program = shutil.which(chromium.PROGRAM)
    if program is None:
        return
    chromium.task_folder = lambda: Path("/nowhere")  # no task is loaded here
    page = chromium.CHROMIUM.new_page("")
    yield "a call to a page", "by hand", _median_ms(1000, lambda: page.call("Runtime.evaluate", {"expression": "1"}))
    yield "a further page", "by hand", _median_ms(5, lambda: chromium.CHROMIUM.new_page(""))
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=list(chromium._FLAGS[2:]))
        other = started.new_page()
        yield "a call to a page", "playwright", _median_ms(1000, lambda: other.evaluate("1"))
        yield "a further page", "playwright", _median_ms(5, lambda: started.new_context().new_page())
        started.close()


def main() -> None:
    """Print the table."""
    table = Table("what", "way", title="By hand, and by library")
    table.add_column("milliseconds", justify="right")
    for what, way, took_ms in sorted([*arrays(), *asyncio.run(processes()), *browser()], key=lambda line: line[0]):
        table.add_row(what, way, f"{took_ms:.3g}")
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
