"""`openenv runs`: a page with the runs of training, and what one of them waits for."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.table import Table
from typer.core import TyperGroup

from openenv.cli.option_groups import with_option_groups
from openenv.cli.pages.options import PageOptions

if TYPE_CHECKING:
    from openenv.rl.waiting.status import PartStatus, RunStatus

EXAMPLE = "Example: `openenv runs`, while `openenv train` runs in another terminal"
STATUS_EXAMPLE = "Example: `openenv runs status runs/blackjack`"
_NEWEST_EVENTS = 10


class _PageByDefault(TyperGroup):
    """`openenv runs FOLDER` serves the page."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Called by the library."""
        names_command = bool(args) and args[0] in (*self.commands, "--help")
        return super().parse_args(ctx, args if names_command else ["page", *args])


app = typer.Typer(cls=_PageByDefault, help="Look at runs of training.")


@app.command("page", epilog=EXAMPLE)
@with_option_groups
def runs(
    folder: Path = typer.Argument(
        Path("runs"), file_okay=False, help="Serve the runs in this folder (default runs).", show_default=False
    ),
    page: PageOptions = PageOptions(),
) -> None:
    """Serve a page with curves of runs while they train, their transcripts, and their settings, until interrupted."""
    from openenv.pages.runs import runs_app
    from openenv.pages.server import PageServer, access_config

    app = runs_app(folder, access_config(page.host, os.environ.get("OPENENV_TOKEN")))
    with PageServer(app, page.host, page.port) as server:
        place = folder if folder.is_dir() else f"{folder}, which is not there yet,"
        typer.echo(f"runs of {place} at {server.url}; stop it with Ctrl-C", err=True)
        server.wait()


@app.command("status", epilog=STATUS_EXAMPLE)
def status(
    run: Path | None = typer.Argument(
        None, exists=True, file_okay=False, help="The folder of the run (default: the newest in runs)."
    ),
) -> None:
    """Print what a run does at this moment: what waits for what and since when, its processes, and what happened to
    them."""
    from openenv.pages.run_folders import RunFolders
    from openenv.rl.reports.run_state import run_state
    from openenv.rl.waiting.status import RunStatus

    if run is None:
        names = RunFolders(Path("runs")).names()
        if not names:
            raise typer.BadParameter("there is no run in the folder runs: name the folder of one", param_hint="RUN")
        run = Path("runs") / names[0]
    known = RunStatus.read(run)
    if known is None:
        raise typer.BadParameter(f"{run} has no status: its run has not begun to train", param_hint="RUN")
    state = run_state(run)
    console = Console(emoji=False, markup=False)
    for line in _head(run, state, known):
        console.print(line, highlight=False, soft_wrap=True)
    for table in _tables(known, is_running=state == "running"):
        console.print(table)


def _head(run: Path, state: str, known: "RunStatus") -> list[str]:
    versions = ", ".join(f"version {version} with {holder}" for holder, version in known.versions.items())
    lines = [f"{run}: {state}, step {known.step}; {versions}; {known.steps_waiting} played steps wait for the trainer"]
    if state == "running" and known.is_old:
        lines.append(f"The driver, process {known.pid}, has reported nothing for {known.age_s:.0f} s.")
    return lines


def _answered(part: "PartStatus") -> str:
    return f"{part.silent_s:.1f} s ago" if part.answers else "not since its start"


def _tables(known: "RunStatus", *, is_running: bool) -> list[Table]:
    """Of one that does not run any more: what it waited for when it ended."""
    waits = Table("what", "waits for", "how often", "since", title="Waits" if is_running else "Waits at its end")
    for wait in known.all_waits:
        waits.add_row(wait.waiter, wait.awaited, str(wait.number), f"{wait.longest_s:.1f} s")
    parts = Table("process", "pid", "machine", "starts", "answered", "requests waiting", title="Processes")
    for part in known.parts:
        place = (part.node or "this one", str(part.starts), _answered(part), str(part.waiting))
        parts.add_row(part.name, str(part.pid), *place)
    speeds = Table("generator", "tokens/s", title="Generators")
    for name, speed in known.tokens_per_s.items():
        speeds.add_row(name, f"{speed:,.0f}")
    events = Table("seconds ago", "process", "what", title="Events")
    for event in known.events[-_NEWEST_EVENTS:]:
        events.add_row(f"{known.time_s - event.time_s:.0f}", event.part, event.what)
    return [table for table in (waits, parts, speeds, events) if table.row_count]
