"""`openenv deploy kubernetes` writes manifests that the published schemas accept, for servers whose sessions live in
one replica each."""

from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.cli.commands import run


def manifests(*options: str) -> dict[str, dict[str, Any]]:
    """What the command writes, by kind and name. Each is valid."""
    done = run("deploy", "kubernetes", "echo", "--image", "owner/echo-env:1", *options)
    assert done.returncode == 0, done.stderr
    found = list(yaml.safe_load_all(done.stdout))
    for each in found:
        kubernetes_validate.validate(each, kubernetes_validate.latest_version(), strict=True)
    return {f"{each['kind']}/{each['metadata']['name']}": each for each in found}


def test_one_replica_has_a_policy_services_and_a_set_of_one_pod() -> None:
    assert list(manifests()) == [
        "NetworkPolicy/echo-env", "Service/echo-env", "Service/echo-env-replicas", "StatefulSet/echo-env",
    ]  # fmt: skip


def test_every_option_reaches_the_pod() -> None:
    found = manifests(
        "--replicas", "3", "--max-replicas", "9", "--namespace", "games", "--cpu", "500m", "--memory", "2Gi",
        "--disk", "64Mi", "--runtime-class", "gvisor", "--token-secret", "mine", "--image-pull-policy", "Never",
        "--env", "GAME=catch",
    )  # fmt: skip
    stateful = found["StatefulSet/echo-env"]["spec"]
    pod = stateful["template"]["spec"]
    (container,) = pod["containers"]
    token = {"secretKeyRef": {"name": "mine", "key": "token"}}

    assert stateful["replicas"] == 3
    assert {each["metadata"]["namespace"] for each in found.values()} == {"games"}
    assert container["resources"]["limits"] == {"cpu": "500m", "memory": "2Gi", "ephemeral-storage": "64Mi"}
    assert container["env"] == [{"name": "GAME", "value": "catch"}, {"name": "OPENENV_TOKEN", "valueFrom": token}]
    assert (container["image"], container["imagePullPolicy"]) == ("owner/echo-env:1", "Never")
    assert pod["runtimeClassName"] == "gvisor"
    assert pod["volumes"] == [{"name": "tmp", "emptyDir": {"sizeLimit": "64Mi"}}]


def test_a_client_that_reconnects_reaches_its_replica_and_each_replica_has_a_name() -> None:
    found = manifests("--replicas", "2")

    assert found["Service/echo-env"]["spec"]["sessionAffinity"] == "ClientIP"
    assert found["Service/echo-env-replicas"]["spec"]["clusterIP"] == "None"
    assert found["StatefulSet/echo-env"]["spec"]["serviceName"] == "echo-env-replicas"


def test_all_objects_select_the_pods_of_the_set() -> None:
    found = manifests("--replicas", "2")
    labels = found["StatefulSet/echo-env"]["spec"]["template"]["metadata"]["labels"]
    specs = {name: each["spec"] for name, each in found.items()}
    selectors = [
        specs["Service/echo-env"]["selector"], specs["Service/echo-env-replicas"]["selector"],
        specs["StatefulSet/echo-env"]["selector"]["matchLabels"],
        specs["NetworkPolicy/echo-env"]["podSelector"]["matchLabels"],
        specs["PodDisruptionBudget/echo-env"]["selector"]["matchLabels"],
    ]  # fmt: skip

    assert all(selector == {"app.kubernetes.io/name": "echo-env"} for selector in selectors)
    assert labels.items() >= selectors[0].items()


def test_nothing_leaves_a_pod_and_only_its_namespace_enters() -> None:
    spec = manifests()["NetworkPolicy/echo-env"]["spec"]

    assert spec["policyTypes"] == ["Ingress", "Egress"]
    assert spec["egress"] == []
    assert spec["ingress"] == [{"from": [{"podSelector": {}}], "ports": [{"protocol": "TCP", "port": 8000}]}]


def test_the_autoscaler_removes_no_replica_because_its_sessions_would_end() -> None:
    spec = manifests("--replicas", "2", "--max-replicas", "5")["HorizontalPodAutoscaler/echo-env"]["spec"]

    assert (spec["minReplicas"], spec["maxReplicas"]) == (2, 5)
    assert spec["scaleTargetRef"] == {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "echo-env"}
    assert spec["behavior"] == {"scaleDown": {"selectPolicy": "Disabled"}}


@pytest.mark.parametrize(("gateway", "file"), [("nginx", "nginx.conf"), ("envoy", "envoy.yaml")])
def test_a_gateway_knows_each_replica_that_there_may_be_by_an_address_that_stays(gateway: str, file: str) -> None:
    found = manifests("--replicas", "2", "--max-replicas", "3", "--gateway", gateway)
    (text,) = found["ConfigMap/echo-env-gateway"]["data"].values()

    for name in ("echo-env-0", "echo-env-1", "echo-env-2"):
        spec = found[f"Service/{name}"]["spec"]
        assert spec["selector"] == {"statefulset.kubernetes.io/pod-name": name}
        assert spec["publishNotReadyAddresses"], "a pod that stops is not ready, and its sessions go on"
        assert name in text
    assert "echo-env-3" not in text
    assert list(found["ConfigMap/echo-env-gateway"]["data"]) == [file]


@pytest.mark.parametrize("gateway", ["nginx", "envoy"])
def test_a_gateway_is_as_isolated_as_a_server_and_reaches_only_its_replicas(gateway: str) -> None:
    found = manifests(
        "--gateway", gateway, "--token-secret", "mine", "--env", "A=1", "--gateway-image", "my/proxy:1",
        "--image-pull-policy", "Never",
    )  # fmt: skip
    pod = found["Deployment/echo-env-gateway"]["spec"]["template"]["spec"]
    server = found["StatefulSet/echo-env"]["spec"]["template"]["spec"]
    (container,), (of_server,) = pod["containers"], server["containers"]
    policy = found["NetworkPolicy/echo-env-gateway"]["spec"]

    assert pod["securityContext"] == server["securityContext"]
    assert container["securityContext"] == of_server["securityContext"]
    assert not pod["automountServiceAccountToken"]
    assert (container["image"], container["env"]) == ("my/proxy:1", [])
    assert "imagePullPolicy" not in container
    assert policy["egress"][0]["to"] == [{"podSelector": {"matchLabels": {"app.kubernetes.io/name": "echo-env"}}}]
    assert found["Service/echo-env-gateway"]["spec"]["selector"] == policy["podSelector"]["matchLabels"]


def test_behind_a_gateway_sessions_have_the_name_of_their_pod_and_go_on_while_it_stops() -> None:
    found = manifests("--gateway", "nginx")["StatefulSet/echo-env"]["spec"]["template"]["spec"]
    (container,) = found["containers"]
    name = {"fieldRef": {"fieldPath": "metadata.name"}}

    assert container["env"] == [{"name": "OPENENV_REPLICA", "valueFrom": name}]
    assert container["args"][-2:] == ["--drain-timeout-s", "300"]
    assert found["terminationGracePeriodSeconds"] == 330


def test_the_autoscaler_counts_sessions_where_it_is_asked_to() -> None:
    found = manifests("--max-replicas", "5", "--sessions-per-replica", "200")
    (metric,) = found["HorizontalPodAutoscaler/echo-env"]["spec"]["metrics"]
    annotations = found["StatefulSet/echo-env"]["spec"]["template"]["metadata"]["annotations"]

    assert metric["pods"]["metric"] == {"name": "openenv_sessions"}
    assert metric["pods"]["target"] == {"type": "AverageValue", "averageValue": "200"}
    assert annotations["prometheus.io/path"] == "/metrics"


def test_a_wrong_field_is_found_by_the_schemas() -> None:
    wrong = manifests()["StatefulSet/echo-env"]
    wrong["spec"]["template"]["spec"]["containers"][0]["securityContext"]["runAsNonroot"] = True

    with pytest.raises(kubernetes_validate.ValidationError, match="runAsNonroot"):
        kubernetes_validate.validate(wrong, kubernetes_validate.latest_version(), strict=True)


def test_a_file_is_written_without_references(tmp_path: Path) -> None:
    done = run("deploy", "kubernetes", "grid_world", "--image", "a", "-o", str(tmp_path / "x.yaml"))
    text = (tmp_path / "x.yaml").read_text()

    assert f"kubectl apply -f {tmp_path}/x.yaml" in done.stdout
    assert "&id" not in text
    assert "name: grid-world-env\n" in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--replicas", "0"], "replicas=0: give 1 or more"),
        (["--replicas", "3", "--max-replicas", "3"], "max_replicas=3: give more than replicas=3"),
        (["--memory", "1 GB"], "memory='1 GB': write a quantity"),
        (["--image-pull-policy", "never"], "image_pull_policy='never': expected one of Always"),
        (["--env", "A"], "--env A: write NAME=VALUE"),
        (["--gateway", "traefik"], "gateway='traefik': expected nginx or envoy"),
        (["--gateway-image", "a"], "--gateway-image a: add --gateway nginx"),
        (["--drain-s", "-1"], "drain_s=-1: give 0"),
        (["--sessions-per-replica", "9"], "sessions_per_replica=9: nothing adds pods without max_replicas"),
        (["--max-replicas", "2", "--sessions-per-replica", "0"], "sessions_per_replica=0: give 1 or more"),
    ],
)
def test_a_value_that_the_api_would_refuse_is_named(options: list[str], message: str) -> None:
    refused = run("deploy", "kubernetes", "echo", "--image", "a", *options)

    assert refused.returncode == 1
    assert message in refused.stderr


def test_a_name_whose_pods_would_be_too_long_is_refused() -> None:
    refused = run("deploy", "kubernetes", "a" * 50, "--image", "a")

    assert "use at most 52 characters" in refused.stderr
