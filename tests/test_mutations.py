"""Promises that nobody would notice to be broken, broken on purpose: a test must go red. Run by `make test-slow`.

Each mutation changes one expression in a copy of the source, against which the tests of that promise are run.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
SERVER = "openenv/core/env_server"


class Mutation(NamedTuple):
    """An expression of one file, what it becomes, and the tests that must notice."""

    file: str
    expression: str
    becomes: str
    tests: str


LOST = "tests/core/test_lost_connections.py"
LIMITS = "tests/core/test_limits_and_workers.py"
SESSIONS = "tests/core/test_sessions.py"
VALIDITY = "tests/core/test_validity.py"
MUTATIONS = {
    "request ids: a repeat is done again": Mutation(
        f"{SERVER}/answers_kept.py", "return self.newer.get(key) or self.older.get(key)", "return None", LOST
    ),
    "request ids: a repeat over HTTP is done again": Mutation(
        f"{SERVER}/routes.py", "body.request_id, _traceparent", "None, _traceparent", "tests/core/test_http.py"
    ),
    "request ids: a client takes any answer for its own": Mutation(
        "openenv/core/blocking_session.py", 'if message.get("id") == request_id or', "if True or", SESSIONS
    ),
    "request ids: an asynchronous client takes answers in order": Mutation(
        "openenv/core/async_session.py",
        'self._open.get(message.get("id"))',
        "next(iter(self._open.values()), None)",
        "tests/core/test_client_modes.py",
    ),
    "grace period: a session ends with its connection": Mutation(
        f"{SERVER}/sessions.py", "if keep and self.config.grace_s > 0 and not self.is_draining:", "if False:", LOST
    ),
    "grace period: a forgotten session stays for ever": Mutation(
        f"{SERVER}/sessions.py", "if min(away_s, idle_s) > self.config.grace_s or", "if", LOST
    ),
    "time limit: none in threads and coroutines": Mutation(
        f"{SERVER}/hosts.py", "async with asyncio.timeout(timeout_s):\n            return await awaitable",
        "async with asyncio.timeout(None):\n            return await awaitable", f"{LIMITS} -k CountingEnvironment"
    ),
    "time limit: none in the event loop": Mutation(
        f"{SERVER}/inline_limit.py", "if RUNNING.deadline and", "if False and", f"{LIMITS} -k InlineEnvironment"
    ),
    "time limit: none in workers": Mutation(
        f"{SERVER}/worker.py", "async with asyncio.timeout(timeout_s):", "async with asyncio.timeout(None):",
        f"{LIMITS} -k ProcessEnvironment",
    ),
    "validity: a truncated episode is told as valid": Mutation(
        f"{SERVER}/wire.py", "_TRUNCATED if truncated else _VALID", "_VALID", VALIDITY
    ),
    "validity: a failure of the environment is told as the client's": Mutation(
        f"{SERVER}/wire.py", '"validity": error.validity', '"validity": "refused"', VALIDITY
    ),
    "validity: an invalid episode is trained on": Mutation(
        "openenv/rl/trajectory.py", 'return self.outcome != "invalid"', "return True", "tests/rl/test_rollout.py"
    ),
}  # fmt: skip


def mutated_source(mutation: Mutation, folder: Path) -> Path:
    """A copy of the source with the expression changed in one place."""
    source = folder / "src"
    shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
    file = source / mutation.file
    text = file.read_text()
    assert text.count(mutation.expression) == 1, (
        f"{mutation.file} has the expression {text.count(mutation.expression)}x"
    )
    file.write_text(text.replace(mutation.expression, mutation.becomes))
    return source


@pytest.mark.parametrize("promise", MUTATIONS)
def test_breaking_a_promise_turns_a_test_red(promise, tmp_path):
    mutation = MUTATIONS[promise]
    environment = {**os.environ, "PYTHONPATH": f"{mutated_source(mutation, tmp_path)}:{ROOT}"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--timeout", "60", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, *mutation.tests.split()], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )

    assert done.returncode == 1, f"{promise}: no test went red\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
    print(promise, "->", next(line for line in done.stdout.splitlines() if line.startswith("FAILED")))
