"""Runs all checks in their order, each with a time limit."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Literal

from openenv.auto.environment import NamedEnvironment, named_environment
from openenv.core.errors import OpenEnvError, ServerUnreachable
from openenv.core.utils import run_async_safely
from openenv.evaluation.quality.checks.concurrency import concurrency, isolation, step_time
from openenv.evaluation.quality.checks.determinism import (
    other_seeds,
    same_seed,
    same_seed_again,
    same_seed_elsewhere,
    snapshots,
)
from openenv.evaluation.quality.checks.invalid_input import errors
from openenv.evaluation.quality.checks.leaks import leaks
from openenv.evaluation.quality.checks.outcomes import ending, rewards
from openenv.evaluation.quality.checks.protocol import actions, reachable, schema, verbs
from openenv.evaluation.quality.checks.solutions import check_solutions
from openenv.evaluation.quality.probe.raw_client import RequestFailed, ServerAddress
from openenv.evaluation.quality.target import RAISES_REMEDY, CheckResult, CheckRow, Target, failed, skipped, warned
from openenv.hosting.local_process import LocalServer

log = logging.getLogger(__name__)

Level = Literal["runtime", "semantic"]
"""`runtime`: whether the server keeps the specification. `semantic`: also whether it is worth training on."""
OnCheck = Callable[[str], None]
"""Called with the name of each check as it begins."""

_RESPONSE_SHARE = 1 / 12
_CHECK_SHARE = 1 / 4


@dataclass(frozen=True, slots=True)
class Check:
    """A check, and the checks that it depends on."""

    name: str
    run: Callable[[Target], Awaitable[CheckResult]]
    needs: tuple[str, ...] = ()
    """Names of checks that must succeed first. If one fails, this check is skipped."""
    level: Level = "semantic"


_PLAYS = ("reachable", "actions", "verbs")
CHECKS = (
    Check("reachable", reachable, level="runtime"),
    Check("actions", actions, ("reachable",), level="runtime"),
    Check("verbs", verbs, ("reachable", "actions"), level="runtime"),
    Check("schema", schema, _PLAYS, level="runtime"),
    Check("ending", ending, _PLAYS, level="runtime"),
    Check("errors", errors, _PLAYS, level="runtime"),
    Check("same seed", same_seed, _PLAYS),
    Check("same seed, used session", same_seed_again, (*_PLAYS, "same seed")),
    Check("same seed, other process", same_seed_elsewhere, (*_PLAYS, "same seed")),
    Check("other seeds", other_seeds, (*_PLAYS, "same seed")),
    Check("snapshots", snapshots, (*_PLAYS, "same seed", "same seed, used session")),
    Check("concurrency", concurrency, _PLAYS),
    Check("isolation", isolation, (*_PLAYS, "same seed", "same seed, used session", "concurrency")),
    Check("leaks", leaks, _PLAYS),
    Check("rewards", rewards, _PLAYS),
    Check("step time", step_time, _PLAYS),
)
"""All checks, in the order in which they run."""


def check_url(
    base_url: str, *, seed: int = 0, seconds: float = 60.0, timeout_s: float | None = None, level: Level = "semantic",
    headers: Mapping[str, str] | None = None, reset: Mapping[str, Any] | None = None, on_check: OnCheck | None = None,
) -> list[CheckRow]:  # fmt: skip
    """Check a running server. Returns a row for each check.

    Args:
        seed: of the first episode, 0 or more.
        seconds: all checks together, 5 or more.
        timeout_s: until a response; None: a twelfth of seconds.
        level: the last kind of checks to run.
        headers: sent with each request.
        reset: keywords of every reset.

    Raises:
        ValueError: for numbers outside these ranges and for an invalid URL.
    """
    target = _target(base_url, seed, seconds, timeout_s, headers, reset)
    return run_async_safely(_rows(target, _checks(level), time.monotonic() + seconds, on_check or _nothing))


def check_environment(
    name: str, *, seed: int = 0, seconds: float = 60.0, timeout_s: float | None = None, level: Level = "semantic",
    headers: Mapping[str, str] | None = None, reset: Mapping[str, Any] | None = None, on_check: OnCheck | None = None,
) -> list[CheckRow]:  # fmt: skip
    """Serve the environment of a name, as in `openenv.auto.environment`, and check it. Returns a row for each check.

    A server of this machine is started twice, which allows further checks. For arguments and errors see `check_url`.
    Also raises LookupError for a name without an environment.
    """
    named = named_environment(name)

    def check_running(base_url: str) -> list[CheckRow]:
        return check_url(
            base_url, seed=seed, seconds=seconds, timeout_s=timeout_s, level=level, headers=headers, reset=reset,
            on_check=on_check,
        )  # fmt: skip

    if named.url is not None:
        return check_running(named.url)
    started = time.monotonic()
    # raises for wrong numbers before a server is started
    _target("http://127.0.0.1", seed, seconds, timeout_s, headers, reset)
    server = named.provider()
    if not isinstance(server, LocalServer):
        with named.running() as base_url:
            return check_running(base_url)
    checks = _checks(level)
    with ExitStack() as stack:
        try:
            stack.enter_context(server)
        except ServerUnreachable as error:
            row = CheckRow(
                "reachable",
                failed(f"the server did not start: {error}", "correct what the error names"),
                _since(started),
            )
            return [row, *(CheckRow(check.name, skipped("needs `reachable`"), 0.0) for check in checks[1:])]
        target = _target(server.base_url, seed, seconds, timeout_s, headers, reset)
        target.server, target.start_another = server, lambda: _another(named)
        rows = run_async_safely(_rows(target, checks, started + seconds, on_check or _nothing))
    return [*rows, *check_solutions(name, started + seconds, on_check or _nothing)]


def _checks(level: Level) -> list[Check]:
    return [check for check in CHECKS if level == "semantic" or check.level == level]


def _another(named: NamedEnvironment) -> LocalServer:
    server = named.provider()
    assert isinstance(server, LocalServer)
    return server


def _target(
    base_url: str,
    seed: int,
    seconds: float,
    timeout_s: float | None,
    headers: Mapping[str, str] | None,
    reset: Mapping[str, Any] | None,
) -> Target:
    if not base_url.startswith(("http://", "https://")):
        raise ValueError(f"{base_url!r} is not a URL. Give one such as http://localhost:8000")
    if seed < 0:
        raise ValueError(f"seed={seed}: give 0 or more")
    if seconds < 5:
        raise ValueError(f"seconds={seconds:g}: give 5 or more")
    if timeout_s is None:
        timeout_s = _RESPONSE_SHARE * seconds
    address = ServerAddress(base_url=base_url, timeout_s=timeout_s, headers=headers or {})
    return Target(address=address, seed=seed, reset=reset or {})


async def _rows(target: Target, checks: Sequence[Check], deadline: float, on_check: OnCheck) -> list[CheckRow]:
    """deadline: of all checks together, in seconds of the monotonic clock."""
    limit_s = _CHECK_SHARE * (deadline - time.monotonic())
    rows: dict[str, CheckRow] = {}
    is_lost = False
    for check in checks:
        started = time.monotonic()
        on_check(check.name)
        missing = [name for name in check.needs if rows[name].result.status in ("fail", "skip")]
        if missing or is_lost:
            result = skipped(f"needs `{missing[0]}`" if missing else "the server is gone")
        else:
            result = await _result(check, target, min(limit_s, deadline - time.monotonic()))
            is_lost = not await _is_alive(target)
            if is_lost and result.status != "fail":
                result = failed(f"{result.seen}; then the server was gone", "see why its process ended")
        rows[check.name] = CheckRow(check.name, result, _since(started))
        log.info("checked %s: status=%s took_s=%.2f", check.name, result.status, rows[check.name].took_s)
    return list(rows.values())


async def _is_alive(target: Target) -> bool:
    """Whether the server still accepts connections."""
    try:
        async with target.client():
            return True
    except ServerUnreachable:
        return False
    except OpenEnvError:
        return True


async def _result(check: Check, target: Target, limit_s: float) -> CheckResult:
    if limit_s <= 0:
        return skipped("no time is left: give more with --seconds")
    try:
        async with asyncio.timeout(limit_s):
            return await check.run(target)
    except TimeoutError:
        return warned(f"not finished in {limit_s:.0f} s: the server responds slowly", "give more time with --seconds")
    except OpenEnvError as error:
        return _failure(error)
    except ExceptionGroup as group:  # of sessions that play at the same time: report the first
        return _failure(group.exceptions[0])
    except Exception as error:  # border: a foreign server may send anything, and the other checks continue
        log.info("check %s failed", check.name, exc_info=True)
        return _failure(error)


def _failure(error: Exception) -> CheckResult:
    if isinstance(error, RequestFailed):
        return failed(str(error), RAISES_REMEDY)
    if isinstance(error, OpenEnvError):
        return failed(str(error), "see the server's log: every request must receive a response in time")
    seen = f"the check cannot interpret the server's response ({type(error).__name__}: {error})"
    return failed(seen, "compare the response with docs/sessions.md; `openenv --verbose check` logs the traceback")


def _since(started: float) -> float:
    return time.monotonic() - started


def _nothing(_: str) -> None:
    return
