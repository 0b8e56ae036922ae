"""Comparisons with the published package, interleaved in one run: `python -m benchmarks [PART ...]`, or `make bench`.

Absolute figures differ from machine to machine and from run to run; ratios differ less. See docs/performance.md.
"""

import argparse

from rich.console import Console

from benchmarks import report, startup, steps, vector
from benchmarks.peers import Sides

PARTS = {
    "steps": ("Steps of single sessions", steps.rows),
    "busy": ("Steps beside one busy process", steps.busy_rows),
    "polling": ("Busy polling beside two busy processes", steps.polling_rows),
    "blocked": ("Sessions beside a step that sleeps", steps.blocked_rows),
    "vector": ("Vector sessions", vector.rows),
    "frames": ("Arrays", steps.screen_rows),
    "startup": ("Start and sessions", startup.rows),
}


def main() -> None:
    """Measure the parts in turns, print their tables, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], help="Parts to measure (default all).")
    parser.add_argument("--published-python", default=".venv-published/bin/python",
                        help="Interpreter that has the published package (default %(default)s).")  # fmt: skip
    parser.add_argument("--rounds", type=int, default=3, help="Turns of each side; medians are shown (default 3).")
    parser.add_argument("--seconds", type=float, default=3.0, help="Seconds of one turn (default 3).")
    parser.add_argument("--markdown", action="store_true",
                        help="Print the last results as a Markdown table; measure nothing.")  # fmt: skip
    args = parser.parse_args()
    if args.markdown:
        try:
            print(report.markdown())
        except FileNotFoundError as error:
            parser.error(f"no results to print: {error.filename} does not exist. Run `python -m benchmarks` first.")
    else:
        measure(args.parts or list(PARTS), Sides(args.published_python, args.rounds, args.seconds))


def measure(parts: list[str], sides: Sides) -> None:
    """Measure the named parts, print their tables, and write the results."""
    results = {}
    for part in parts:
        title, rows = PARTS[part]
        Console(stderr=True).print(f"measuring: {title}")
        results[title] = rows(sides)
        report.show(title, results[title])
    report.write(results)


if __name__ == "__main__":
    main()
