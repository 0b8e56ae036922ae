"""Promises broken on purpose in a copy of the source: a test must fail. Run by `make test-slow`.

Each mutation replaces one expression or statement of one function, found by its role in the syntax tree.
"""

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]

Find = Callable[[ast.AST], list[ast.AST]]
"""Finds what a mutation replaces in a function."""


class Mutation(NamedTuple):
    """What of a function becomes what, and the tests that must fail then."""

    function: str
    find: Find
    becomes: str
    tests: str


def returned() -> Find:
    """The value of a return statement."""
    return lambda function: [node.value for node in ast.walk(function) if isinstance(node, ast.Return) and node.value]


def condition_on(name: str) -> Find:
    """The condition of an `if`, statement or expression, that mentions a name or an attribute."""
    return lambda function: [
        node.test for node in ast.walk(function) if isinstance(node, ast.If | ast.IfExp) and _mentions(node.test, name)
    ]


def argument_of(name: str, position: int = 0) -> Find:
    """A positional argument of the calls of a function or method."""
    return lambda function: [
        node.args[position]
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and _name(node.func) == name and len(node.args) > position
    ]


def item(key: str) -> Find:
    """The value of a key in a dictionary."""
    return lambda function: [
        value
        for node in ast.walk(function)
        if isinstance(node, ast.Dict)
        for at, value in zip(node.keys, node.values, strict=True)
        if isinstance(at, ast.Constant) and at.value == key
    ]


def storing_in(name: str) -> Find:
    """The assignment to an item of a mapping."""
    return lambda function: [
        node
        for node in ast.walk(function)
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Subscript)
        and _name(node.targets[0].value) == name
    ]


def _name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _mentions(node: ast.AST, name: str) -> bool:
    return any(_name(part) == name for part in ast.walk(node))


SERVER = "openenv.core.env_server"
SESSION = "openenv.core.client.session:ClientSession"
FIRST_IN_FLIGHT = 'next(iter(self._in_flight), "")'
LOST = "tests/core/client/test_lost_connections.py"
LIMITS = "tests/core/env_server/execution/test_time_limits.py"
VALIDITY = "tests/core/env_server/sessions/test_validity.py"
MUTATIONS = {
    "request ids: a repeat is done again": Mutation(
        f"{SERVER}.sessions.response_cache:ResponseCache.put", storing_in("results"), "pass", LOST
    ),
    "request ids: a repeat over HTTP is done again": Mutation(
        f"{SERVER}.http.routes:_add_verbs.step", argument_of("SessionRequest", 2), "None",
        "tests/core/env_server/http/test_routes.py",
    ),
    "request ids: a client takes any response for its own": Mutation(
        f"{SESSION}.receive", argument_of("pop"), FIRST_IN_FLIGHT, "tests/core/client/test_session.py"
    ),
    "request ids: an asynchronous client takes responses in order": Mutation(
        f"{SESSION}.receive", argument_of("pop"), FIRST_IN_FLIGHT, "tests/core/client/test_modes.py"
    ),
    "grace period: a session ends with its connection": Mutation(
        f"{SERVER}.sessions.manager:SessionManager.detach", condition_on("reconnect_grace_s"), "False", LOST
    ),
    "grace period: a session without a client never ends": Mutation(
        f"{SERVER}.sessions.manager:SessionManager.reap_idle", condition_on("reconnect_grace_s"), "False", LOST
    ),
    "time limit: none in threads": Mutation(
        f"{SERVER}.execution.env_thread:EnvThread._watch", condition_on("timeout_s"), "False",
        f"{LIMITS} -k CountingEnvironment",
    ),
    "time limit: none in coroutines": Mutation(
        f"{SERVER}.execution.executors:_await_with_timeout", argument_of("timeout"), "None",
        f"{LIMITS} -k AsyncEnvironment",
    ),
    "time limit: none in the event loop": Mutation(
        f"{SERVER}.execution.inline_timeout:_check", condition_on("deadline"), "False", f"{LIMITS} -k InlineEnvironment"
    ),
    "time limit: none in workers": Mutation(
        f"{SERVER}.execution.process_executor:ProcessExecutor._request", argument_of("timeout"), "None",
        f"{LIMITS} -k ProcessEnvironment",
    ),
    "validity: a truncated episode is reported as valid": Mutation(
        "openenv.core.wire.server_codec:extended_response_frame", condition_on("truncated"), "False", VALIDITY
    ),
    "validity: a failure of the environment is reported as the client's": Mutation(
        "openenv.core.wire.server_codec:extended_error_frame", item("validity"), '"refused"', VALIDITY
    ),
    "validity: an invalid episode is trained on": Mutation(
        "openenv.rl.algorithm.trajectory:Trajectory.valid", returned(), "True", "tests/rl/algorithm/test_batch.py"
    ),
}  # fmt: skip

each_promise = pytest.mark.parametrize("promise", MUTATIONS)


def path_of(mutation: Mutation) -> Path:
    """The file of the function, relative to the source's folder."""
    return Path(*mutation.function.partition(":")[0].split(".")).with_suffix(".py")


def mutated(mutation: Mutation, text: str) -> str:
    """The module's text with the mutation. Raises ValueError unless it applies in exactly one place."""
    node: ast.AST = ast.parse(text)
    for name in mutation.function.partition(":")[2].split("."):
        parts = [part for part in ast.iter_child_nodes(node) if getattr(part, "name", "") == name]
        if len(parts) != 1:
            raise ValueError(f"{mutation.function}: {name} is defined {len(parts)} times")
        (node,) = parts
    found = mutation.find(node)
    if len(found) != 1:
        raise ValueError(f"{mutation.function}: {len(found)} places to replace")
    return _replaced(text, found[0], mutation.becomes)


def _replaced(text: str, node: ast.AST, becomes: str) -> str:
    lines = text.encode().splitlines(keepends=True)
    start = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
    end = sum(map(len, lines[: node.end_lineno - 1])) + node.end_col_offset
    encoded = text.encode()
    return (encoded[:start] + becomes.encode() + encoded[end:]).decode()


@each_promise
def test_a_mutation_replaces_one_place_of_its_function(promise):
    mutation = MUTATIONS[promise]
    text = (ROOT / "src" / path_of(mutation)).read_text(encoding="utf-8")
    changed = mutated(mutation, text)

    assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(text))


@pytest.mark.slow
@each_promise
def test_breaking_a_promise_turns_a_test_red(promise, tmp_path):
    mutation = MUTATIONS[promise]
    source = tmp_path / "src"
    shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
    path = source / path_of(mutation)
    path.write_text(mutated(mutation, path.read_text(encoding="utf-8")), encoding="utf-8")

    environment = {**os.environ, "PYTHONPATH": f"{source}:{ROOT}"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--timeout", "60", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, *mutation.tests.split()], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )

    assert done.returncode == 1, f"{promise}: no test failed\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
    print(promise, "->", next(line for line in done.stdout.splitlines() if line.startswith("FAILED")))
