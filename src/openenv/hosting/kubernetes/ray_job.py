"""The manifests of a program on a Ray cluster of its own, for `openenv deploy ray`: a RayJob of KubeRay.

The program runs beside the cluster's head, and its actors in the workers' pods. All pods share a volume, which stays
when the job has ended. After a failure KubeRay makes a new cluster and starts the program again, which goes on from
what it has kept in the volume.
"""

import re
from dataclasses import dataclass
from typing import Any

from openenv.hosting.kubernetes.pods import USER_SECURITY, PodSettings, metadata, token_variables

VOLUME = "/runs"
"""Where all pods have the volume that they share."""
CONFIG = "/etc/openenv"
"""Where the head's pod has the files of the ConfigMap."""
_LONGEST_NAME = 47
_KEPT_S = 300
"""How long the pods of a job that has ended stay, for their logs."""


_VERSION = re.compile(r"\d+\.\d+\.\d+")
_WITH_TOKENS = (2, 52, 0)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in version.split("."))


@dataclass(frozen=True, kw_only=True)
class RayCluster:
    """The pods of a job. Raises ValueError, naming the field, for a number that is too small."""

    workers: int = 1
    """Pods beside that of the head; 0: the actors run there."""
    gpus_per_worker: int = 0
    ray_version: str | None = None
    """That of the image, 2.52 or later: the cluster requires a token, which KubeRay makes. None: it requires none."""
    storage_class: str | None = None
    """Of the volume, which must allow several nodes to write (ReadWriteMany); None: the cluster's default."""
    retries: int = 3
    """How often the job starts again after a failure."""

    def __post_init__(self) -> None:
        version = self.ray_version
        if version is not None and (not _VERSION.fullmatch(version) or _numbers(version) < _WITH_TOKENS):
            raise ValueError(f"ray_version={version!r}: give that of the image, such as 2.60.0, and at least 2.52.0")
        for name in ("workers", "gpus_per_worker", "retries"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name}={getattr(self, name)}: give 0 or more")
        if self.gpus_per_worker and not self.workers:
            raise ValueError(f"gpus_per_worker={self.gpus_per_worker}: there are no workers. Give workers=1 or more")


def ray_job(pod: PodSettings, cluster: RayCluster, command: str, files: dict[str, str]) -> list[dict[str, Any]]:
    """The objects of a job, in the order in which they are created.

    Args:
        pod: of each of the pods. `cpu` and `memory` are of one pod, `disk` is the size of the volume.
        cluster: how many pods there are.
        command: what the job runs, in the shared folder; words without a meaning for a shell.
        files: names and contents of files below `CONFIG`.

    Raises ValueError for a name that is too long for KubeRay.
    """
    if len(pod.name) > _LONGEST_NAME:
        raise ValueError(f"name={pod.name!r}: use at most {_LONGEST_NAME} characters, as KubeRay requires")
    return [_claim(pod, cluster), _config_map(pod, files), _job(pod, cluster, command)]


def _claim(pod: PodSettings, cluster: RayCluster) -> dict[str, Any]:
    spec: dict[str, Any] = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": pod.disk}}}
    if cluster.storage_class is not None:
        spec["storageClassName"] = cluster.storage_class
    name = metadata(pod, f"{pod.name}-runs")
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": name, "spec": spec}


def _config_map(pod: PodSettings, files: dict[str, str]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(pod, f"{pod.name}-config"), "data": files}


def _job(pod: PodSettings, cluster: RayCluster, command: str) -> dict[str, Any]:
    groups = [_workers(pod, cluster)] if cluster.workers else []
    version = cluster.ray_version
    token = {} if version is None else {"rayVersion": version, "authOptions": {"mode": "token"}}
    start = {"num-cpus": "0"} if cluster.workers else {}  # the program has the head's processors for itself
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": metadata(pod),
        "spec": {
            "entrypoint": f"env --chdir={VOLUME} {command}",
            "backoffLimit": cluster.retries,
            "shutdownAfterJobFinishes": True,
            "ttlSecondsAfterFinished": _KEPT_S,
            "rayClusterSpec": {
                **token,
                "headGroupSpec": {"rayStartParams": start, "template": _template(pod, head=True)},
                "workerGroupSpecs": groups,
            },
        },
    }


def _workers(pod: PodSettings, cluster: RayCluster) -> dict[str, Any]:
    return {
        "groupName": "workers",
        "replicas": cluster.workers,
        "minReplicas": cluster.workers,
        "maxReplicas": cluster.workers,
        "rayStartParams": {},
        "template": _template(pod, gpus=cluster.gpus_per_worker),
    }


def _template(pod: PodSettings, *, head: bool = False, gpus: int = 0) -> dict[str, Any]:
    """A pod of the cluster. Ray keeps objects in shared memory, of which a container has 64 MiB without a volume."""
    size: dict[str, Any] = {"cpu": pod.cpu, "memory": pod.memory} | ({"nvidia.com/gpu": gpus} if gpus else {})
    mounts: list[dict[str, Any]] = [
        {"name": "runs", "mountPath": VOLUME},
        {"name": "shared-memory", "mountPath": "/dev/shm"},
    ]
    volumes: list[dict[str, Any]] = [
        {"name": "runs", "persistentVolumeClaim": {"claimName": f"{pod.name}-runs"}},
        {"name": "shared-memory", "emptyDir": {"medium": "Memory"}},
    ]
    variables = [{"name": "RAY_USAGE_STATS_ENABLED", "value": "0"}]
    variables += [{"name": name, "value": value} for name, value in pod.env_vars.items()]
    if head:
        mounts.append({"name": "config", "mountPath": CONFIG, "readOnly": True})
        volumes.append({"name": "config", "configMap": {"name": f"{pod.name}-config"}})
    container = {
        "name": "ray-head" if head else "ray-worker",
        "image": pod.image,
        "env": [*variables, *(token_variables(pod) if head else ())],
        "resources": {"limits": size, "requests": size},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": mounts,
    }
    if pod.image_pull_policy is not None:
        container["imagePullPolicy"] = pod.image_pull_policy
    spec: dict[str, Any] = {
        "containers": [container],
        "securityContext": {**USER_SECURITY, "fsGroup": USER_SECURITY["runAsGroup"]},
        "volumes": volumes,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
    }
    return {"metadata": {"labels": metadata(pod)["labels"]}, "spec": spec}
