"""Promises broken and mends reverted in a copy of the source: a test must fail. Run by `make test-slow`."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.findings import ROWS
from tests.mutations.findings import FIRST_ROW, MENDS
from tests.mutations.mutation import Mutation, TextMutation
from tests.mutations.promises import PROMISES

ROOT = Path(__file__).parents[2]
BROKEN_PROGRAM = re.compile(r"\b(ImportError|ModuleNotFoundError|SyntaxError|NameError|UnboundLocalError)\b")

REVERTED = {
    f"{row} ({number})": (row, mutation)
    for row, mutations in MENDS.items()
    for number, mutation in enumerate(mutations, start=1)
}
ALL = PROMISES | {name: mutation for name, (_, mutation) in REVERTED.items()}


def test_every_row_of_the_table_of_findings_has_a_mend_that_can_be_reverted():
    assert list(MENDS) == list(ROWS[ROWS.index(FIRST_ROW) :])
    assert all(MENDS.values())


@pytest.mark.parametrize("name", ALL)
def test_a_mutation_replaces_one_place_and_leaves_a_module_that_compiles(name):
    mutation = ALL[name]
    text = (ROOT / "src" / mutation.path).read_text(encoding="utf-8")
    changed = mutation.applied(text)

    assert changed != text
    if mutation.path.suffix == ".py":
        compile(changed, mutation.path, "exec")
        assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(text))


@pytest.mark.slow
@pytest.mark.parametrize("promise", PROMISES)
def test_breaking_a_promise_turns_a_test_red(promise):
    print(promise, "->", first_failure(PROMISES[promise]))


@pytest.mark.slow
@pytest.mark.parametrize("name", REVERTED)
def test_reverting_a_mend_turns_a_test_of_its_row_red(name):
    row, mutation = REVERTED[name]
    print(name, "->", first_failure(mutation, "-p", "tests.findings", "--finding", row))


def first_failure(mutation: Mutation | TextMutation, *options: str) -> str:
    """The first test that fails with a mutation, and why. Raises AssertionError if none does."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "src")
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
        os.chmod(folder, 0o755)  # tests of sandboxes run as another user too
        path = source / mutation.path
        path.write_text(mutation.applied(path.read_text(encoding="utf-8")), encoding="utf-8")

        environment = {**os.environ, "PYTHONPATH": f"{source}:{ROOT}", "COLUMNS": "300"}
        command = [sys.executable, "-m", "pytest", "-x", "-q", "--timeout", "60", "-p", "no:cacheprovider", *options]
        done = subprocess.run(
            [*command, *mutation.tests.split()], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )

    shown = f"{done.stdout[-2000:]}{done.stderr[-2000:]}"
    failures = [line for line in done.stdout.splitlines() if line.startswith(("FAILED tests", "ERROR tests"))]
    assert done.returncode == 1, f"no test failed\n{shown}"
    assert failures, f"no test failed\n{shown}"
    assert not BROKEN_PROGRAM.search(failures[0]), f"a program that does not run proves nothing: {failures[0]}"
    return failures[0]
