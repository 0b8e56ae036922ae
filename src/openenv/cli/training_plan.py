"""`openenv train --plan`: the memory of a run in a table."""

from typing import TYPE_CHECKING

import typer
from rich import box
from rich.table import Table

from openenv.core.utils import run_async_safely
from openenv.evaluation.tables import table_console
from openenv.rl.config import Config

if TYPE_CHECKING:
    from openenv.rl.planning.plan import MemoryPlan


def print_plan(config: Config) -> None:
    """Print the plan of a run. Raises ConfigError if the run does not fit."""
    from openenv.rl.planning.plan import gigabytes, plan_run  # imports torch

    plan = run_async_safely(plan_run(config))
    table_console().print(plan_table(plan))
    plan.require()
    usable = "an unknown amount" if plan.usable_bytes is None else gigabytes(plan.usable_bytes)
    typer.echo(f"It fits: {gigabytes(plan.total_bytes)} of {usable} on {plan.device}.")
    if plan.tokens_per_forward is not None:
        given = "given" if config.trainer.tokens_per_forward else "chosen"
        typer.echo(f"trainer.tokens_per_forward: {plan.tokens_per_forward} ({given}).")
    if plan.tokens_at_once is not None:
        given = "given" if config.sampling.tokens_at_once else "chosen"
        typer.echo(f"sampling.tokens_at_once: {plan.tokens_at_once} ({given}).")
    steps = config.trainer.training.steps
    typer.echo(f"Time: {steps} steps. The run shows the minutes to their end after its second step.")


def plan_table(plan: "MemoryPlan") -> Table:
    """The parts of a plan with their sizes. Of training and evaluation the larger one counts."""
    from openenv.rl.planning.plan import gigabytes, size_of  # imports torch

    title = f"Memory of {plan.num_weights / 1e6:,.1f} million weights on {plan.device}"
    table = Table(title=title, box=box.SIMPLE, pad_edge=False)
    table.add_column("part", no_wrap=True)
    table.add_column("memory", justify="right", no_wrap=True)
    table.add_column("note")
    for part in plan.always:
        table.add_row(part.name, gigabytes(part.size_bytes), part.note)
    for phase, parts in (("training", plan.training), ("evaluation", plan.evaluation)):
        table.add_section()
        for part in parts:
            table.add_row(f"{phase}: {part.name}", gigabytes(part.size_bytes), part.note)
        table.add_row(f"{phase}: all", gigabytes(size_of(plan.always) + size_of(parts)), "with what is always there")
    return table
