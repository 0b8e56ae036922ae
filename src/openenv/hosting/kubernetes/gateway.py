"""The manifests of a gateway before the replicas of a server: each request reaches the replica of its session.

Every replica gets a service of its own, whose address stays when the pod is made anew, and which a stopping pod keeps
as long as its sessions go on. The gateway sends requests there (`gateway_config`).
"""

import hashlib
from dataclasses import dataclass, replace
from typing import Any, get_args

from openenv.hosting.kubernetes.gateway_config import HEALTH_PATH, Proxy, gateway_config
from openenv.hosting.kubernetes.manifest_types import Manifest, PodSpec
from openenv.hosting.kubernetes.pods import PodSettings, metadata, network_policy, pod_spec, service
from openenv.hosting.runtime.subprocess_tool import PORT_IN_CONTAINER

PROXIES = get_args(Proxy)
_IMAGES: dict[Proxy, str] = {"nginx": "nginx:1.28-alpine", "envoy": "envoyproxy/envoy:v1.40.0"}
_FOLDER = "/etc/gateway"
_FILES: dict[Proxy, str] = {"nginx": "nginx.conf", "envoy": "envoy.yaml"}
_COMMANDS: dict[Proxy, list[str]] = {
    "nginx": ["nginx", "-e", "stderr", "-c", f"{_FOLDER}/nginx.conf", "-g", "daemon off;"],
    "envoy": ["envoy", "-c", f"{_FOLDER}/envoy.yaml", "--concurrency", "2", "--disable-hot-restart"],
}
_NUM_PODS = 2
_DNS_PORTS = [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}]


@dataclass(frozen=True, kw_only=True)
class Gateway:
    """A gateway. Raises ValueError for a program that is none."""

    proxy: Proxy
    """nginx or envoy."""
    image: str | None = None
    """An image with that program; None: the program's own."""

    def __post_init__(self) -> None:
        if self.proxy not in PROXIES:
            raise ValueError(f"gateway={self.proxy!r}: expected {' or '.join(PROXIES)}")


def gateway_manifests(gateway: Gateway, settings: PodSettings, most_replicas: int) -> list[Manifest]:
    """The objects of a gateway.

    Args:
        gateway: its program and image.
        settings: of the server's pods.
        most_replicas: as many as an autoscaler may make. Those that do not exist get no session.
    """
    names = [f"{settings.name}-{number}" for number in range(most_replicas)]
    config = gateway_config(
        gateway.proxy,
        {name: f"{name}:{PORT_IN_CONTAINER}" for name in names},
        listen=f"0.0.0.0:{PORT_IN_CONTAINER}",
    )
    own = replace(
        settings,
        name=f"{settings.name}-gateway",
        image=gateway.image or _IMAGES[gateway.proxy],
        cpu="1",
        memory="256Mi",
        disk="1Gi",
        image_pull_policy=None,
        token_secret=None,
        env_vars={},
        args=(),
        drain_s=0,
        names_sessions=False,
    )
    return [
        *(_replica_service(settings, name) for name in names),
        _network_policy(own, settings),
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata(own),
            "data": {_FILES[gateway.proxy]: config},
        },
        _deployment(own, gateway.proxy, config),
        service(own),
    ]


def _replica_service(settings: PodSettings, name: str) -> Manifest:
    selector = {"statefulset.kubernetes.io/pod-name": name}
    return service(settings, name, selector=selector, publishNotReadyAddresses=True)


def _network_policy(own: PodSettings, settings: PodSettings) -> Manifest:
    """Lets the gateway reach the replicas and look up their names."""
    policy = network_policy(own)
    to_replicas = {
        "to": [{"podSelector": {"matchLabels": settings.selector}}],
        "ports": [{"protocol": "TCP", "port": PORT_IN_CONTAINER}],
    }
    policy["spec"]["egress"] = [to_replicas, {"ports": _DNS_PORTS}]
    return policy


def _deployment(own: PodSettings, proxy: Proxy, config: str) -> Manifest:
    digest = hashlib.sha256(config.encode()).hexdigest()[:16]  # another configuration makes the pods anew
    template: dict[str, Any] = {
        "metadata": {"labels": metadata(own)["labels"], "annotations": {"openenv.org/config": digest}},
        "spec": _pod_spec(own, proxy),
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(own),
        "spec": {"replicas": _NUM_PODS, "selector": {"matchLabels": own.selector}, "template": template},
    }


def _pod_spec(own: PodSettings, proxy: Proxy) -> PodSpec:
    """A pod as the server's, with another program."""
    pod = pod_spec(own)
    (container,) = pod["containers"]
    container["name"], container["command"] = "gateway", _COMMANDS[proxy]
    container["volumeMounts"].append({"name": "config", "mountPath": _FOLDER})
    for probe in (container["startupProbe"], container["readinessProbe"], container["livenessProbe"]):
        probe["httpGet"]["path"] = HEALTH_PATH
    pod["volumes"].append({"name": "config", "configMap": {"name": own.name}})
    return pod
