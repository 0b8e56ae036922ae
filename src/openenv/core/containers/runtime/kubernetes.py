"""One pod of a Kubernetes cluster, reached through a forwarded port."""

import contextlib
from typing import Any

from openenv.core.containers.local_process import ServerProcess, free_port
from openenv.core.containers.runtime.command_line import LABEL, PORT_IN_CONTAINER, options, run_tool, unique_name
from openenv.core.containers.runtime.providers import ContainerProvider
from openenv.core.errors import ContainerFault, NotReady

_REMEDY = "Is kubectl installed, and does `kubectl get pods` reach the cluster and namespace that you mean?"


class KubernetesProvider(ContainerProvider):
    """Runs a pod with `kubectl` and forwards a port of this machine to it for as long as it runs."""

    def __init__(
        self, *, namespace: str | None = None, context: str | None = None, start_timeout_s: float = 300.0
    ) -> None:
        """namespace, context: kubectl's, None for its own. start_timeout_s: to schedule the pod and pull its image."""
        self._kubectl = ["kubectl", *options({"namespace": namespace, "context": context})]
        self._start_timeout_s = start_timeout_s
        self._name: str | None = None
        self._forwarding: ServerProcess | None = None

    def start_container(
        self, image: str, port: int | None = None, env_vars: dict[str, str] | None = None, **kwargs: Any
    ) -> str:
        """Run `image` in a pod and return its base URL on this machine. Raises ContainerFault when it does not run.

        port: on the loopback interface; None takes a free one. Further keywords are options of `kubectl run`, such as
        image_pull_policy="Never".
        """
        if self._name is not None:
            raise ContainerFault(f"this provider runs {self._name} already: stop_container() first")
        self._name = unique_name(image)
        port = free_port() if port is None else port
        try:
            self._run(
                "run", self._name, f"--image={image}", f"--port={PORT_IN_CONTAINER}", "--restart=Never",
                f"--labels={LABEL}", *(f"--env={key}={value}" for key, value in (env_vars or {}).items()),
                *options(kwargs),
            )  # fmt: skip
            wait_s = self._start_timeout_s
            self._run("wait", "--for=condition=Ready", f"pod/{self._name}", f"--timeout={wait_s:g}s", limit_s=wait_s)
            forward = ["port-forward", "--address=127.0.0.1", f"pod/{self._name}", f"{port}:{PORT_IN_CONTAINER}"]
            self._forwarding = ServerProcess([*self._kubectl, *forward], f"http://127.0.0.1:{port}")
        except BaseException:
            with contextlib.suppress(ContainerFault):  # what failed first is what the caller must hear
                self.stop_container()
            self._name = None
            raise
        return f"http://127.0.0.1:{port}"

    def stop_container(self) -> None:
        """Delete the pod and stop forwarding. Raises ContainerFault when the pod stays."""
        forwarding, self._forwarding = self._forwarding, None
        if forwarding is not None:
            forwarding.stop()
        if self._name is not None:
            self._run("delete", "pod", self._name, "--ignore-not-found", "--wait=false")
            self._name = None

    def wait_for_ready(self, base_url: str, timeout_s: float = 30.0) -> None:
        """Return when the server answers through the forwarded port. Raises NotReady, with what kubectl said."""
        if self._forwarding is None:
            raise NotReady("no pod runs: start_container() first")
        self._forwarding.wait_until_healthy(timeout_s)

    def _run(self, *args: str, limit_s: float = 40.0) -> str:
        return run_tool(*self._kubectl, *args, remedy=_REMEDY, timeout_s=limit_s + 20)
