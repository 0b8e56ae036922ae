"""`openenv deploy ray`: write the RayJob of a training run, for KubeRay."""

from pathlib import Path

import typer

from openenv.cli.containers.build import name_and_value
from openenv.cli.containers.manifests import manifests_text
from openenv.cli.jobs.job_run import cluster_run, object_name, processors_for, require_for_cluster, write_job
from openenv.formats.text_file import read_utf8
from openenv.hosting.kubernetes.pods import PodSettings
from openenv.hosting.kubernetes.ray_job import CONFIG, RayCluster, ray_job
from openenv.rl.config import require

EXAMPLE = "Example: `openenv deploy ray run.yaml --image owner/openenv-ray:1 --workers 2 | kubectl apply -f -`"
_FILE = "run.yaml"


def ray(
    file: Path = typer.Argument(metavar="FILE", help="The YAML of the run, with engine.name: ray."),
    image: str = typer.Option(
        ..., "--image", help="Run this image, which has openenv with its extra ray, and ray[default]."
    ),
    name: str | None = typer.Option(None, help="Name the objects so (default: after the run)."),
    workers: int = typer.Option(1, min=0, help="Run actors in this many pods; 0: in the pod of the driver."),
    gpus_per_worker: int = typer.Option(0, min=0, help="Give each worker's pod this many GPUs."),
    cpu: int | None = typer.Option(
        None, min=1, help="Give each pod this many processors (default: as many as the actors need)."
    ),
    memory: str = typer.Option("8Gi", help="Let each pod use this much memory."),
    disk: str = typer.Option("100Gi", help="Size of the volume with the run's folder, which all pods share."),
    ray_version: str | None = typer.Option(
        None, help="The image has this version of Ray, so that its cluster can require a token (default: it does not)."
    ),
    storage_class: str | None = typer.Option(
        None, help="Class of that volume, which several nodes write (default: the cluster's)."
    ),
    retries: int = typer.Option(3, min=0, help="Start again at most this many times, at the run's latest checkpoint."),
    namespace: str | None = typer.Option(None, help="Put the objects into this namespace (default: kubectl's)."),
    token_secret: str | None = typer.Option(
        None, help="Send environments the token in the key `token` of this Secret (default: none)."
    ),
    image_pull_policy: str | None = typer.Option(
        None, help="Pull the image Always, IfNotPresent or Never (default: the cluster's choice)."
    ),
    env: list[str] = typer.Option(
        [],
        "--env",
        help="Set a variable of all pods, as NAME=VALUE; may be repeated (default: none).",
        show_default=False,
    ),
    output: Path | None = typer.Option(None, "--output", "-o", help="Write to this file (default: the output)."),
) -> None:
    """Write the manifests of a training run on a Ray cluster: a volume, the YAML as a ConfigMap, and a RayJob whose
    pods have the processors that the engine needs. A driver that ends is started again, and resumes."""
    config = cluster_run(file)
    rule = "KubeRay makes a Ray cluster. Set engine: {name: ray, address: auto}."
    require(config.engine.name == "ray", "engine.name", config.engine.name, rule)
    machines = max(1, workers)
    require_for_cluster(config, workers + 1)
    pod = PodSettings(
        name=name or object_name(config),
        image=image,
        namespace=namespace,
        cpu=str(processors_for(config, machines, cpu, "--cpu")),
        memory=memory,
        disk=disk,
        image_pull_policy=image_pull_policy,
        token_secret=token_secret,
        env_vars=dict(name_and_value("--env", pair) for pair in env),
    )
    cluster = RayCluster(
        workers=workers,
        gpus_per_worker=gpus_per_worker,
        ray_version=ray_version,
        storage_class=storage_class,
        retries=retries,
    )
    command = f"openenv train {CONFIG}/{_FILE} --resume"
    manifests = ray_job(pod, cluster, command, {_FILE: read_utf8(file)})
    write_job(manifests_text(manifests), output, "kubectl apply -f")
