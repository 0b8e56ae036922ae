"""Runs an evaluation that may meet awaitables: to its end at once where it meets none, else as a coroutine."""

import asyncio
import inspect
from collections.abc import Generator
from typing import Any

Steps = Generator[Any, Any, Any]
"""An evaluation: it yields what may have to be awaited, is sent what came of it, and returns the score."""


class AwaitableScore(float):
    """A score that is ready and may be awaited all the same, by code that does not know whether it is."""

    def __await__(self) -> Generator[None, None, float]:
        return float(self)
        yield  # makes this function a generator, as `await` wants


def must_be_awaited(value: Any) -> bool:
    """Whether `value` stands for a result that is not there yet."""
    return inspect.isawaitable(value) and not isinstance(value, AwaitableScore)


def run(steps: Steps) -> Any:
    """What `steps` return, or a coroutine of it when they meet something that must be awaited."""
    value = None
    try:
        while not must_be_awaited(value):
            value = steps.send(value)
    except StopIteration as end:
        return end.value
    return finish(steps, value)


async def finish(steps: Steps, value: Any = None) -> Any:
    """What `steps` return, from where they stand. value: what they yielded last."""
    try:
        while True:
            value = steps.send(await value if must_be_awaited(value) else value)
    except StopIteration as end:
        return end.value


def together(values: list[Any]) -> Any:
    """`values`, or a coroutine of them that awaits at one time those that must be awaited.

    When one fails the others are cancelled, and its exception is raised as it is.
    """
    return _gathered(values) if any(map(must_be_awaited, values)) else values


async def _gathered(values: list[Any]) -> list[Any]:
    try:
        async with asyncio.TaskGroup() as group:
            tasks = {n: group.create_task(_result(v)) for n, v in enumerate(values) if must_be_awaited(v)}
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [tasks[n].result() if n in tasks else value for n, value in enumerate(values)]


async def _result(awaitable: Any) -> Any:
    return await awaitable
