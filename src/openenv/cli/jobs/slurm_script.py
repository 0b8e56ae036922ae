"""The script of a training run for sbatch.

Slurm sends SIGTERM to the script before the time limit, and the script sends it to the run, which saves a checkpoint.
Then the script queues the job again, and `--resume` goes on. Slurm queues it by itself where a node fails.
"""

from collections.abc import Iterator
from dataclasses import dataclass

_WARNING_S = 180
"""Before the time limit, for the last checkpoint."""


@dataclass(frozen=True, kw_only=True)
class SlurmJob:
    """A run, and what Slurm gives it."""

    name: str
    run: str
    """Arguments of openenv, as words of a shell."""
    on_ray: bool
    """Whether the run takes a Ray cluster over the nodes; otherwise its processes are those of torchrun."""
    nodes: int
    processes: int
    """Of torchrun on each node."""
    gpus: int
    """Of each node."""
    processors: int
    """Of each node."""
    time: str
    memory: str | None
    """Of each node."""
    partition: str | None
    account: str | None
    retries: int
    """How often the job is queued again at its time limit."""


def slurm_script(job: SlurmJob) -> str:
    """The script."""
    lines = ["#!/bin/bash", *(f"#SBATCH --{option}" for option in _options(job)), _BEGIN]
    stop, end = 'kill -TERM "$run"', ""
    if job.on_ray:
        lines.append(_ray(job))
        end = 'kill -TERM "$cluster" && wait "$cluster" || true  # its port is free when the job starts again\n'
    elif job.nodes == job.processes == 1:
        lines.append(f"openenv {job.run} &")
    else:
        lines.append(_torchrun(job))
        if job.nodes > 1:  # srun passes no SIGTERM on, but kills what it has started
            stop = 'scancel --signal=TERM "$SLURM_JOB_ID.0"'
    return "\n".join([*lines, _END.format(stop=stop, end=end, retries=job.retries)])


def _options(job: SlurmJob) -> Iterator[str]:
    yield f"job-name={job.name}"
    yield f"nodes={job.nodes}"
    yield "ntasks-per-node=1"
    yield f"cpus-per-task={job.processors}"
    if job.gpus:
        yield f"gpus-per-node={job.gpus}"
    yield f"time={job.time}"
    for option, value in (("mem", job.memory), ("partition", job.partition), ("account", job.account)):
        if value is not None:
            yield f"{option}={value}"
    yield f"signal=B:TERM@{_WARNING_S}"
    yield "requeue"
    yield "open-mode=append"
    yield "output=%x-%j.log"


_BEGIN = """
set -euo pipefail
set -m  # what runs in the background would ignore SIGINT otherwise, by which a run ends its work
"""

_MEETING = """head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
port=$((20000 + SLURM_JOB_ID % 10000))"""
"""Where the nodes meet: at the first one, on a port that other jobs there do not have."""

_END = """run=$!

is_over=
trap 'is_over=1; {stop} || true' TERM
code=0
wait "$run" || code=$?
while kill -0 "$run" 2>/dev/null; do  # the signal has ended the wait, and not the run
    code=0
    wait "$run" || code=$?
done
{end}if [ -n "$is_over" ] && [ "$code" -ne 0 ] && [ "${{SLURM_RESTART_COUNT:-0}}" -lt {retries} ]; then
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
"""


def _torchrun(job: SlurmJob) -> str:
    """The first node's first process makes the run, and is the one that reports."""
    limit = f"--shutdown-timeout {_WARNING_S - 30}"
    command = f"-m openenv {job.run}"
    if job.nodes == 1:
        return f"torchrun --standalone --nproc-per-node {job.processes} {limit} {command} &"
    return f"""{_MEETING}
export head port
# shellcheck disable=SC2016  # the shell of each node expands what is in single quotes
srun --kill-on-bad-exit=1 bash -c 'exec torchrun --nnodes "$SLURM_NNODES" --node-rank "$SLURM_NODEID" \\
    --nproc-per-node {job.processes} --master-addr "$head" --master-port "$port" {limit} "$@"' \\
    torchrun {command} &"""


def _ray(job: SlurmJob) -> str:
    """The script runs on the first node, which has the head of the cluster and the driver."""
    size = '--num-cpus "$SLURM_CPUS_PER_TASK" --num-gpus ' + str(job.gpus)
    workers = f"""srun --nodes {job.nodes - 1} --ntasks {job.nodes - 1} --exclude "$head" \\
    ray start --address "$head:$port" {size} --block &
"""
    return f"""{_MEETING}
RAY_AUTH_TOKEN=$(od -An -tx1 -N32 /dev/urandom | tr -d ' \\n')  # without it any user of the machines may join
export RAY_ADDRESS="$head:$port" RAY_AUTH_MODE=token RAY_AUTH_TOKEN RAY_USAGE_STATS_ENABLED=0
ray start --head --port "$port" {size} --block &
cluster=$!
# shellcheck disable=SC2016  # the inner shell expands it
timeout 300 bash -c 'until ray health-check --address "$RAY_ADDRESS" > /dev/null 2>&1; do sleep 1; done'
{workers if job.nodes > 1 else ""}openenv {job.run} &"""
