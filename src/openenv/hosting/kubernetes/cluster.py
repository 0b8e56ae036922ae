"""The connection to a cluster through its API, with errors that name the remedy."""

import contextlib
import json
from collections.abc import Iterator, Sequence
from typing import Any

from openenv.core.errors import ContainerFault, NotReady
from openenv.installation import install_line

REMEDY = "Does `kubectl get pods` use the intended cluster and namespace, and may this account do that?"
_REQUEST_TIMEOUT_S = 60.0
_HOPELESS = {
    "ErrImageNeverPull": "The node has no such image: give image_pull_policy='IfNotPresent', or load it into the node",
    "ImagePullBackOff": "Does the node reach the registry, is there such an image, and may it be pulled?",
    "InvalidImageName": "Write the image as registry/owner/name:tag",
    "CreateContainerConfigError": "Is there a Secret or ConfigMap of that name in the namespace?",
    "CreateContainerError": "`kubectl describe pod` shows the events",
    "RunContainerError": "Does the image have a command, and may its files be read by user 1000?",
    "CrashLoopBackOff": "The log shows why the server ends",
}
"""Reasons for which a container waits that no waiting ends, and the remedies."""
_UNSCHEDULABLE = "Ask for less cpu or memory, add a node, or remove what keeps pods off the nodes (taints)"


class Cluster:
    """One namespace of a cluster. All errors of the API are ContainerFault with a remedy."""

    def __init__(self, namespace: str | None, context: str | None) -> None:
        """namespace, context: None for those of the kubeconfig. Raises ContainerFault without library or kubeconfig."""
        try:
            # an extra, which takes 0.3 s
            import kubernetes
            from kubernetes.config import ConfigException
        except ImportError:
            raise ContainerFault(f"Kubernetes needs its client library: {install_line('kubernetes')}") from None
        try:
            contexts, active = kubernetes.config.list_kube_config_contexts()
            self.api_client = kubernetes.config.new_client_from_config(context=context)
        except ConfigException as error:
            raise ContainerFault(
                f"no cluster is configured: {error}. Set KUBECONFIG, or write ~/.kube/config"
            ) from error
        chosen = active if context is None else next(each for each in contexts if each["name"] == context)
        self.namespace = namespace or chosen["context"].get("namespace") or "default"
        self.core = kubernetes.client.CoreV1Api(self.api_client)
        self.networking = kubernetes.client.NetworkingV1Api(self.api_client)

    @contextlib.contextmanager
    def errors(self, doing: str) -> Iterator[None]:
        """Raise errors of the API as ContainerFault, with its message and what to do."""
        from kubernetes.client import ApiException
        from urllib3.exceptions import HTTPError

        try:
            yield
        except ApiException as error:
            raise ContainerFault(f"Kubernetes: {doing} failed: {_message(error)}. {REMEDY}") from error
        except HTTPError as error:
            raise ContainerFault(f"Kubernetes: {doing} failed: {error}. Is the cluster up? {REMEDY}") from error

    def create(self, kind: str, manifest: Any) -> str:
        """Create a pod, service or network policy. Returns its uid."""
        api = self.networking if kind == "network_policy" else self.core
        create = getattr(api, f"create_namespaced_{kind}")
        with self.errors(f"creating the {kind} {manifest['metadata']['name']}"):
            uid: str = create(self.namespace, manifest, _request_timeout=_REQUEST_TIMEOUT_S).metadata.uid
        return uid

    def delete(self, kind: str, name: str) -> None:
        """Delete an object and what it owns. One that is gone already is no error."""
        from kubernetes.client import ApiException

        api = self.networking if kind == "network_policy" else self.core
        delete = getattr(api, f"delete_namespaced_{kind}")
        with self.errors(f"deleting the {kind} {name}"):
            try:
                # the answer is the object, or a status, as the cluster's version has it: it is not read as either
                answer: Any = delete(
                    name, self.namespace, propagation_policy="Background", _preload_content=False,
                    _request_timeout=_REQUEST_TIMEOUT_S,
                )  # fmt: skip
                answer.read()
            except ApiException as error:
                if error.status != 404:
                    raise

    def wait_until_ready(self, name: str, timeout_s: float) -> None:
        """Wait until a pod is ready. Raises ContainerFault where no waiting helps, and NotReady after `timeout_s`."""
        from kubernetes.watch import Watch

        watch, seen = Watch(), "it was not scheduled"
        with (
            self.errors(f"watching the pod {name}"),
            contextlib.closing(_events(watch, self, name, timeout_s)) as events,
        ):
            for event in events:
                if event["type"] == "DELETED":
                    raise ContainerFault(f"the pod {name} was deleted while it started")
                seen = _progress(name, event["object"].status) or ""
                if not seen:
                    return
        raise NotReady(f"the pod {name} was not ready in {timeout_s:g} s: {seen}")

    def logs(self, name: str, tail: int) -> str:
        """The last lines of a pod's output."""
        with self.errors(f"reading the log of {name}"):
            # the library decodes JSON where it can, and shows the rest as the text of bytes
            answer: Any = self.core.read_namespaced_pod_log(
                name, self.namespace, tail_lines=tail, _preload_content=False, _request_timeout=_REQUEST_TIMEOUT_S
            )
        text: str = answer.data.decode(errors="replace")
        return text

    def exec(self, name: str, command: Sequence[str]) -> tuple[int, str]:
        """Run a command in a pod. Returns its exit code and output."""
        from kubernetes.stream import stream
        from kubernetes.stream.ws_client import ERROR_CHANNEL

        with self.errors(f"running {command[0]} in {name}"):
            running = stream(
                self.core.connect_get_namespaced_pod_exec, name, self.namespace, command=list(command),
                stdout=True, stderr=True, stdin=False, tty=False, _preload_content=False,
            )  # fmt: skip
            running.run_forever()
            ending: str = running.read_channel(ERROR_CHANNEL)
            output: str = running.read_all()
        if not ending:
            raise ContainerFault(f"the connection broke while {command[0]} ran in {name}. {REMEDY}")
        return _exit_code(json.loads(ending)), output

    def close(self) -> None:
        """Close the connections."""
        self.api_client.close()


def _events(watch: Any, cluster: Cluster, name: str, timeout_s: float) -> Any:
    return watch.stream(
        cluster.core.list_namespaced_pod, cluster.namespace, field_selector=f"metadata.name={name}",
        timeout_seconds=max(1, int(timeout_s)), _request_timeout=timeout_s + 10,
    )  # fmt: skip


def _progress(name: str, status: Any) -> str | None:
    """What a pod waits for; None where it is ready. Raises ContainerFault where no waiting helps."""
    if any(condition.type == "Ready" and condition.status == "True" for condition in status.conditions or ()):
        return None
    if status.phase in ("Failed", "Succeeded"):
        raise ContainerFault(f"the pod {name} has ended: {_ending(status)}")
    for container in status.container_statuses or ():
        waiting = container.state.waiting
        if waiting is not None and waiting.reason in _HOPELESS:
            raise ContainerFault(f"the pod {name}: {waiting.reason}: {waiting.message}. {_HOPELESS[waiting.reason]}")
    for condition in status.conditions or ():
        if condition.type == "PodScheduled" and condition.reason == "Unschedulable":
            return f"no node takes it: {condition.message}. {_UNSCHEDULABLE}"
    return (
        "its server is not healthy yet"
        if status.phase == "Running"
        else "its image is being pulled, or its node starts it"
    )


def _ending(status: Any) -> str:
    for container in status.container_statuses or ():
        ended = container.state.terminated
        if ended is not None:
            return f"exit code {ended.exit_code} ({ended.reason})"
    return str(status.message or status.reason or status.phase)


def _exit_code(status: Any) -> int:
    """The code of a command. Raises ContainerFault if it could not be started."""
    if status["status"] == "Success":
        return 0
    for cause in status.get("details", {}).get("causes", ()):
        if cause.get("reason") == "ExitCode":
            return int(cause["message"])
    raise ContainerFault(f"Kubernetes: the command was not started: {status.get('message')}")


def _message(error: Any) -> str:
    """The message of an error of the API."""
    try:
        message: str = json.loads(error.body)["message"]
    except (ValueError, TypeError, KeyError):
        return f"{error.status} {error.reason}"
    return message
