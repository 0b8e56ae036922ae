"""The manifests of a server with replicas, for `openenv deploy kubernetes`.

A session lives in the memory of one replica. A client that reconnects must reach the same one:

- a gateway, where there is one, sends each request to the replica of its session (`gateway`);
- the service NAME sends all connections of a client's address to one replica, for as long as a session may be idle;
- replicas have addresses of their own, NAME-0.NAME-replicas and so on, for a program with many sessions: to the
  service, all of them come from one address. A StatefulSet gives these names, and a Deployment does not;
- a pod that stops lets its sessions go on for a while, if it is configured to;
- the autoscaler adds replicas and removes none: the sessions of a removed replica would end.
"""

from dataclasses import dataclass, replace
from typing import Any

from openenv.hosting.kubernetes.gateway import Gateway, gateway_manifests
from openenv.hosting.kubernetes.manifest_types import Manifest
from openenv.hosting.kubernetes.pods import PodSettings, metadata, network_policy, pod_spec, service
from openenv.hosting.runtime.subprocess_tool import PORT_IN_CONTAINER

_AFFINITY_S = 3 * 3600
_TARGET_CPU_PERCENT = 70
_LONGEST_NAME = 52
_SESSIONS = "openenv_sessions"
"""Of `/metrics`: sessions that are open."""
_SCRAPED = {
    "prometheus.io/scrape": "true",
    "prometheus.io/path": "/metrics",
    "prometheus.io/port": str(PORT_IN_CONTAINER),
}
"""Annotations by which Prometheus finds `/metrics` of a pod."""


@dataclass(frozen=True, kw_only=True)
class Replicas:
    """How many pods serve. Raises ValueError for fewer than one, or for a maximum below the number."""

    number: int = 1
    at_most: int | None = None
    """An autoscaler adds pods up to this number; None: there is no autoscaler."""
    sessions: int | None = None
    """It adds pods while they have more sessions than this on average; None: while their processors are busy."""

    def __post_init__(self) -> None:
        if self.number < 1:
            raise ValueError(f"replicas={self.number}: give 1 or more")
        if self.at_most is not None and self.at_most <= self.number:
            raise ValueError(f"max_replicas={self.at_most}: give more than replicas={self.number}, or none")
        if self.sessions is not None and self.sessions < 1:
            raise ValueError(f"sessions_per_replica={self.sessions}: give 1 or more")
        if self.sessions is not None and self.at_most is None:
            raise ValueError(f"sessions_per_replica={self.sessions}: nothing adds pods without max_replicas")

    @property
    def is_several(self) -> bool:
        """Whether there may be more than one."""
        return self.number > 1 or self.at_most is not None


def deployment(settings: PodSettings, replicas: Replicas, gateway: Gateway | None = None) -> list[Manifest]:
    """The objects of a server, in the order in which they are created: the network policy before the pods.

    gateway: what stands before the replicas; None: nothing. Raises ValueError for a name that is too long for a set of
    pods.
    """
    if len(settings.name) > _LONGEST_NAME:
        raise ValueError(
            f"name={settings.name!r}: use at most {_LONGEST_NAME} characters: the names of its pods are longer"
        )
    affinity: Any = {"sessionAffinityConfig": {"clientIP": {"timeoutSeconds": _AFFINITY_S}}}
    manifests = [
        network_policy(settings),
        service(settings, sessionAffinity="ClientIP", **affinity),
        service(settings, _replicas_service(settings), clusterIP="None"),
        _stateful_set(replace(settings, names_sessions=gateway is not None), replicas),
    ]
    if replicas.is_several:
        manifests.append(_disruption_budget(settings))
    if replicas.at_most is not None:
        manifests.append(_autoscaler(settings, replicas))
    if gateway is not None:
        manifests += gateway_manifests(gateway, settings, replicas.at_most or replicas.number)
    return manifests


def _replicas_service(settings: PodSettings) -> str:
    return f"{settings.name}-replicas"


def _stateful_set(settings: PodSettings, replicas: Replicas) -> Manifest:
    template: dict[str, Any] = {"metadata": {"labels": metadata(settings)["labels"]}, "spec": pod_spec(settings)}
    if replicas.sessions is not None:
        template["metadata"]["annotations"] = _SCRAPED
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": metadata(settings),
        "spec": {
            "replicas": replicas.number,
            "serviceName": _replicas_service(settings),
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": settings.selector},
            "template": template,
        },
    }


def _disruption_budget(settings: PodSettings) -> Manifest:
    """Nodes are emptied one replica at a time."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata(settings),
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": settings.selector}},
    }


def _autoscaler(settings: PodSettings, replicas: Replicas) -> Manifest:
    metric: dict[str, Any]
    if replicas.sessions is None:
        target = {"type": "Utilization", "averageUtilization": _TARGET_CPU_PERCENT}
        metric = {"type": "Resource", "resource": {"name": "cpu", "target": target}}
    else:
        sessions = {"type": "AverageValue", "averageValue": str(replicas.sessions)}
        metric = {"type": "Pods", "pods": {"metric": {"name": _SESSIONS}, "target": sessions}}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": metadata(settings),
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": settings.name},
            "minReplicas": replicas.number,
            "maxReplicas": replicas.at_most,
            "metrics": [metric],
            "behavior": {"scaleDown": {"selectPolicy": "Disabled"}},
        },
    }
