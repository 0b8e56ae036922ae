"""All checks, in their order, each within its own time."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from openenv.core.errors import OpenEnvError, ServerUnreachable
from openenv.evaluation.quality.acting import actions
from openenv.evaluation.quality.concurrency import concurrency
from openenv.evaluation.quality.dialogue import Address
from openenv.evaluation.quality.endings import ending
from openenv.evaluation.quality.findings import Finding, Row, failed, skipped, warned
from openenv.evaluation.quality.isolation import isolation
from openenv.evaluation.quality.leaks import leaks
from openenv.evaluation.quality.reachable import reachable
from openenv.evaluation.quality.rewards import rewards
from openenv.evaluation.quality.schemas import schema
from openenv.evaluation.quality.seeds import other_seeds, same_seed, same_seed_again, same_seed_elsewhere
from openenv.evaluation.quality.serving import server_of
from openenv.evaluation.quality.snapshots import snapshots
from openenv.evaluation.quality.step_time import step_time
from openenv.evaluation.quality.subject import Subject
from openenv.evaluation.quality.verbs import verbs
from openenv.evaluation.quality.wrong_input import errors

log = logging.getLogger(__name__)

OnCheck = Callable[[str], None]
"""Called with the name of the check that begins."""

_ANSWER_SHARE = 1 / 12
_CHECK_SHARE = 1 / 4


@dataclass(frozen=True, slots=True)
class Check:
    """One row: a question, and those whose answer it builds on."""

    name: str
    run: Callable[[Subject], Awaitable[Finding]]
    needs: tuple[str, ...] = ()
    """Checks without whose success this one would only repeat their failure."""


_PLAYS = ("reachable", "actions", "verbs")
CHECKS = (
    Check("reachable", reachable),
    Check("actions", actions, ("reachable",)),
    Check("verbs", verbs, ("reachable", "actions")),
    Check("schema", schema, _PLAYS),
    Check("ending", ending, _PLAYS),
    Check("errors", errors, _PLAYS),
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
"""In the order in which they run."""


def check_url(
    base_url: str, *, seed: int = 0, seconds: float = 60.0, headers: Mapping[str, str] | None = None,
    on_check: OnCheck | None = None,
) -> list[Row]:  # fmt: skip
    """The rows of a server that runs already.

    seed: of the first episode, 0 or more. seconds: all checks together, 5 or more. headers: sent with each request.
    Raises ValueError for numbers outside these ranges and for a URL that is none.
    """
    subject = _subject(base_url, seed, seconds, headers)
    return asyncio.run(_rows(subject, time.monotonic() + seconds, on_check or _nothing))


def check_folder(
    folder: Path, *, seed: int = 0, seconds: float = 60.0, headers: Mapping[str, str] | None = None,
    on_check: OnCheck | None = None,
) -> list[Row]:  # fmt: skip
    """The rows of the environment in a folder, which is served for as long as they take.

    Takes and raises what `check_url` does, and LookupError where the folder holds no environment.
    """
    began = time.monotonic()
    _subject("http://127.0.0.1", seed, seconds, headers)  # wrong numbers are told before a server is started
    server = server_of(folder)
    with ExitStack() as stack:
        try:
            stack.enter_context(server)
        except ServerUnreachable as error:
            row = Row("reachable", failed(f"the server did not start: {error}", "mend what it says"), _since(began))
            return [row, *(Row(check.name, skipped("needs `reachable`"), 0.0) for check in CHECKS[1:])]
        subject = _subject(server.base_url, seed, seconds, headers)
        subject.server, subject.start_another = server, lambda: server_of(folder)
        return asyncio.run(_rows(subject, began + seconds, on_check or _nothing))


def _subject(base_url: str, seed: int, seconds: float, headers: Mapping[str, str] | None) -> Subject:
    if not base_url.startswith(("http://", "https://")):
        raise ValueError(f"{base_url!r} is no URL: give one such as http://localhost:8000")
    if seed < 0:
        raise ValueError(f"seed={seed}: give 0 or more")
    if seconds < 5:
        raise ValueError(f"seconds={seconds:g}: give 5 or more")
    address = Address(base_url=base_url, answer_s=_ANSWER_SHARE * seconds, headers=headers or {})
    return Subject(address=address, seed=seed)


async def _rows(subject: Subject, deadline: float, on_check: OnCheck) -> list[Row]:
    """deadline: of all checks together, in seconds of the monotonic clock."""
    most_s = _CHECK_SHARE * (deadline - time.monotonic())
    rows: dict[str, Row] = {}
    is_gone = False
    for check in CHECKS:
        began = time.monotonic()
        on_check(check.name)
        missing = [name for name in check.needs if rows[name].finding.status in ("fail", "skip")]
        if missing or is_gone:
            finding = skipped(f"needs `{missing[0]}`" if missing else "the server is gone")
        else:
            finding = await _finding(check, subject, min(most_s, deadline - time.monotonic()))
            is_gone = not await _answers(subject)
            if is_gone and finding.status != "fail":
                finding = failed(f"{finding.seen}; then the server was gone", "see why its process ended")
        rows[check.name] = Row(check.name, finding, _since(began))
        log.info("checked %s: status=%s took_s=%.2f", check.name, finding.status, rows[check.name].took_s)
    return list(rows.values())


async def _answers(subject: Subject) -> bool:
    """Whether the server is still there, however it fares."""
    try:
        async with subject.dialogue():
            return True
    except ServerUnreachable:
        return False
    except OpenEnvError:
        return True


async def _finding(check: Check, subject: Subject, most_s: float) -> Finding:
    if most_s <= 0:
        return skipped("the time was used up: give more with --seconds")
    try:
        async with asyncio.timeout(most_s):
            return await check.run(subject)
    except TimeoutError:
        return warned(f"not finished in {most_s:.0f} s: answers come, but slowly", "give more time with --seconds")
    except OpenEnvError as error:
        return _failure(error)
    except ExceptionGroup as group:  # of sessions that play side by side; the first says enough
        return _failure(group.exceptions[0])
    except Exception as error:  # border: another's server may say anything, and the other checks go on
        log.info("check %s failed", check.name, exc_info=True)
        return _failure(error)


def _failure(error: Exception) -> Finding:
    if isinstance(error, OpenEnvError):
        return failed(str(error), "see the server's log: every request wants an answer, in time")
    seen = f"what the server said makes no sense to the check ({type(error).__name__}: {error})"
    return failed(seen, "compare what it says with docs/sessions.md; `openenv --verbose check` says where")


def _since(began: float) -> float:
    return time.monotonic() - began


def _nothing(_: str) -> None:
    return
