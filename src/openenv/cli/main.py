"""The `openenv` command."""

import logging

import typer

from openenv.cli import compat_path, doctor, envs, serve, sft, train
from openenv.cli.authoring import certify, check, import_environment, init, validate
from openenv.cli.containers import build, deploy
from openenv.cli.hub import fork, pull, push, search
from openenv.cli.jobs import deploy_ray, deploy_slurm
from openenv.cli.pages import runs
from openenv.cli.playing import evaluate, export, replay, show
from openenv.core.env_server.observability.log_context import configure_logging
from openenv.hosting.command_line import run_command
from openenv.installation import bundle_version

_PLAY, _TRAIN = "Serve and play", "Train"
_AUTHOR, _SHARE = "Write an environment", "Share and deploy"
"""The groups of the commands in the help."""

app = typer.Typer(
    name="openenv",
    help="Serve environments, compare policies in them, and train language models to play them.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
app.command("envs", rich_help_panel=_PLAY, epilog=envs.EXAMPLE)(envs.envs)
app.command("serve", rich_help_panel=_PLAY, epilog=serve.EXAMPLE, context_settings=serve.PASSES_OPTIONS_ON)(serve.serve)
app.command("eval", rich_help_panel=_PLAY, epilog=evaluate.EXAMPLE)(evaluate.evaluate)
app.command("replay", rich_help_panel=_PLAY, epilog=replay.EXAMPLE)(replay.replay)
app.command("export", rich_help_panel=_PLAY, epilog=export.EXAMPLE)(export.export)
app.command("train", rich_help_panel=_TRAIN, epilog=train.EXAMPLE)(train.train)
app.command("sft", rich_help_panel=_TRAIN, epilog=sft.EXAMPLE)(sft.sft)
app.add_typer(runs.app, name="runs", rich_help_panel=_TRAIN)
app.command("init", rich_help_panel=_AUTHOR, epilog=init.EXAMPLE)(init.init)
app.command("import", rich_help_panel=_AUTHOR, epilog=import_environment.EXAMPLE)(import_environment.import_environment)
app.command("check", rich_help_panel=_AUTHOR, epilog=check.EXAMPLE)(check.check)
app.command("certify", rich_help_panel=_AUTHOR, epilog=certify.EXAMPLE)(certify.certify)
app.command("validate", rich_help_panel=_AUTHOR, epilog=validate.EXAMPLE)(validate.validate)
app.command("show", rich_help_panel=_AUTHOR, epilog=show.EXAMPLE)(show.show)
app.command("build", rich_help_panel=_SHARE, epilog=build.EXAMPLE)(build.build)
deploy.app.command("ray", epilog=deploy_ray.EXAMPLE)(deploy_ray.ray)
deploy.app.command("slurm", epilog=deploy_slurm.EXAMPLE)(deploy_slurm.slurm)
app.add_typer(deploy.app, name="deploy", rich_help_panel=_SHARE)
app.command("push", rich_help_panel=_SHARE, epilog=push.EXAMPLE)(push.push)
app.command("pull", rich_help_panel=_SHARE, epilog=pull.EXAMPLE)(pull.pull)
app.command("search", rich_help_panel=_SHARE, epilog=search.EXAMPLE)(search.search)
app.command("fork", rich_help_panel=_SHARE, epilog=fork.EXAMPLE)(fork.fork)
app.command("doctor", rich_help_panel=_SHARE, epilog=doctor.EXAMPLE)(doctor.doctor)
app.command("compat-path", rich_help_panel=_SHARE, epilog=compat_path.EXAMPLE)(compat_path.compat_path)


def _version(is_wanted: bool) -> None:
    if is_wanted:
        typer.echo(bundle_version())
        raise typer.Exit


@app.callback()
def _options(
    verbose: bool = typer.Option(False, "--verbose", "-v", help="Log requests and results (default: warnings only)."),
    json_log: bool = typer.Option(False, "--json-log", help="Log JSON lines (default: text)."),
    version: bool = typer.Option(
        False, "--version", help="Print the version and exit.", is_eager=True, callback=_version
    ),
) -> None:
    configure_logging(logging.INFO if verbose else logging.WARNING, "json" if json_log else "text")


def main() -> None:
    """Run the command line, as `run_command` does."""
    run_command(app)
