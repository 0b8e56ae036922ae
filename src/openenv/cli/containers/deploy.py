"""`openenv deploy`: write what runs an environment's server elsewhere."""

import re
from pathlib import Path
from typing import cast

import typer

from openenv.cli.containers.build import name_and_value
from openenv.cli.containers.manifests import manifests_text
from openenv.hosting.kubernetes.deployment import Replicas, deployment
from openenv.hosting.kubernetes.gateway import Gateway
from openenv.hosting.kubernetes.gateway_config import Proxy
from openenv.hosting.kubernetes.pods import PodSettings

EXAMPLE = "Example: `openenv deploy kubernetes echo --image owner/echo-env:1 --replicas 3 | kubectl apply -f -`"

_DRAIN_S = 300

app = typer.Typer(help="Write what runs an environment's server, or a training run, elsewhere.", no_args_is_help=True)


@app.command("kubernetes", epilog=EXAMPLE)
def kubernetes(
    environment: str = typer.Argument(help="Name the objects after this environment, such as echo."),
    image: str = typer.Option(..., "--image", help="Run this image, which the nodes can pull."),
    replicas: int = typer.Option(1, help="Run this many pods."),
    max_replicas: int | None = typer.Option(
        None, help="Add pods up to this number while they are busy (default: none)."
    ),
    sessions_per_replica: int | None = typer.Option(
        None, help="Add pods while each has more than this many sessions (default: while processors are busy)."
    ),
    gateway: str | None = typer.Option(
        None, help="Send each request to the pod of its session by this program, nginx or envoy (default: none)."
    ),
    gateway_image: str | None = typer.Option(None, help="Run the gateway from this image (default: the program's)."),
    drain_s: int | None = typer.Option(
        None, help="Let the sessions of a pod that stops go on this long (default: 300 with a gateway, otherwise 0)."
    ),
    namespace: str | None = typer.Option(None, help="Put the objects into this namespace (default: kubectl's)."),
    cpu: str = typer.Option("1", help="Let each pod use this much processor, such as 500m or 2."),
    memory: str = typer.Option("1Gi", help="Let each pod use this much memory."),
    disk: str = typer.Option("1Gi", help="Let each pod write this much to /tmp."),
    runtime_class: str | None = typer.Option(
        None, help="Run pods by this RuntimeClass, such as gvisor (default: none)."
    ),
    token_secret: str | None = typer.Option(
        None, help="Require the token in the key `token` of this Secret from clients (default: none)."
    ),
    image_pull_policy: str | None = typer.Option(
        None, help="Pull the image Always, IfNotPresent or Never (default: the cluster's choice)."
    ),
    env: list[str] = typer.Option(
        [],
        "--env",
        help="Set a variable of the server, as NAME=VALUE; may be repeated (default: none).",
        show_default=False,
    ),
    output: Path | None = typer.Option(None, "--output", "-o", help="Write to this file (default: the output)."),
) -> None:
    """Write the manifests of a server: its pods with probes, limits and isolation, the services, and a network policy
    that lets nothing out."""
    if gateway is None and gateway_image is not None:
        raise ValueError(f"--gateway-image {gateway_image}: add --gateway nginx or --gateway envoy")
    proxy = None if gateway is None else Gateway(proxy=cast(Proxy, gateway), image=gateway_image)
    settings = PodSettings(
        name=re.sub(r"[^a-z0-9]+", "-", environment.lower().removesuffix("_env").removesuffix("-env")) + "-env",
        image=image,
        namespace=namespace,
        cpu=cpu,
        memory=memory,
        disk=disk,
        runtime_class=runtime_class,
        token_secret=token_secret,
        image_pull_policy=image_pull_policy,
        env_vars=dict(name_and_value("--env", pair) for pair in env),
        drain_s=(0 if proxy is None else _DRAIN_S) if drain_s is None else drain_s,
    )
    number = Replicas(number=replicas, at_most=max_replicas, sessions=sessions_per_replica)
    manifests = deployment(settings, number, proxy)
    text = manifests_text(manifests)
    if output is None:
        typer.echo(text, nl=False)
    else:
        output.write_text(text, encoding="utf-8")
        typer.echo(f"written: {output}. Next: kubectl apply -f {output}")
