"""`python -m openenv.auto NAME`: serves the environment of a name, for child processes of this package."""

from openenv.auto.serving import serve_named
from openenv.hosting.command_line import run_command

if __name__ == "__main__":
    run_command(serve_named)
