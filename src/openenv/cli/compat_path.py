"""`openenv compat-path`: where the modules are that early tutorials import."""

import typer

from openenv.installation import PACKAGE_FOLDER

EXAMPLE = "Example: `PYTHONPATH=$(openenv compat-path) python -m envs.openspiel_env.server.app --port 8004`"
FOLDER = PACKAGE_FOLDER / "compat" / "path"


def compat_path() -> None:
    """Print the folder that lets `envs`, `core`, `grpo_utils` and `apps.grpo` be imported, for PYTHONPATH. They are
    other names of the modules of this package."""
    typer.echo(FOLDER)
