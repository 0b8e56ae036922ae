"""A server with two workers, and its clients."""

import contextlib
from collections.abc import Iterator

from openenv.hosting.local_process import LocalServer
from tests.core.counting_env import CountAction, CountEnv


def two_workers(*options: str) -> LocalServer:
    """A server of counters that can be saved; not started yet."""
    return LocalServer("tests.core.counting_env", ["--workers", "2", "--serve", "SavingEnvironment", *options])


@contextlib.contextmanager
def clients(url: str, number: int) -> Iterator[list[CountEnv]]:
    """Clients whose episodes have begun, at 0, -100, -200 and so on."""
    with contextlib.ExitStack() as stack:
        envs = [stack.enter_context(CountEnv(url)) for _ in range(number)]
        for index, env in enumerate(envs):
            env.reset(start=-100 * index)
        yield envs


def pid_of(env: CountEnv) -> int:
    """The process in which the client's environment runs."""
    return int(env.step(CountAction(amount=0, mischief="pid")).observation.payload)
