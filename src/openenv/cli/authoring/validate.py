"""`openenv validate`: the checks of `openenv check`, with the arguments and exit codes of the published command."""

import time
from pathlib import Path
from typing import NoReturn, get_args

import typer

from openenv.auto.environment import named_environment
from openenv.auto.environment_folder import folder_target
from openenv.auto.resolver import FORMS
from openenv.cli.authoring.check import as_object, report, run_checks
from openenv.cli.completion import environment_names
from openenv.envs.catalog import read_manifest
from openenv.evaluation.quality import CheckRow, Level
from openenv.evaluation.quality.target import failed, passed
from openenv.formats.json_text import json_text

EXAMPLE = "Examples: `openenv validate`, `openenv validate --url http://localhost:8000 --level runtime --json`"
_FAILED, _NO_ENVIRONMENT, _CANNOT_RUN = 1, 2, 3
_STATIC = "static"
_POLICIES = ("v1", "v2")


def validate(
    target: str | None = typer.Argument(
        None,
        help=f"Check this environment: {FORMS} (default: the current folder).",
        autocompletion=environment_names,
    ),
    url: str | None = typer.Option(None, "--url", help="Check the running server of this URL (default: TARGET)."),
    level: str = typer.Option(
        "semantic",
        "--level",
        help="Run the checks up to this level: static (the manifest, without a server), runtime (the specification), "
        "or semantic (all; default).",
    ),
    skip_build: bool = typer.Option(
        False, "--skip-build", help="Build no image, which this command does not do anyway (default)."
    ),
    local: bool = typer.Option(False, "--local", help="Refuse a URL (default: check it)."),
    policy: str | None = typer.Option(
        None, "--policy", help="Accepted for scripts, as v1 or v2: the checks have one severity (default: the same)."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON instead of a table (default: a table)."),
    output: Path | None = typer.Option(None, "--output", help="Also write the JSON to this file (default: none)."),
    timeout: float = typer.Option(
        5.0, "--timeout", min=0.1, help="Fail a check whose response takes longer, in seconds."
    ),
) -> None:
    """Check an environment, as `openenv check` does. Exit codes: 0 passed, 1 a check failed or the target is not clear,
    2 no environment, 3 an unknown level or policy, or no place for the output."""
    if level not in (_STATIC, *get_args(Level)):
        _end(_CANNOT_RUN, f"--level {level}: give one of {', '.join((_STATIC, *get_args(Level)))}")
    if policy not in (None, *_POLICIES):
        _end(_CANNOT_RUN, f"--policy {policy}: give one of {', '.join(_POLICIES)}")
    if output is not None and not output.absolute().parent.is_dir():
        _end(_CANNOT_RUN, f"--output {output}: there is no folder {output.parent}")
    checked = _target(target, url, local=local)
    if level == _STATIC and Path(checked, "openenv.yaml").is_file():
        rows = [_manifest_row(Path(checked))]
    else:
        try:
            named_environment(checked)
        except LookupError as error:
            _end(_NO_ENVIRONMENT, str(error))
        rows = run_checks(checked, level="runtime" if level == _STATIC else level, timeout_s=timeout)
    if output is not None:
        output.write_text(json_text(as_object(checked, rows), indent=2) + "\n", encoding="utf-8")
    report(checked, rows, as_json=as_json)


def _target(target: str | None, url: str | None, *, local: bool) -> str:
    if url is not None and target not in (None, url):
        _end(_FAILED, f"--url {url} and {target}: give one of them")
    chosen = url or target or "."
    if local and "://" in chosen:
        _end(_FAILED, f"--local and {chosen}: give one of them")
    return chosen


def _manifest_row(folder: Path) -> CheckRow:
    """Whether the manifest names what serves the environment. Nothing is imported."""
    started = time.monotonic()
    try:
        name = read_manifest(folder / "openenv.yaml").get("name")
        served = folder_target(folder).target
    except (LookupError, ValueError, SyntaxError) as error:
        result = failed(str(error), "correct what the error names")
    else:
        result = (
            passed(f"{served} serves {name}") if name else failed("openenv.yaml has no `name`", "write name: my_env")
        )
    return CheckRow("manifest", result, time.monotonic() - started)


def _end(code: int, message: str) -> NoReturn:
    typer.echo(f"openenv: {message}", err=True)
    raise typer.Exit(code)
