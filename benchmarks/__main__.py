"""Every comparison with the published package, in one run: `python -m benchmarks [PART ...]`, or `make bench`.

Absolute figures move from machine to machine and run to run; the ratios stand. See docs/performance.md.
"""

import argparse

from rich.console import Console

from benchmarks import frames, report, sockets, startup, steps, vector
from benchmarks.peers import Sides

PARTS = {
    "steps": ("Steps of single sessions", steps.rows),
    "vector": ("Vector sessions", vector.rows),
    "frames": ("Arrays", frames.rows),
    "sockets": ("Both ends on one machine", sockets.rows),
    "startup": ("Start and sessions", startup.rows),
}


def main() -> None:
    """Measure the parts in turns, print their tables, write JSON and plot."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], help="All of them when none is named.")
    parser.add_argument("--published-python", default=".venv-published/bin/python")
    parser.add_argument("--rounds", type=int, default=3, help="Turns of each side (default 3); medians are shown.")
    parser.add_argument("--seconds", type=float, default=3.0, help="Length of one turn (default 3).")
    args = parser.parse_args()
    sides = Sides(args.published_python, args.rounds, args.seconds)
    results = {}
    for part in args.parts or PARTS:
        title, rows = PARTS[part]
        Console(stderr=True).print(f"measuring: {title}")
        results[title] = rows(sides)
        report.show(title, results[title])
    report.write(results)


if __name__ == "__main__":
    main()
