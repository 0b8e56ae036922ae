"""The provider for Kubernetes creates a pod through the API, waits until it serves, and deletes all that it made."""

import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml

from openenv.core.errors import ContainerFault, NotReady
from openenv.envs.echo_env import EchoAction, EchoEnv
from openenv.hosting.runtime import KubernetesProvider
from tests.hosting import fake_tools
from tests.hosting.kubernetes.fake_cluster import FakeCluster

pytestmark = pytest.mark.process


@pytest.fixture
def cluster(tools: Path, serving, monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    """A cluster to which the kubeconfig leads. No object of it outlives the test."""
    monkeypatch.setattr(fake_tools, "FOLDER", tools)
    found = FakeCluster()
    write_kubeconfig(tools, serving(found.app), monkeypatch)
    return found


def write_kubeconfig(folder: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    context = {"cluster": "here", "user": "me", "namespace": "games"}
    config: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "here", "cluster": {"server": url}}],
        "users": [{"name": "me", "user": {"token": "t"}}],
        "contexts": [{"name": "here", "context": context}],
    }
    (folder / "kubeconfig").write_text(yaml.safe_dump(config))
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(folder / "kubeconfig"))


def created(cluster: FakeCluster, kind: str) -> dict[str, Any]:
    (found,) = [each for each in cluster.created if each["kind"] == kind]
    return found


def test_a_pod_is_created_waited_for_played_and_deleted_with_all_that_belongs_to_it(cluster, calls_of) -> None:
    provider = KubernetesProvider()
    base_url = provider.start_container("owner/echo-env:latest", env_vars={"A": "b"}, image_pull_policy="Never")
    provider.wait_for_ready(base_url)
    with EchoEnv(base_url) as env:
        env.reset()
        assert env.step(EchoAction(message="hello")).observation.echoed_message == "hello"
    (forward,) = calls_of("kubectl")
    name = created(cluster, "Pod")["metadata"]["name"]
    provider.stop_container()
    provider.stop_container()

    assert [each["kind"] for each in cluster.created] == ["NetworkPolicy", "Pod", "Service"]
    assert forward[:4] == ["--namespace=games", "port-forward", "--address=127.0.0.1", f"pod/{name}"]
    assert cluster.objects == {}
    assert cluster.namespaces == {"games"}
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(f"{base_url}/health")


def test_what_a_crashed_caller_leaves_ends_by_itself_and_goes_with_its_policy(cluster) -> None:
    provider = KubernetesProvider(lifetime_s=600)
    provider.start_container("echo-env")
    provider.stop_container()

    assert created(cluster, "Pod")["spec"]["activeDeadlineSeconds"] == 600
    for kind in ("Pod", "Service"):
        (owner,) = created(cluster, kind)["metadata"]["ownerReferences"]
        assert owner["uid"] == "uid-networkpolicies"
        assert created(cluster, kind)["metadata"]["labels"]["org.openenv"] == "1"


def test_a_pod_is_kept_apart_from_its_node_and_from_the_network(cluster) -> None:
    provider = KubernetesProvider()
    provider.start_container("echo-env", cpu="500m", memory="256Mi", runtime_class="gvisor", token_secret="secret")
    layers = provider.layers
    provider.stop_container()
    spec = created(cluster, "Pod")["spec"]
    (container,) = spec["containers"]

    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert spec["automountServiceAccountToken"] is False
    assert spec["runtimeClassName"] == "gvisor"
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
    }  # fmt: skip
    assert container["resources"]["limits"] == {"cpu": "500m", "memory": "256Mi", "ephemeral-storage": "1Gi"}
    assert {container[probe]["httpGet"]["path"] for probe in ("startupProbe", "readinessProbe", "livenessProbe")} == {
        "/health"
    }
    assert created(cluster, "NetworkPolicy")["spec"]["egress"] == []
    assert created(cluster, "NetworkPolicy")["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert layers["namespaces"] == "on: the runtime class gvisor"
    assert layers["processes"].startswith("off: ")


def test_the_log_and_commands_of_a_pod_are_reached_through_the_api(cluster) -> None:
    provider = KubernetesProvider()
    provider.wait_for_ready(provider.start_container("echo-env", env_vars={"PYTHONWARNINGS": "first,second"}))
    try:
        done = provider.exec([sys.executable, "-c", "print('7 é'); raise SystemExit(3)"])
        assert (done.exit_code, done.output) == (3, "7 é\n")
        assert provider.exec(["true"]).exit_code == 0
        with pytest.raises(ContainerFault, match="was not started: no such file: absent"):
            provider.exec(["absent"])
        with pytest.raises(ContainerFault, match="the connection broke while cut ran"):
            provider.exec(["cut"])
        assert "first" in provider.logs()
        newest = provider.logs(tail=2)  # the warning about `second`, and where the server listens
        assert [word in newest for word in ("first", "second", "serving echo_env")] == [False, True, True]
    finally:
        provider.stop_container()


@pytest.mark.parametrize(
    ("image", "error", "message"),
    [
        ("missing:1", ContainerFault, r"ImagePullBackOff: Back-off pulling image \"missing:1\"\. Does the node reach"),
        ("big", NotReady, r"not ready in 2 s: no node takes it: 0/3 nodes.*Ask for less cpu or memory"),
        ("slow", NotReady, r"not ready in 2 s: its server is not healthy yet"),
        ("crashing", ContainerFault, r"has ended: exit code 1 \(Error\)(?s:.*)no module named game"),
        ("vanishing", ContainerFault, r"was deleted while it started"),
    ],
)
def test_a_pod_that_does_not_come_up_is_an_error_with_its_reason_and_leaves_nothing(
    cluster, image: str, error: type[Exception], message: str
) -> None:
    provider = KubernetesProvider(start_timeout_s=2)
    with pytest.raises(error, match=message):
        provider.start_container(image)

    assert cluster.objects == {}
    provider.start_container("echo-env")  # the provider may be used again
    provider.stop_container()


def test_a_cluster_that_refuses_raises_its_message_with_the_remedy(cluster) -> None:
    cluster.refuses = "exceeded quota: pods=10"
    with pytest.raises(ContainerFault, match=r"creating the network_policy(?s:.*)exceeded quota.*kubectl get pods"):
        KubernetesProvider().start_container("echo-env")


def test_a_program_in_the_cluster_uses_the_address_of_the_service(cluster, calls_of) -> None:
    provider = KubernetesProvider(namespace="other", forwards=False)
    base_url = provider.start_container("2048-env")
    name = created(cluster, "Service")["metadata"]["name"]
    provider.stop_container()

    assert base_url == f"http://{name}.other.svc:8000"
    assert name.startswith("env-2048-env-")
    assert created(cluster, "Service")["spec"]["selector"] == {"app.kubernetes.io/name": name}
    assert calls_of("kubectl") == []


def test_a_cluster_that_cannot_be_reached_is_an_error_with_the_remedy(tmp_path, monkeypatch) -> None:
    write_kubeconfig(tmp_path, "http://127.0.0.1:9", monkeypatch)
    with pytest.raises(ContainerFault, match="Is the cluster up"):
        KubernetesProvider().start_container("echo-env")


def test_no_kubeconfig_is_an_error_that_names_the_variable(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "none"))
    with pytest.raises(ContainerFault, match="Set KUBECONFIG"):
        KubernetesProvider()


def test_a_keyword_that_no_pod_has_is_refused_with_those_that_there_are(cluster) -> None:
    with pytest.raises(ValueError, match=r"memory_limit: not among cpu, memory, disk, runtime_class"):
        KubernetesProvider().start_container("echo-env", memory_limit="1g")
