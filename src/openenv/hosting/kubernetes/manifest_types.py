"""The parts of Kubernetes manifests that this package writes, as typed dictionaries with the names of the API."""

from typing import Any, Literal, NotRequired, TypedDict


class Metadata(TypedDict):
    """What an object is called."""

    name: str
    labels: dict[str, str]
    namespace: NotRequired[str]
    annotations: NotRequired[dict[str, str]]
    ownerReferences: NotRequired[list[dict[str, Any]]]


class Manifest(TypedDict):
    """An object of the API."""

    apiVersion: str
    kind: str
    metadata: Metadata
    spec: NotRequired[Any]
    data: NotRequired[dict[str, str]]


class Probe(TypedDict):
    """A question that the cluster asks a container."""

    httpGet: dict[str, str | int]
    periodSeconds: int
    timeoutSeconds: int
    failureThreshold: int


class ContainerSecurity(TypedDict):
    """What the programs of a container may not do."""

    allowPrivilegeEscalation: bool
    readOnlyRootFilesystem: bool
    capabilities: dict[str, list[str]]


class Container(TypedDict):
    """A container of a pod."""

    name: str
    image: str
    ports: list[dict[str, str | int]]
    env: list[dict[str, Any]]
    resources: dict[str, dict[str, str]]
    startupProbe: Probe
    readinessProbe: Probe
    livenessProbe: Probe
    securityContext: ContainerSecurity
    volumeMounts: list[dict[str, str]]
    imagePullPolicy: NotRequired[str]
    command: NotRequired[list[str]]
    args: NotRequired[list[str]]


class PodSecurity(TypedDict):
    """The user of all programs of a pod, and the filter of their system calls."""

    runAsNonRoot: bool
    runAsUser: int
    runAsGroup: int
    seccompProfile: dict[str, str]


class PodSpec(TypedDict):
    """A pod."""

    containers: list[Container]
    securityContext: PodSecurity
    volumes: list[dict[str, Any]]
    automountServiceAccountToken: bool
    enableServiceLinks: bool
    terminationGracePeriodSeconds: int
    restartPolicy: NotRequired[Literal["Always", "Never"]]
    runtimeClassName: NotRequired[str]
    activeDeadlineSeconds: NotRequired[int]
