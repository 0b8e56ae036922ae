"""Runs the hostile programs and prints what each did: `make hostile`, or `python -m tests.hostile [--level LEVEL]`."""

import argparse
import os
import sys

from rich.console import Console
from rich.table import Table

from openenv.core.sandbox.box_spec import PYTHON
from openenv.core.sandbox.host import users_of
from openenv.core.sandbox.sandbox import SandboxHost
from tests.hostile.bystanders import Bystanders
from tests.hostile.suite import programs, run


def main() -> None:
    """Run the programs, and exit with 1 if one was not contained."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--level", choices=("strongest", "namespaces", "landlock"), default="strongest")
    parser.add_argument("--only", default="", metavar="REGEX", help="run the programs whose name matches")
    parser.add_argument("--python", default=PYTHON, help="the interpreter of the programs (default: this one)")
    parser.add_argument("--outputs", action="store_true", help="print the end of each output too")
    args = parser.parse_args()
    outcomes = []
    console = Console(width=150)
    with SandboxHost(args.level, python=args.python) as host:
        user = users_of(host.pid)[1] if os.geteuid() == 0 else None
        with Bystanders(user) as bystanders:
            console.print(f"level {host.level}, user {os.geteuid()}:", host.layers)
            for path in programs(args.only):
                outcome = run(host, path, bystanders)
                outcomes.append(outcome)
                print(".", end="", flush=True, file=sys.stderr)
                if args.outputs:
                    console.print(
                        f"{outcome.name}: {(outcome.result.stdout + outcome.result.stderr)[-300:]!r}", markup=False
                    )
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


if __name__ == "__main__":
    main()
