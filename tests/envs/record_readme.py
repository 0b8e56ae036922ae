"""Writes the table of environments into README: `python -m tests.envs.record_readme`, after a change of a manifest."""

import re
from pathlib import Path

from openenv.envs.catalog import entries

README = Path(__file__).parents[2] / "README.md"
_TABLE = re.compile(r"(?<=\| name \| environment \|\n\|---\|---\|\n)(?:\|.*\n)+")


def table() -> str:
    """A row for each environment."""
    return "".join(f"| `{entry.name}` | {entry.description.removesuffix('.')} |\n" for entry in entries())


def recorded() -> str:
    """The rows of README."""
    found = _TABLE.search(README.read_text(encoding="utf-8"))
    assert found is not None, "README has no table of environments"
    return found[0]


def main() -> None:
    """Write the rows."""
    text = README.read_text(encoding="utf-8")
    README.write_text(text.replace(recorded(), table()), encoding="utf-8")


if __name__ == "__main__":
    main()
