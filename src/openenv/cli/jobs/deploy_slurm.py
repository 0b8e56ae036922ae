"""`openenv deploy slurm`: write the script of a training run, for sbatch."""

import re
import shlex
from pathlib import Path

import typer

from openenv.cli.jobs.job_run import cluster_run, object_name, processors_for, require_for_cluster, write_job
from openenv.cli.jobs.slurm_script import SlurmJob, slurm_script
from openenv.rl.config import Config, require

EXAMPLE = (
    "Example: `openenv deploy slurm run.yaml --nodes 2 --gpus-per-node 8 --time 12:00:00 --output run.sh`, "
    "then `sbatch run.sh`"
)
_TIME = re.compile(r"\d+(:\d+){0,2}|\d+-\d+(:\d+){0,2}")
_WORD = re.compile(r"[\w.,:@+-]+")


def slurm(
    file: Path = typer.Argument(
        metavar="FILE", help="The YAML of the run, in a folder that all nodes have; the job runs where it is submitted."
    ),
    time: str = typer.Option(..., help="Limit of one start, as Slurm writes it, such as 30, 12:00:00 or 2-00."),
    nodes: int = typer.Option(1, min=1, help="Run on this many nodes."),
    gpus_per_node: int = typer.Option(0, min=0, help="Use this many GPUs of each node."),
    cpus_per_node: int | None = typer.Option(
        None, min=1, help="Use this many processors of each node (default: as many as the run's processes need)."
    ),
    memory: str | None = typer.Option(None, help="Use this much memory of each node, as 64G (default: Slurm's)."),
    partition: str | None = typer.Option(None, help="Run in this partition (default: Slurm's)."),
    account: str | None = typer.Option(None, help="Charge this account (default: the user's)."),
    retries: int = typer.Option(20, min=0, help="Start again at the time limit at most this many times."),
    output: Path | None = typer.Option(None, "--output", "-o", help="Write to this file (default: the output)."),
) -> None:
    """Write the script of a training run for sbatch: with torchrun for the embedded engine, and with a Ray cluster over
    the nodes for engine.name: ray. At the time limit the run saves a checkpoint, and the job is queued again."""
    config = cluster_run(file)
    if not _TIME.fullmatch(time):
        raise ValueError(f"--time {time}: write minutes, hours:minutes:seconds or days-hours, such as 12:00:00")
    for option, value in (("--memory", memory), ("--partition", partition), ("--account", account)):
        if value is not None and not _WORD.fullmatch(value):
            raise ValueError(f"{option} {value!r}: write a word of Slurm, without spaces")
    on_ray = config.engine.name == "ray"
    if on_ray:
        require_for_cluster(config, nodes)
        processes, processors = 1, processors_for(config, nodes, cpus_per_node, "--cpus-per-node")
    else:
        processes = _processes(config, nodes, gpus_per_node)
        processors = cpus_per_node or processes * config.threads
    job = SlurmJob(
        name=object_name(config),
        run=f"train {shlex.quote(str(file))} --resume",
        on_ray=on_ray,
        nodes=nodes,
        processes=processes,
        gpus=gpus_per_node,
        processors=processors,
        time=time,
        memory=memory,
        partition=partition,
        account=account,
        retries=retries,
    )
    write_job(slurm_script(job), output, "sbatch")


def _processes(config: Config, nodes: int, gpus: int) -> int:
    """The processes of torchrun on each node: one for each GPU that vLLM does not have, or one on processors.

    Raises ConfigError where there is no GPU left.
    """
    of_vllm = {number for entry in config.generator.gpus for number in entry.split(",")}
    rule = f"the trainer needs a GPU too, and --gpus-per-node is {gpus}. Leave some for it."
    require(not of_vllm or len(of_vllm) < gpus, "generator.gpus", config.generator.gpus, rule)
    first = {str(number) for number in range(gpus - len(of_vllm))}
    rule = f"the trainer takes the first {len(first)} of {gpus} GPUs. Give vLLM the last ones."
    require(not of_vllm & first, "generator.gpus", config.generator.gpus, rule)
    return max(1, gpus - len(of_vllm))
