"""Runs the hostile programs and prints what each did: `make hostile`, or `python -m tests.hostile [--level LEVEL]`."""

import argparse
import contextlib
import os
import sys

import pytest
from rich.console import Console
from rich.table import Table

from openenv.hosting.sandbox.box_spec import PYTHON
from openenv.hosting.sandbox.sandbox import SandboxHost
from tests.hostile.bystanders import Bystanders
from tests.hostile.levels import DockerLevel, Level, SandboxLevel
from tests.hostile.suite import programs, run
from tests.hosting.engines import engine_of_this_run


def main() -> None:
    """Run the programs, and exit with 1 if one was not contained."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--level", choices=("strongest", "namespaces", "landlock", "docker"), default="strongest")
    parser.add_argument("--only", default="", metavar="REGEX", help="run the programs whose name matches")
    parser.add_argument("--python", default=PYTHON, help="the interpreter of the programs (default: this one)")
    parser.add_argument("--outputs", action="store_true", help="print the end of each output too")
    args = parser.parse_args()
    outcomes = []
    console = Console(width=150)
    with contextlib.ExitStack() as on_exit:
        try:
            level = _level(args, on_exit)
        except pytest.skip.Exception as reason:
            console.print(f"level {args.level}: not run, {reason}")
            return
        bystanders = on_exit.enter_context(Bystanders(level.user))
        console.print(f"level {level.name}, user {os.geteuid()}:", level.layers)
        for path in programs(args.only):
            outcome = run(level, path, bystanders)
            outcomes.append(outcome)
            print(".", end="", flush=True, file=sys.stderr)
            if args.outputs:
                end = (outcome.result.stdout + outcome.result.stderr)[-300:]
                console.print(f"{outcome.name}: {end!r}", markup=False)
    table = Table("program", "category", "how it ended", "neighbour", "harm")
    for outcome in outcomes:
        table.add_row(
            outcome.name,
            outcome.category,
            outcome.result.reason,
            f"{outcome.slowest_neighbour_s:.2f} s",
            "; ".join(outcome.harm),
        )
    console.print(table)
    failed = [outcome.name for outcome in outcomes if outcome.harm]
    slowest = max(outcome.slowest_neighbour_s for outcome in outcomes)
    console.print(
        f"{len(outcomes) - len(failed)} of {len(outcomes)} contained; a neighbour took {slowest:.2f} s at most"
    )
    sys.exit(1 if failed else 0)


def _level(args: argparse.Namespace, on_exit: contextlib.ExitStack) -> Level:
    """The level that is asked for, which ends with the stack. Raises pytest's Skipped where there is no engine."""
    if args.level != "docker":
        return SandboxLevel(on_exit.enter_context(SandboxHost(args.level, python=args.python)))
    client = on_exit.enter_context(engine_of_this_run(str(os.getpid())))
    return on_exit.enter_context(contextlib.closing(DockerLevel(client, "echo-env")))


if __name__ == "__main__":
    main()
