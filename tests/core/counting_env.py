"""An environment that counts, with every way to misbehave that the tests need."""

import ctypes
import multiprocessing
import os
import pickle
import random
import signal
import sys
import threading
import time
from typing import Any

import numpy as np
from pydantic import field_validator

from openenv.core import Action, EnvClient, Environment, Observation, State


class CountAction(Action):
    """What to add, or how to misbehave."""

    amount: int
    mischief: str = ""

    @field_validator("amount")
    @classmethod
    def _not_thirteen(cls, amount: int) -> int:
        if amount == 13:
            raise ValueError("thirteen is unlucky")
        return amount


class CountObservation(Observation):
    """The total, and what else a test asks for."""

    total: int
    draw: float = 0.0
    payload: Any = None


class CountState(State):
    """The total is part of the state."""

    total: int = 0


class CountingEnvironment(Environment[CountAction, CountObservation, CountState]):
    """Adds amounts; ends at ten."""

    def __init__(self) -> None:
        self._state = CountState()
        self._rng = random.Random()

    def reset(self, seed: int | None = None, episode_id: str | None = None, start: int = 0) -> CountObservation:
        self._state = CountState(episode_id=episode_id, total=start)
        self._rng = random.Random(seed)
        return CountObservation(total=start, draw=self._rng.random())

    def step(self, action: CountAction, timeout_s: float | None = None, **kwargs: Any) -> CountObservation:
        payload: Any = {"timeout_s": timeout_s, **kwargs} if kwargs else None
        if action.mischief == "raise":
            raise ValueError(f"amount={action.amount} is not to my taste")
        if action.mischief == "echo":
            raise ValueError(action.metadata["text"])
        if action.mischief == "sleep":
            time.sleep(0.5)
        if action.mischief == "forever":
            while True:
                try:
                    self._rng.random()
                except Exception:  # noqa: BLE001  an author may catch everything
                    continue
        if action.mischief == "exit":
            os._exit(3)
        if action.mischief == "sys.exit":
            sys.exit("enough")
        if action.mischief == "segfault":
            ctypes.string_at(0)
        if action.mischief == "numpy":
            payload = {"array": np.arange(4, dtype=np.float32).reshape(2, 2), "scalar": np.int64(3)}
        if action.mischief == "thread":
            payload = threading.current_thread().name
        if action.mischief == "pid":
            payload = os.getpid()
        if action.mischief == "unserialisable":
            payload = object()
        if action.mischief == "wrong type":
            return "not an observation"  # type: ignore[return-value]
        self._state.step_count += 1
        self._state.total += action.amount
        reward = float("nan") if action.mischief == "nan" else float(action.amount)
        return CountObservation(
            total=self._state.total,
            draw=self._rng.random(),
            payload=payload,
            reward=reward,
            done=self._state.total >= 10,
            metadata=action.metadata,
        )

    @property
    def state(self) -> CountState:
        return self._state


class SavingEnvironment(CountingEnvironment):
    """A counter that can be saved: total, steps and random numbers."""

    def save_state(self) -> bytes:
        return pickle.dumps((self._state, self._rng.getstate()))

    def load_state(self, snapshot: bytes) -> None:
        self._state, rng_state = pickle.loads(snapshot)
        self._rng.setstate(rng_state)


class AsyncEnvironment(CountingEnvironment):
    """Its step is a coroutine, in which the mischief blocks without ever awaiting."""

    async def step_async(self, action: CountAction, timeout_s: float | None = None, **kwargs: Any) -> CountObservation:
        return self.step(action, timeout_s, **kwargs)


class InlineAsyncEnvironment(AsyncEnvironment):
    """The same in the server's own event loop."""

    execution = "inline"


class InlineEnvironment(CountingEnvironment):
    """The same in the event loop."""

    execution = "inline"


class Alarming(InlineEnvironment):
    """Has a limit of its own for what it runs, as graders do."""

    def step(self, action: CountAction, timeout_s: float | None = None, **kwargs: Any) -> CountObservation:
        if action.mischief == "alarm":
            before = signal.signal(signal.SIGALRM, self._too_long)
            signal.setitimer(signal.ITIMER_REAL, 0.6)
            try:
                time.sleep(20)
            except TimeoutError:
                return CountObservation(total=-1)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
                signal.signal(signal.SIGALRM, before)
        return super().step(action, timeout_s, **kwargs)

    def _too_long(self, *_: object) -> None:
        raise TimeoutError


class Lingering(InlineEnvironment):
    """Starts a thread that does not end, and takes the signals that end a program."""

    def reset(self, seed: int | None = None, episode_id: str | None = None, start: int = 0) -> CountObservation:
        threading.Thread(target=threading.Event().wait).start()
        signal.signal(signal.SIGTERM, lambda *_: None)
        return super().reset(seed, episode_id, start)


class NeverCloses(InlineEnvironment):
    """The same, with a `close` that does not return."""

    def close(self) -> None:
        while True:
            pass


class ProcessEnvironment(SavingEnvironment):
    """The same in a process for each session."""

    execution = "process"


class OnlyInOneProcess(CountingEnvironment):
    """Cannot be made in a process that another one has started."""

    def __init__(self) -> None:
        super().__init__()
        if multiprocessing.parent_process() is not None:
            raise RuntimeError("there is another one")


class CountEnv(EnvClient[CountAction, CountObservation, CountState]):
    """Typed client: nothing to write."""


def served(environment: str, config: Any) -> Any:
    """The application that serves one of the classes above."""
    from openenv.core.env_server import create_app
    from tests.core import counting_env

    environment_cls = getattr(counting_env, environment)
    environment_cls()
    return create_app(environment_cls, config=config)


def main() -> None:
    """Serve one of the classes above in a process of its own: --serve InlineEnvironment --step-timeout-s 1."""
    import argparse
    from functools import partial

    from openenv import ServerConfig, serve
    from openenv.core.env_server.observability.log_context import configure_logging

    parser = argparse.ArgumentParser()
    parser.add_argument("--serve", default="CountingEnvironment")
    parser.add_argument("--step-timeout-s", type=float, default=120.0)
    parser.add_argument("--reconnect-grace-s", type=float, default=60.0)
    parser.add_argument("--drain-timeout-s", type=float, default=0.0)
    parser.add_argument("--max-sessions", type=int, default=4096)
    parser.add_argument("--max-queue", type=int, default=0)
    parser.add_argument("--allow-watching", action="store_true")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--log-level", default="warning")
    parser.add_argument("--log-format", default="text")
    parser.add_argument("--host")
    parser.add_argument("--port", type=int)
    args = parser.parse_args()

    configure_logging(args.log_level.upper(), args.log_format)
    config = ServerConfig(
        step_timeout_s=args.step_timeout_s,
        reconnect_grace_s=args.reconnect_grace_s,
        drain_timeout_s=args.drain_timeout_s,
        max_sessions=args.max_sessions,
        max_queue=args.max_queue,
        allow_watching=args.allow_watching,
    )
    serve(partial(served, args.serve, config), args.host, args.port, workers=args.workers)


if __name__ == "__main__":
    main()
