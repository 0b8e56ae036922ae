"""The page of the commands: what `--help` prints of each, as plain text."""

from collections.abc import Iterator
from typing import Any

import typer
from typer.main import get_command

from openenv.cli.main import app

_COLUMNS = 88


def page() -> str:
    """The page: a section for each command, in the order of `openenv --help`."""
    command = get_command(app)
    blocks = [
        "# Commands",
        "What `openenv COMMAND --help` prints, without its frames. `openenv --install-completion` lets the shell "
        "complete names of commands, environments and policies.",
    ]
    for name, each in _commands(command, "openenv"):
        blocks.append(f"## `{name}`\n\n```text\n{_help(each, name)}\n```")
    return "\n\n".join(blocks) + "\n"


def _commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    """A command and those below it, by the words that call them."""
    yield name, command
    for word, inner in getattr(command, "commands", {}).items():
        if not inner.hidden:
            yield from _commands(inner, f"{name} {word}")


def _help(command: Any, name: str) -> str:
    """The help of a command without colours and frames."""
    command.rich_markup_mode = None
    context = typer.Context(command, info_name=name, max_content_width=_COLUMNS, terminal_width=_COLUMNS)
    formatter = context.make_formatter()
    command.format_help(context, formatter)
    return formatter.getvalue().rstrip()
