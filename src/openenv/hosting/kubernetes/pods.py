"""The pod of an environment's server: its probes, limits and isolation, and the network policy around it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from openenv.hosting.kubernetes.manifest_types import Container, Manifest, Metadata, PodSecurity, PodSpec, Probe
from openenv.hosting.runtime.subprocess_tool import PORT_IN_CONTAINER

LABELS = {"org.openenv": "1"}
"""Labels of every object: `kubectl get all -l org.openenv=1` lists them."""
NAME_LABEL = "app.kubernetes.io/name"
"""The label by which services and policies select their pods."""
PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_NAME = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
_QUANTITY = re.compile(r"\d+(\.\d+)?(m|k|Ki|M|Mi|G|Gi|T|Ti)?")
_CONTAINER = "server"
_USER = 1000
USER_SECURITY: PodSecurity = {
    "runAsNonRoot": True,
    "runAsUser": _USER,
    "runAsGroup": _USER,
    "seccompProfile": {"type": "RuntimeDefault"},
}
"""An ordinary user, under the runtime's filter of system calls."""
_GRACE_S = 30
_START_S = 300


@dataclass(frozen=True, kw_only=True)
class PodSettings:
    """How a server runs in a cluster. Raises ValueError, naming the field, for a value that the API would refuse."""

    name: str
    """Of all its objects: lower-case letters, digits and hyphens."""
    image: str
    namespace: str | None = None
    """None: that of the connection."""
    cpu: str = "1"
    """Processors, such as 500m or 2."""
    memory: str = "1Gi"
    """Memory of all its processes. `/tmp` is on the node's disk."""
    disk: str = "1Gi"
    """Size of `/tmp`, of all that the server writes, and of its log."""
    runtime_class: str | None = None
    """Such as gvisor; None: the cluster's default."""
    image_pull_policy: str | None = None
    """Always, IfNotPresent or Never; None: the cluster's choice by the tag."""
    token_secret: str | None = None
    """Secret whose key `token` clients must send; None: none."""
    env_vars: Mapping[str, str] = field(default_factory=dict)
    args: tuple[str, ...] = ()
    """Options of the server after those of the image."""
    drain_s: int = 0
    """How long the sessions of a pod that stops may go on, while new ones go to others."""
    names_sessions: bool = False
    """Whether the ids of sessions begin with the name of their pod, which a gateway needs."""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(
                f"name={self.name!r}: use lower-case letters, digits and hyphens, at most 63, as in echo-env"
            )
        for name in ("cpu", "memory", "disk"):
            if not _QUANTITY.fullmatch(getattr(self, name)):
                raise ValueError(f"{name}={getattr(self, name)!r}: write a quantity such as 500m, 2 or 1Gi")
        if self.drain_s < 0:
            raise ValueError(f"drain_s={self.drain_s}: give 0 (running steps alone finish) or more seconds")
        if self.image_pull_policy not in (None, *PULL_POLICIES):
            raise ValueError(
                f"image_pull_policy={self.image_pull_policy!r}: expected one of {', '.join(PULL_POLICIES)}"
            )

    @property
    def selector(self) -> dict[str, str]:
        """The label that only these pods have."""
        return {NAME_LABEL: self.name}


def metadata(settings: PodSettings, name: str | None = None) -> Metadata:
    """Name, labels and namespace of an object. name: None for that of the settings."""
    found: Metadata = {"name": name or settings.name, "labels": {**LABELS, **settings.selector}}
    if settings.namespace is not None:
        found["namespace"] = settings.namespace
    return found


def pod_spec(settings: PodSettings) -> PodSpec:
    """The pod: an ordinary user on a root that is read-only, without capabilities or an account of the cluster."""
    spec: PodSpec = {
        "containers": [_container(settings)],
        "securityContext": USER_SECURITY,
        "volumes": [{"name": "tmp", "emptyDir": {"sizeLimit": settings.disk}}],
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": settings.drain_s + _GRACE_S,
    }
    if settings.runtime_class is not None:
        spec["runtimeClassName"] = settings.runtime_class
    return spec


def network_policy(settings: PodSettings) -> Manifest:
    """Allows connections to the server's port from pods of its namespace, and none from the server."""
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(settings),
        "spec": {
            "podSelector": {"matchLabels": settings.selector},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [
                {"from": [{"podSelector": {}}], "ports": [{"protocol": "TCP", "port": PORT_IN_CONTAINER}]},
            ],
            "egress": [],
        },
    }


def service(settings: PodSettings, name: str | None = None, **spec: Any) -> Manifest:
    """One address for the pods. name: None for that of the settings. spec: further fields."""
    ports = [{"name": "http", "port": PORT_IN_CONTAINER, "targetPort": "http"}]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(settings, name),
        "spec": {"selector": settings.selector, "ports": ports, **spec},
    }


def _container(settings: PodSettings) -> Container:
    size = {"cpu": settings.cpu, "memory": settings.memory, "ephemeral-storage": settings.disk}
    variables = [{"name": name, "value": value} for name, value in settings.env_vars.items()]
    container: Container = {
        "name": _CONTAINER,
        "image": settings.image,
        "ports": [{"name": "http", "containerPort": PORT_IN_CONTAINER}],
        "env": [*variables, *token_variables(settings), *_replica(settings)],
        "resources": {"limits": size, "requests": size},
        "startupProbe": _probe(every_s=1, failures=_START_S),
        "readinessProbe": _probe(every_s=5, failures=2),
        "livenessProbe": _probe(every_s=10, failures=6),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
    }
    if settings.image_pull_policy is not None:
        container["imagePullPolicy"] = settings.image_pull_policy
    args = [*(("--drain-timeout-s", str(settings.drain_s)) if settings.drain_s else ()), *settings.args]
    if args:
        container["args"] = ["--host", "0.0.0.0", "--port", str(PORT_IN_CONTAINER), *args]
    return container


def token_variables(settings: PodSettings) -> list[dict[str, Any]]:
    """The variable with the token of servers, from its Secret; none without a Secret."""
    if settings.token_secret is None:
        return []
    reference = {"secretKeyRef": {"name": settings.token_secret, "key": "token"}}
    return [{"name": "OPENENV_TOKEN", "valueFrom": reference}]


def _replica(settings: PodSettings) -> list[dict[str, Any]]:
    if not settings.names_sessions:
        return []
    return [{"name": "OPENENV_REPLICA", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]


def _probe(*, every_s: int, failures: int) -> Probe:
    """A step that blocks the server's event loop for a moment must not end the sessions: answers may take 5 s."""
    return {
        "httpGet": {"path": "/health", "port": "http"},
        "periodSeconds": every_s,
        "timeoutSeconds": 5,
        "failureThreshold": failures,
    }
