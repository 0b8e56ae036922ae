"""`openenv init`: write a new environment, complete as it is."""

from pathlib import Path

import typer

from openenv.cli.authoring.packages import require_empty, require_name, write_package

EXAMPLE = "Example: `openenv init my_env`"


def init(
    name: str = typer.Argument(
        help="Name of the environment and of its folder, in snake_case, such as my_env.", metavar="ENV_NAME"
    ),
    output_dir: Path = typer.Option(
        Path(),
        "--output-dir",
        "-o",
        help="Make its folder in this one (default: the current folder).",
        show_default=False,
    ),
) -> None:
    """Write a new environment: messages, rules, server, client, tests, README, Dockerfile and a training file. It can
    be checked, served and trained on as it is. Then edit models.py, server/environment.py and
    tests/test_environment.py."""
    require_name(name)
    folder = output_dir / name
    require_empty(folder)
    write_package(folder, name)
    typer.echo(f"written: {folder}\n\nNext, in {output_dir.resolve()}:\n  openenv check ./{name}")
    typer.echo(f"  openenv show ./{name}\n  openenv train {name}/train.yaml\n  openenv serve ./{name}")
