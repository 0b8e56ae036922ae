"""The `openenv` command."""

import logging
import signal
import sys

import typer

from openenv.cli import compat_path, envs, serve, sft, train
from openenv.cli.authoring import check, import_environment, init, validate
from openenv.cli.containers import build, deploy
from openenv.cli.hub import fork, pull, push
from openenv.cli.pages import runs
from openenv.cli.playing import evaluate, export, replay, show
from openenv.core.env_server.observability.log_context import configure_logging

app = typer.Typer(
    name="openenv",
    help="Serve environments, compare policies in them, and train language models to play them.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
app.command("init", epilog=init.EXAMPLE)(init.init)
app.command("import", epilog=import_environment.EXAMPLE)(import_environment.import_environment)
app.command("envs", epilog=envs.EXAMPLE)(envs.envs)
app.command("serve", epilog=serve.EXAMPLE, context_settings=serve.PASSES_OPTIONS_ON)(serve.serve)
app.command("eval", epilog=evaluate.EXAMPLE)(evaluate.evaluate)
app.command("build", epilog=build.EXAMPLE)(build.build)
app.add_typer(deploy.app, name="deploy")
app.command("push", epilog=push.EXAMPLE)(push.push)
app.command("pull", epilog=pull.EXAMPLE)(pull.pull)
app.command("fork", epilog=fork.EXAMPLE)(fork.fork)
app.command("check", epilog=check.EXAMPLE)(check.check)
app.command("validate", epilog=validate.EXAMPLE)(validate.validate)
app.command("show", epilog=show.EXAMPLE)(show.show)
app.command("replay", epilog=replay.EXAMPLE)(replay.replay)
app.command("export", epilog=export.EXAMPLE)(export.export)
app.command("compat-path", epilog=compat_path.EXAMPLE)(compat_path.compat_path)
app.command("train", epilog=train.EXAMPLE)(train.train)
app.command("sft", epilog=sft.EXAMPLE)(sft.sft)
app.command("runs", epilog=runs.EXAMPLE)(runs.runs)


@app.callback()
def _options(
    verbose: bool = typer.Option(False, "--verbose", "-v", help="Log requests and results (default: warnings only)."),
    json_log: bool = typer.Option(False, "--json-log", help="Log JSON lines (default: text)."),
) -> None:
    configure_logging(logging.INFO if verbose else logging.WARNING, "json" if json_log else "text")


def main() -> None:
    """Run the command line. Exit codes: 0 done, 1 failed, 2 wrong arguments, 130 interrupted, 143 terminated."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # SystemExit also stops the servers it has started
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(130)
    except (ValueError, LookupError, OSError, RuntimeError, ImportError) as error:
        # border: one line for an error that a user can correct; --verbose logs the traceback
        logging.getLogger(__name__).info("failed", exc_info=True)
        typer.echo(f"openenv: {error}", err=True)
        sys.exit(1)
