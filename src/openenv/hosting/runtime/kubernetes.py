"""A provider for Kubernetes: one pod, reached through a forwarded port, or by its service from within the cluster."""

import contextlib
import dataclasses
from collections.abc import Sequence
from typing import Any

from openenv.core.client.providers import ContainerProvider, ExecResult
from openenv.core.errors import ContainerFault, NotReady
from openenv.hosting.kubernetes.cluster import Cluster
from openenv.hosting.kubernetes.manifest_types import Manifest
from openenv.hosting.kubernetes.pods import PodSettings, metadata, network_policy, pod_spec, service
from openenv.hosting.runtime.subprocess_tool import PORT_IN_CONTAINER, options, unique_name
from openenv.hosting.server_process import ServerProcess, free_port, wait_until_ready

_SET_HERE = {"name", "image", "namespace", "env_vars"}
_KEYWORDS = tuple(field.name for field in dataclasses.fields(PodSettings) if field.name not in _SET_HERE)
_OWNED = ("pod", "service")


class KubernetesProvider(ContainerProvider):
    """Runs a pod with its service and a network policy that lets nothing out.

    A port of this machine is forwarded to the pod by `kubectl`. The client library forwards single connections: each
    would need a listener, a thread and a WebSocket of this process.
    """

    def __init__(
        self,
        *,
        namespace: str | None = None,
        context: str | None = None,
        start_timeout_s: float = 300.0,
        lifetime_s: int = 24 * 3600,
        forwards: bool = True,
    ) -> None:
        """
        Args:
            namespace, context: None for those of the kubeconfig.
            start_timeout_s: for scheduling and pulling the image.
            lifetime_s: the cluster ends the pod after this time, also when this process could not.
            forwards: whether a port is forwarded; False: this process runs in the cluster and uses the address of the
                service.

        Raises:
            ContainerFault: without the client library or a configured cluster.
        """
        self._cluster = Cluster(namespace, context)
        self._kubectl = ["kubectl", *options({"namespace": self._cluster.namespace, "context": context})]
        self._start_timeout_s = start_timeout_s
        self._lifetime_s = lifetime_s
        self._forwards = forwards
        self._name: str | None = None
        self._layers: dict[str, str] = {}
        self._forwarding: ServerProcess | None = None

    def start_container(
        self, image: str, port: int | None = None, env_vars: dict[str, str] | None = None, **kwargs: Any
    ) -> str:
        """Run `image` in a pod and return its base URL.

        port: on the loopback interface; None for an unused one. Keywords are the fields of `PodSettings`: cpu, memory,
        disk, runtime_class, image_pull_policy, token_secret, args. Raises ValueError for others, ContainerFault if the
        cluster refuses or the pod cannot start, and NotReady after `start_timeout_s`.
        """
        if self._name is not None:
            raise ContainerFault(f"this provider already runs {self._name}: stop_container() first")
        unknown = kwargs.keys() - set(_KEYWORDS)
        if unknown:
            raise ValueError(f"{', '.join(sorted(unknown))}: not among {', '.join(_KEYWORDS)}")
        settings = PodSettings(name=_name(image), image=image, env_vars=env_vars or {}, **kwargs)
        with contextlib.ExitStack() as on_error:  # also Ctrl-C must leave no pod
            self._name = settings.name
            on_error.callback(self._remove_after_error)
            self._create(settings)
            self._wait_for_pod(settings.name)
            base_url = self._reachable_url(port)
            on_error.pop_all()
        self._layers = _layers(settings)
        return base_url

    def stop_container(self) -> None:
        """Delete the pod, its service and its policy, and stop forwarding. Raises ContainerFault if that fails."""
        forwarding, self._forwarding = self._forwarding, None
        if forwarding is not None:
            forwarding.stop()
        if self._name is not None:
            for kind in (*_OWNED, "network_policy"):
                self._cluster.delete(kind, self._name)
            self._name = None

    def wait_for_ready(self, base_url: str, timeout_s: float = 30.0) -> None:
        """Wait until the server is healthy. Raises NotReady, with the pod's log, if it is not."""
        if self._name is None:
            raise NotReady("no pod runs: start_container() first")
        try:
            if self._forwarding is None:
                wait_until_ready(base_url, timeout_s)
            else:
                self._forwarding.wait_until_healthy(timeout_s)
        except NotReady as error:
            raise NotReady(f"{error}\n{self._log_if_there()}".rstrip()) from None

    def logs(self, tail: int = 50) -> str:
        """The last lines of the server's output. Raises ContainerFault."""
        return self._cluster.logs(self._running(), tail)

    def exec(self, command: Sequence[str]) -> ExecResult:
        """Run a command in the pod. Raises ContainerFault if the cluster cannot."""
        return ExecResult(*self._cluster.exec(self._running(), command))

    @property
    def layers(self) -> dict[str, str]:
        """Each layer around the pod: `on`, or `off` with the reason. Empty before the start."""
        return dict(self._layers)

    def close(self) -> None:
        """Close the connections to the cluster."""
        self._cluster.close()

    def _create(self, settings: PodSettings) -> None:
        """Create the policy first: the pod is never without it. It owns the others, which go when it is deleted."""
        uid = self._cluster.create("network_policy", network_policy(settings))
        owner = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "name": settings.name, "uid": uid}
        spec = pod_spec(settings)
        spec["restartPolicy"] = "Never"
        spec["activeDeadlineSeconds"] = self._lifetime_s
        pod: Manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata(settings), "spec": spec}
        for kind, manifest in zip(_OWNED, (pod, service(settings)), strict=True):
            manifest["metadata"]["ownerReferences"] = [owner]
            self._cluster.create(kind, manifest)

    def _wait_for_pod(self, name: str) -> None:
        try:
            self._cluster.wait_until_ready(name, self._start_timeout_s)
        except (ContainerFault, NotReady) as error:
            raise type(error)(f"{error}\n{self._log_if_there()}".rstrip()) from None

    def _reachable_url(self, port: int | None) -> str:
        if not self._forwards:
            return f"http://{self._name}.{self._cluster.namespace}.svc:{PORT_IN_CONTAINER}"
        port = free_port() if port is None else port
        command = ["port-forward", "--address=127.0.0.1", f"pod/{self._name}", f"{port}:{PORT_IN_CONTAINER}"]
        self._forwarding = ServerProcess([*self._kubectl, *command], f"http://127.0.0.1:{port}")
        return f"http://127.0.0.1:{port}"

    def _running(self) -> str:
        if self._name is None:
            raise ContainerFault("no pod runs: start_container() first")
        return self._name

    def _log_if_there(self) -> str:
        try:
            return self.logs()
        except ContainerFault:  # a container that has not started has none
            return ""

    def _remove_after_error(self) -> None:
        with contextlib.suppress(ContainerFault):  # the error of the start is the one to report
            self.stop_container()
        self._name = None


def _name(image: str) -> str:
    """A unique name. That of a service begins with a letter."""
    name = unique_name(image)
    return name if name[0].isalpha() else f"env-{name}"


def _layers(settings: PodSettings) -> dict[str, str]:
    asked = "on, where the cluster"
    return {
        "namespaces": "on" if settings.runtime_class is None else f"on: the runtime class {settings.runtime_class}",
        "user": "on",
        "seccomp": "on: the profile of the node's runtime",
        "landlock": "off: clusters do not apply it",
        "memory": "on",
        "processes": "off: a pod has no limit of its own; the kubelet's podPidsLimit holds",
        "cpu": "on",
        "session size": "on",
        "read-only root": "on",
        "capabilities": "on",
        "no new privileges": "on",
        "network": f"{asked}'s network plug-in enforces network policies",
    }
