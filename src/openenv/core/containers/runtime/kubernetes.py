"""A provider for Kubernetes: one pod, reached through a forwarded port."""

from typing import Any

from openenv.core.containers.runtime.subprocess_tool import LABEL, PORT_IN_CONTAINER, ToolProvider, options, run_tool
from openenv.core.containers.server_process import ServerProcess, free_port
from openenv.core.errors import NotReady

_REMEDY = "Is kubectl installed, and does `kubectl get pods` use the intended cluster and namespace?"


class KubernetesProvider(ToolProvider):
    """Runs a pod with `kubectl` and forwards a port of this machine to it for as long as it runs."""

    def __init__(
        self, *, namespace: str | None = None, context: str | None = None, start_timeout_s: float = 300.0
    ) -> None:
        """namespace, context: None for kubectl's defaults. start_timeout_s: for scheduling and pulling the image."""
        self._kubectl = ["kubectl", *options({"namespace": namespace, "context": context})]
        self._start_timeout_s = start_timeout_s
        self._forwarding: ServerProcess | None = None

    def start_container(
        self, image: str, port: int | None = None, env_vars: dict[str, str] | None = None, **kwargs: Any
    ) -> str:
        """Run `image` in a pod and return its base URL on this machine. Raises ContainerFault if it does not run.

        port: on the loopback interface; None for an unused one. Further keywords are options of `kubectl run`, such as
        image_pull_policy="Never".
        """
        port = free_port() if port is None else port
        with self._starting(image) as name:
            self._run(
                "run", name, f"--image={image}", f"--port={PORT_IN_CONTAINER}", "--restart=Never",
                f"--labels={LABEL}", *(f"--env={key}={value}" for key, value in (env_vars or {}).items()),
                *options(kwargs),
            )  # fmt: skip
            wait_s = self._start_timeout_s
            self._run("wait", "--for=condition=Ready", f"pod/{name}", f"--timeout={wait_s:g}s", limit_s=wait_s)
            forward = ["port-forward", "--address=127.0.0.1", f"pod/{name}", f"{port}:{PORT_IN_CONTAINER}"]
            self._forwarding = ServerProcess([*self._kubectl, *forward], f"http://127.0.0.1:{port}")
        return f"http://127.0.0.1:{port}"

    def stop_container(self) -> None:
        """Delete the pod and stop forwarding. Raises ContainerFault if the pod cannot be deleted."""
        forwarding, self._forwarding = self._forwarding, None
        if forwarding is not None:
            forwarding.stop()
        if self._name is not None:
            self._run("delete", "pod", self._name, "--ignore-not-found", "--wait=false")
            self._name = None

    def wait_for_ready(self, base_url: str, timeout_s: float = 30.0) -> None:
        """Wait until the server is healthy. Raises NotReady with kubectl's output."""
        if self._forwarding is None:
            raise NotReady("no pod runs: start_container() first")
        self._forwarding.wait_until_healthy(timeout_s)

    def _run(self, *args: str, limit_s: float = 40.0) -> str:
        return run_tool(*self._kubectl, *args, remedy=_REMEDY, timeout_s=limit_s + 20)
