"""Tables in Markdown."""

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table with its heading, or an empty text where it would have no rows. Cells are one line each.

    A column whose cells are all empty is left out.
    """
    found = list(rows)
    if not found:
        return ""
    kept = [number for number in range(len(head)) if any(row[number] for row in found)]
    lines = [_line([row[number] for number in kept]) for row in (head, *found)]
    return "\n".join([lines[0], "|" + "---|" * len(kept), *lines[1:]]) + "\n"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell(text) for text in cells)} |"


def cell(text: str) -> str:
    """A text as one line that ends no cell."""
    return " ".join(text.split()).replace("|", "\\|")


def code(text: object) -> str:
    """A value as code."""
    shown = " ".join(str(text).split())
    return f"`` {shown} ``" if "`" in shown else f"`{shown}`"
