"""`openenv deploy ray` writes manifests that KubeRay's published schema accepts, for a run that resumes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from openenv.rl.config_file import config_from_mapping
from tests.cli.commands import run

RUN = """# my run
name: Big_run
env: {name: openspiel, server_url: "http://blackjack-env:8000"}
engine: {name: ray, address: auto, rollout_workers: 3, generators: 2, trainer_ranks: 2, parts: 6}
"""
SCHEMA = yaml.safe_load(Path(__file__).with_name("ray.io_rayjobs.yaml").read_text())


def strict(schema: Any) -> Any:
    """The schema without the API's silence about fields that it does not know."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {} if "properties" not in schema else {"additionalProperties": False}
    return {**closed, **{key: strict(each) for key, each in schema.items()}}


def pods(schema: Any, value: Any) -> Iterator[Any]:
    """The templates of pods in a valid value."""
    if schema.get("x-pod-template"):
        yield value
    for key, inner in schema.get("properties", {}).items():
        if key in value:
            yield from pods(inner, value[key])
    if "items" in schema:
        for one in value:
            yield from pods(schema["items"], one)


def check(job: dict[str, Any]) -> None:
    """Raise ValidationError unless a RayJob is valid."""
    jsonschema.validate(job["spec"], strict(SCHEMA))
    for template in pods(SCHEMA, job["spec"]):
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", **template["metadata"]}}
        version = kubernetes_validate.latest_version()
        kubernetes_validate.validate({**pod, "spec": template["spec"]}, version, strict=True)


def manifests(folder: Path, *options: str, text: str = RUN) -> dict[str, dict[str, Any]]:
    """What the command writes for a run, by kind and name. Each is valid."""
    (folder / "run.yaml").write_text(text)
    done = run("deploy", "ray", "run.yaml", "--image", "owner/ray:1", *options, cwd=folder)
    assert done.returncode == 0, done.stderr
    found = list(yaml.safe_load_all(done.stdout))
    for each in found:
        if each["kind"] == "RayJob":
            check(each)
        else:
            kubernetes_validate.validate(each, kubernetes_validate.latest_version(), strict=True)
    return {f"{each['kind']}/{each['metadata']['name']}": each for each in found}


def groups(found: dict[str, dict[str, Any]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The groups of the head and of the workers."""
    cluster = found["RayJob/big-run"]["spec"]["rayClusterSpec"]
    return cluster["headGroupSpec"], cluster["workerGroupSpecs"][0]


def test_the_cluster_has_a_processor_for_each_actor(tmp_path: Path) -> None:
    head, workers = groups(manifests(tmp_path, "--workers", "3"))
    (container,) = workers["template"]["spec"]["containers"]
    engine = config_from_mapping(yaml.safe_load(RUN)).engine

    assert head["rayStartParams"] == {"num-cpus": "0"}  # the driver has them
    assert workers["replicas"] == workers["minReplicas"] == workers["maxReplicas"] == 3
    assert container["resources"]["limits"] == {"cpu": "3", "memory": "8Gi"}
    assert engine.num_actors == 7


def test_a_driver_that_ends_is_started_again_and_resumes_in_the_volume_that_all_pods_share(tmp_path: Path) -> None:
    found = manifests(tmp_path, "--retries", "5")
    spec = found["RayJob/big-run"]["spec"]
    templates = [group["template"]["spec"] for group in groups(found)]
    shared = [next(each for each in pod["volumes"] if each["name"] == "runs") for pod in templates]

    assert spec["entrypoint"] == "env --chdir=/runs openenv train /etc/openenv/run.yaml --resume"
    assert spec["backoffLimit"] == 5
    assert spec["shutdownAfterJobFinishes"] is True
    assert shared == [{"name": "runs", "persistentVolumeClaim": {"claimName": "big-run-runs"}}] * 2
    assert all({"name": "runs", "mountPath": "/runs"} in pod["containers"][0]["volumeMounts"] for pod in templates)
    assert found["PersistentVolumeClaim/big-run-runs"]["spec"]["accessModes"] == ["ReadWriteMany"]


def test_the_yaml_of_the_run_is_a_config_map_with_its_comments(tmp_path: Path) -> None:
    found = manifests(tmp_path)
    head, _ = groups(found)

    assert found["ConfigMap/big-run-config"]["data"] == {"run.yaml": RUN}
    assert {"name": "config", "configMap": {"name": "big-run-config"}} in head["template"]["spec"]["volumes"]


def test_every_option_reaches_the_pods(tmp_path: Path) -> None:
    found = manifests(
        tmp_path, "--workers", "2", "--gpus-per-worker", "8", "--cpu", "16", "--memory", "64Gi", "--disk", "1Ti",
        "--storage-class", "nfs", "--namespace", "games", "--token-secret", "mine", "--image-pull-policy", "Never",
        "--env", "HF_HOME=/runs/hub",
    )  # fmt: skip
    head, workers = groups(found)
    first, second = (group["template"]["spec"]["containers"][0] for group in (head, workers))
    hub = {"name": "HF_HOME", "value": "/runs/hub"}
    claim = found["PersistentVolumeClaim/big-run-runs"]["spec"]

    assert {each["metadata"]["namespace"] for each in found.values()} == {"games"}
    assert second["resources"]["limits"] == {"cpu": "16", "memory": "64Gi", "nvidia.com/gpu": 8}
    assert first["resources"]["limits"] == {"cpu": "16", "memory": "64Gi"}
    assert (claim["storageClassName"], claim["resources"]["requests"]["storage"]) == ("nfs", "1Ti")
    assert [each["name"] for each in first["env"]] == ["RAY_USAGE_STATS_ENABLED", "HF_HOME", "OPENENV_TOKEN"]
    assert hub in second["env"]
    assert (second["image"], second["imagePullPolicy"]) == ("owner/ray:1", "Never")


def test_a_cluster_whose_version_is_known_requires_a_token(tmp_path: Path) -> None:
    open_to_all = manifests(tmp_path)["RayJob/big-run"]["spec"]["rayClusterSpec"]
    guarded = manifests(tmp_path, "--ray-version", "2.60.0")["RayJob/big-run"]["spec"]["rayClusterSpec"]

    assert "authOptions" not in open_to_all
    assert (guarded["rayVersion"], guarded["authOptions"]) == ("2.60.0", {"mode": "token"})


def test_without_workers_the_actors_have_the_processors_of_the_head(tmp_path: Path) -> None:
    found = manifests(tmp_path, "--workers", "0", text=RUN.replace("server_url", "text: '', server_url"))
    cluster = found["RayJob/big-run"]["spec"]["rayClusterSpec"]

    assert cluster["workerGroupSpecs"] == []
    assert cluster["headGroupSpec"]["rayStartParams"] == {}
    assert cluster["headGroupSpec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["cpu"] == "7"


def test_a_wrong_field_is_found_by_the_schema(tmp_path: Path) -> None:
    job = manifests(tmp_path)["RayJob/big-run"]
    job["spec"]["rayClusterSpec"]["workerGroupSpecs"][0]["replica"] = 3

    with pytest.raises(jsonschema.ValidationError, match="replica"):
        check(job)


def test_a_wrong_field_of_a_pod_is_found_by_the_schema(tmp_path: Path) -> None:
    job = manifests(tmp_path)["RayJob/big-run"]
    job["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["images"] = "a"

    with pytest.raises(kubernetes_validate.ValidationError, match="images"):
        check(job)


def test_the_file_is_readable(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(RUN)
    done = run("deploy", "ray", "run.yaml", "--image", "a", "-o", "job.yaml", cwd=tmp_path)
    text = (tmp_path / "job.yaml").read_text()

    assert "kubectl apply -f job.yaml" in done.stdout
    assert "  run.yaml: |\n    # my run\n" in text
    assert "&id" not in text


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("env: guess\n", [], "engine.name='embedded': KubeRay makes a Ray cluster. Set engine"),
        ("engine: ray\n", [], "engine.address='': the job starts the cluster"),
        (
            "engine: {name: ray, address: auto}\nenv: guess\n",
            [],
            "env.server_url='': workers on 2 machines reach no server on the driver's own",
        ),
        (RUN.replace("blackjack-env", "localhost"), [], "env.server_url='http://localhost:8000': workers on 2"),
        (RUN, ["--cpu", "3", "--workers", "2"], "--cpu 3: 7 actors need a processor each, and 2 machines have 6"),
        (RUN, ["--workers", "0", "--gpus-per-worker", "1"], "gpus_per_worker=1: there are no workers"),
        (RUN, ["--ray-version", "2.51.9"], "ray_version='2.51.9': give that of the image"),
        (RUN, ["--memory", "1 GB"], "memory='1 GB': write a quantity"),
        (RUN, ["--name", "a" * 48], "use at most 47 characters, as KubeRay requires"),
    ],
)
def test_what_could_not_run_is_refused(text: str, options: list[str], message: str, tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(text)
    refused = run("deploy", "ray", "run.yaml", "--image", "a", *options, cwd=tmp_path)

    assert refused.returncode == 1
    assert message in refused.stderr
