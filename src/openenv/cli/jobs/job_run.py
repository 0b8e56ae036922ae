"""The run of a job: its YAML, what it needs of the machines of a cluster, and the file that is written."""

import re
from math import ceil
from pathlib import Path
from urllib.parse import urlsplit

import typer

from openenv.rl.config import Config, require
from openenv.rl.config_file import load_config

_LOOPBACK = re.compile(r"localhost|127\..*|::1|0\.0\.0\.0")


def cluster_run(file: Path) -> Config:
    """The configuration in a file. Raises BadParameter where there is none, ConfigError for one that is wrong."""
    if not file.is_file():
        raise typer.BadParameter(
            f"there is no file {str(file)!r}. Write one with `openenv train ENV --init {file}`.", param_hint="FILE"
        )
    return load_config(file)


def object_name(config: Config) -> str:
    """The name of a run as Kubernetes and Slurm accept one: at most 63 lower-case letters, digits and hyphens, of which
    the first is a letter and the last no hyphen (RFC 1035). `run-` stands before a name that begins with a digit."""
    name = re.sub(r"[^a-z0-9]+", "-", config.name.lower()).strip("-")
    return (name if name[:1].isalpha() else f"run-{name}")[:63].strip("-")


def require_for_cluster(config: Config, machines: int) -> None:
    """Raise ConfigError unless the actors of a run find their cluster, and its environments from each machine.

    machines: on which actors run, that of the driver included.
    """
    rule = "the job starts the cluster, and the run has to take that one. Set engine.address: auto."
    require(config.engine.address == "auto", "engine.address", config.engine.address, rule)
    for one in config.env:
        url = one.server_url or (one.name if "://" in one.name else "")
        rule = (
            f"workers on {machines} machines reach no server on the driver's own. Start one that they reach, as "
            "`openenv deploy kubernetes ENV` does, and set its URL."
        )
        is_reached = bool(url) and _LOOPBACK.fullmatch(urlsplit(url).hostname or "localhost") is None
        require(machines == 1 or is_reached, "env.server_url", url, rule)


def processors_for(config: Config, machines: int, given: int | None, option: str) -> int:
    """The processors of each machine, so that all actors have one.

    given: that a user wants, None for as few as suffice. Raises ValueError, naming the option, for too few.
    """
    wanted = config.engine.num_actors
    enough = ceil(wanted / machines)
    if given is not None and given < enough:
        raise ValueError(
            f"{option} {given}: {wanted} actors need a processor each, and {machines} machines have "
            f"{given * machines}. Give {enough} or more."
        )
    return enough if given is None else given


def write_job(text: str, output: Path | None, command: str) -> None:
    """Write what starts a run to a file, and the command that submits it; None: the text alone, to the output."""
    if output is None:
        typer.echo(text, nl=False)
    else:
        output.write_text(text, encoding="utf-8")
        typer.echo(f"written: {output}. Next: {command} {output}")
