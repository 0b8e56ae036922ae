"""`openenv export`: recorded episodes in the forms of other tools."""

from pathlib import Path

import typer

from openenv.auto.resolver import FORMS
from openenv.integrations.data import FORMATS, export_episodes, load_episodes

EXAMPLE = "Examples: `openenv export episodes/random.jsonl --to datasets --out data`, "
EXAMPLE += "`openenv export recordings/1f3a.jsonl --to minari --out data/blackjack-v0`"
_FORMS = "; ".join(f"{name}: {what}" for name, (_, what) in FORMATS.items())


def export(
    files: list[Path] = typer.Argument(
        help="Export the episodes of these files: of `openenv eval --save`, of a server with --record-dir, or the "
        "transcripts.jsonl of a training run.",
        exists=True,
        dir_okay=False,
    ),
    to: str = typer.Option(help=f"Write this form. {_FORMS}."),
    out: Path = typer.Option(
        help="Write to this folder or file, which must not exist. With sft and dpo, a name that ends in .parquet or "
        ".jsonl makes a file."
    ),
    env: str = typer.Option(
        None,
        help=f"Replay recordings of sessions on a server of this environment: {FORMS} (default: the recorded one).",
    ),
    text: str = typer.Option(
        None, help="Use this text interface, MODULE:CLASS or FILE.py:CLASS (default: the environment's own)."
    ),
    fields: str = typer.Option(
        "",
        help="Write these fields of observations, separated by commas; only with minari (default: all).",
        show_default=False,
    ),
) -> None:
    """Write recorded episodes as a dataset of Hugging Face, Parquet, Minari, ATIF, or rows for TRL's trainers."""
    episodes = load_episodes(files, environment=env, text=text)
    chosen = [name.strip() for name in fields.split(",") if name.strip()]
    typer.echo(export_episodes(episodes, to, out, fields=chosen))
