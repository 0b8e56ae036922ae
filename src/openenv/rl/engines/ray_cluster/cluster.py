"""The Ray cluster of a run: one that runs already, or one that the run starts on this machine."""

import asyncio
import logging
import os
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import ray
from ray.exceptions import ActorUnavailableError, ObjectLostError, RayActorError, RayTaskError

from openenv.agents.llm.http import LLMError
from openenv.core.errors import NotReady
from openenv.rl.config.engine import EngineConfig
from openenv.rl.engines.protocol import MOST_ENDS
from openenv.rl.engines.ray_cluster.remote_generator import GeneratorGone

log = logging.getLogger(__name__)

START_LIMIT_S = 600.0
"""For all that an actor loads before its first call."""
_POLL_S = 0.2

_ASKS_FOR_TOKEN = (
    "This process asks for Ray's token (RAY_AUTH_MODE=token), perhaps since it has started a cluster of its own. A "
    "cluster without a token cannot reach it. Run in a process of its own, with the RAY_AUTH_MODE of the cluster."
)

_T = TypeVar("_T")

MANY = 1000
"""Calls of an actor that may be open at the same time: it answers how it is meanwhile."""
LASTING: dict[str, Any] = {"max_restarts": -1}
"""Options of an actor that Ray makes again when its process has ended. A call that ran then fails, and is not repeated
by Ray."""


def connect(config: EngineConfig) -> bool:
    """Reach the cluster at `engine.address`, or start one, unless this process has a connection already.

    Returns whether it has none, and has to end this one.
    """
    is_first = not ray.is_initialized()
    wanted = config.num_actors
    if is_first:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent to others
        if config.address:
            ray.init(address=config.address, logging_level=logging.ERROR)
        else:
            ray.init(
                address="local",
                num_cpus=max(wanted, os.cpu_count() or 1),
                include_dashboard=False,
                logging_level=logging.ERROR,
            )
    return is_first


def keep_own_sigterm() -> None:
    """Let this process act on SIGTERM as before `connect`: Ray's handler aborts it after three seconds."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGTERM))


async def ready(actors: Sequence[Any], name: str) -> None:
    """Wait until actors can be called. Raises NotReady with the reason. name: of them, for the error."""
    try:
        async with asyncio.timeout(START_LIMIT_S):
            await asyncio.gather(*(one.__ray_ready__.remote() for one in actors))
    except (TimeoutError, RayActorError) as error:
        reason = f"after {START_LIMIT_S:.0f} s" if isinstance(error, TimeoutError) else str(error)
        if "all references to the actor were removed" in reason and os.environ.get("RAY_AUTH_MODE") == "token":
            reason += f"\n{_ASKS_FOR_TOKEN}"
        raise NotReady(f"{name} did not start: {reason}") from error


async def restarted(actor: Any, name: str) -> None:
    """Wait until an actor that has ended was made again. Raises NotReady with the reason. name: of it."""
    deadline = time.monotonic() + START_LIMIT_S
    while True:
        try:
            await ready([actor], name)
            return
        except NotReady as error:
            if not isinstance(error.__cause__, ActorUnavailableError) or time.monotonic() > deadline:
                raise
            await asyncio.sleep(_POLL_S)


ENDED = (RayActorError, ObjectLostError, GeneratorGone, LLMError)
"""Raised where an actor or a machine has ended, or perhaps the vLLM server of a generator."""


async def repeated(work: Callable[[], Awaitable[_T]], recover: Callable[[Exception], Awaitable[object]]) -> _T:
    """What some work returns, which is done again where something has ended, twice at most.

    recover: brings back what has ended; receives the error, and raises it if nothing has. Errors of actors are raised
    without Ray's traceback.
    """
    ended: Exception | None = None
    for _ in range(MOST_ENDS):
        try:
            if ended is not None:
                await recover(ended)
            return await work()
        except ENDED as error:
            if error is ended:
                break
            ended = error
        except RayTaskError as error:
            raise _cause_of(error) from None
    assert ended is not None
    raise _cause_of(ended) from None


def _cause_of(error: Exception) -> Exception:
    """The error of the actor itself, without Ray's traceback."""
    return error.cause if isinstance(error, RayTaskError) and isinstance(error.cause, Exception) else error
