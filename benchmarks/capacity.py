"""Episodes that finish and memory a session, with many sessions on one server: `python -m benchmarks.capacity`."""

import asyncio
import random

from rich.console import Console
from rich.table import Table

from benchmarks.peers import resident_mb
from openenv.core.session_pool import SessionPool
from openenv.envs.echo_env import EchoAction, EchoEnv
from openenv.envs.openspiel_env import OpenSpielAction, OpenSpielEnv
from openenv.hosting.local_process import LocalServer

STEPS_OF_ECHO = 10


async def echo(server: LocalServer, sessions: int) -> tuple[int, float]:
    """Return the number of episodes that finished, and the server's memory while all sessions are open."""
    async with SessionPool(EchoEnv, server.base_url, sessions, may_share=False) as pool:
        await pool.reset({index: {} for index in range(sessions)})
        for step in range(STEPS_OF_ECHO):
            results = await pool.step({index: EchoAction(message=f"{index} {step}") for index in range(sessions)})
        last = STEPS_OF_ECHO - 1
        is_echo = [results[index].observation.echoed_message == f"{index} {last}" for index in range(sessions)]
        return sum(is_echo), resident_mb(server.pid)


async def tic_tac_toe(server: LocalServer, sessions: int) -> tuple[int, float]:
    """Return the same for whole games of random play."""
    rng = random.Random(0)
    finished = 0
    async with SessionPool(OpenSpielEnv, server.base_url, sessions, may_share=False) as pool:
        results = await pool.reset({index: {"seed": index} for index in range(sessions)})
        memory = resident_mb(server.pid)
        while results:
            finished += sum(result.done for result in results.values())
            moves = {
                index: OpenSpielAction(action_id=rng.choice(result.observation.legal_actions))
                for index, result in results.items()
                if not result.done
            }
            results = await pool.step(moves)
    return finished, memory


def main() -> None:
    """Play both environments and print the table."""
    table = Table("environment", "sessions", "finished", "server before, MiB", "with all open, MiB", "KiB a session")
    games = ["--game", "tic_tac_toe"]
    for name, module, args, play, sessions in (
        ("echo", "openenv.envs.echo_env.server.app", [], echo, 1000),
        ("tic_tac_toe", "openenv.envs.openspiel_env.server.app", games, tic_tac_toe, 256),
    ):
        with LocalServer(module, args) as server:
            before = resident_mb(server.pid)
            finished, after = asyncio.run(play(server, sessions))
        figures = (f"{before:.0f}", f"{after:.0f}", f"{1024 * (after - before) / sessions:.0f}")
        table.add_row(name, str(sessions), str(finished), *figures)
    Console().print(table)


if __name__ == "__main__":
    main()
