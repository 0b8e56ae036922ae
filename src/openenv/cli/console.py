"""Where commands print their tables."""

from rich.console import Console

_FILE_WIDTH = 120


def table_console() -> Console:
    """Standard output: as wide as the terminal, or as a table needs where it is a file or a pipe."""
    console = Console()
    return console if console.is_terminal else Console(width=max(_FILE_WIDTH, console.width))
