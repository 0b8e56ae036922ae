"""`openenv deploy slurm` writes a script for sbatch, which starts the run over the nodes and goes on after a limit."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.commands import run

RAY = """name: on_ray
env: {name: openspiel, server_url: "http://games:8000"}
engine: {name: ray, address: auto, rollout_workers: 3, generators: 2, trainer_ranks: 2, parts: 6}
"""
EMBEDDED = "name: My run\nenv: guess\n"


def script(folder: Path, *options: str, text: str = EMBEDDED) -> str:
    """What the command writes for a run. A shell parses it."""
    (folder / "run.yaml").write_text(text)
    done = run("deploy", "slurm", "run.yaml", "--time", "1:00:00", *options, cwd=folder)
    assert done.returncode == 0, done.stderr
    parsed = subprocess.run(["bash", "-n"], input=done.stdout, text=True, capture_output=True, check=False)
    assert parsed.stderr == ""
    return done.stdout


def options_of(text: str) -> dict[str, str]:
    """The options of sbatch in a script."""
    return {name: value for name, _, value in re.findall(r"^#SBATCH --([\w-]+)(=(.*))?$", text, re.M)}


@pytest.mark.parametrize("text", [EMBEDDED, RAY])
@pytest.mark.parametrize("nodes", ["1", "2"])
@pytest.mark.parametrize("gpus", ["0", "4"])
def test_shellcheck_has_no_remark(text: str, nodes: str, gpus: str, tmp_path: Path) -> None:
    written = script(tmp_path, "--nodes", nodes, "--gpus-per-node", gpus, text=text)
    shellcheck = Path(sys.executable).with_name("shellcheck")  # of the extra dev
    checked = subprocess.run([shellcheck, "-"], input=written, text=True, capture_output=True, check=False)

    assert checked.stdout == ""


def test_one_process_needs_no_launcher(tmp_path: Path) -> None:
    text = script(tmp_path)

    assert "\nopenenv train run.yaml --resume &\nrun=$!\n" in text
    assert "torchrun" not in text


def test_torchrun_starts_a_process_for_each_gpu_of_each_node(tmp_path: Path) -> None:
    text = script(tmp_path, "--nodes", "2", "--gpus-per-node", "8", text=f"{EMBEDDED}threads: 4\n")
    options = options_of(text)

    assert (options["nodes"], options["ntasks-per-node"], options["gpus-per-node"]) == ("2", "1", "8")
    assert options["cpus-per-task"] == "32"
    assert "--nproc-per-node 8" in text
    assert '--node-rank "$SLURM_NODEID"' in text
    assert "-m openenv train run.yaml --resume &" in text


def test_gpus_of_vllm_are_left_to_it(tmp_path: Path) -> None:
    vllm = f"{EMBEDDED}generator: {{name: vllm, replicas: 2, gpus: ['6', '7']}}\n"
    text = script(tmp_path, "--gpus-per-node", "8", text=vllm)

    assert options_of(text)["gpus-per-node"] == "8"
    assert "torchrun --standalone --nproc-per-node 6" in text


def test_a_ray_cluster_has_a_processor_for_each_actor_and_the_driver_is_on_the_first_node(tmp_path: Path) -> None:
    text = script(tmp_path, "--nodes", "3", "--gpus-per-node", "4", text=RAY)

    assert options_of(text)["cpus-per-task"] == "3"
    assert 'ray start --head --port "$port" --num-cpus "$SLURM_CPUS_PER_TASK" --num-gpus 4 --block &' in text
    assert 'srun --nodes 2 --ntasks 2 --exclude "$head"' in text
    assert "\nopenenv train run.yaml --resume &\nrun=$!\n" in text


def test_one_node_has_no_workers_beside_the_head(tmp_path: Path) -> None:
    assert "srun" not in script(tmp_path, text="env: guess\nengine: {name: ray, address: auto}\n")


def test_every_option_reaches_the_script(tmp_path: Path) -> None:
    options = options_of(
        script(
            tmp_path, "--partition", "gpu", "--account", "games", "--memory", "64G", "--cpus-per-node", "12",
        )
    )  # fmt: skip

    assert options == {
        "job-name": "my-run", "nodes": "1", "ntasks-per-node": "1", "cpus-per-task": "12", "time": "1:00:00",
        "mem": "64G", "partition": "gpu", "account": "games", "signal": "B:TERM@180", "requeue": "",
        "open-mode": "append", "output": "%x-%j.log",
    }  # fmt: skip


@pytest.fixture
def job(tmp_path: Path):
    """Runs a script as Slurm would, with programs of its own in place of openenv and scontrol."""

    def started(openenv: str, restarts: int = 0) -> "subprocess.Popen[str]":
        (tmp_path / "job.sh").write_text(script(tmp_path, "--retries", "2"))
        for name, body in (("openenv", openenv), ("scontrol", 'if [ "$1" = show ]; then echo n1; else echo "$@"; fi')):
            (tmp_path / name).write_text(f"#!/bin/bash\n{body}\n")
            (tmp_path / name).chmod(0o755)
        variables = {"PATH": f"{tmp_path}:/usr/bin:/bin", "SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n[1-2]"}
        if restarts:
            variables["SLURM_RESTART_COUNT"] = str(restarts)
        return subprocess.Popen(
            ["bash", tmp_path / "job.sh"], env=variables, cwd=tmp_path, stdout=subprocess.PIPE, text=True
        )

    return started


SAVES = "trap 'echo saved; kill $!; exit 143' TERM; sleep 60 > /dev/null & echo ready; wait"


@pytest.mark.parametrize(("restarts", "queued"), [(0, "requeue 7\n"), (1, "requeue 7\n"), (2, "")])
def test_at_the_time_limit_the_run_saves_and_the_job_is_queued_again(job, restarts: int, queued: str) -> None:
    with job(SAVES, restarts) as process:
        assert process.stdout.readline() == "ready\n"
        process.terminate()

        assert process.stdout.readline() == "saved\n"
        assert process.stdout.read() == queued
    assert process.returncode == 143


def test_the_run_ends_its_work_as_after_ctrl_c(job) -> None:
    with job("trap 'echo interrupted; exit 1' INT; kill -INT $$; echo ignored") as process:
        assert process.stdout.read() == "interrupted\n"


def test_a_run_that_ends_in_time_is_not_queued_again(job) -> None:
    with job("exit 0") as process:
        assert process.stdout.read() == ""
    assert process.returncode == 0


def test_a_run_that_fails_is_not_queued_again_and_its_code_is_that_of_the_job(job) -> None:
    with job("exit 3") as process:
        assert process.stdout.read() == ""
    assert process.returncode == 3


def has_slurm() -> bool:
    """Whether a cluster of Slurm answers."""
    return (
        shutil.which("sinfo") is not None and subprocess.run(["sinfo"], capture_output=True, timeout=60).returncode == 0
    )


@pytest.mark.slow
@pytest.mark.parametrize("text", [EMBEDDED, RAY])
def test_slurm_accepts_the_script(text: str, tmp_path: Path) -> None:
    if not has_slurm():
        pytest.skip("needs a cluster of Slurm")
    (tmp_path / "job.sh").write_text(script(tmp_path, text=text))
    command = ["sbatch", "--test-only", tmp_path / "job.sh"]
    accepted = subprocess.run(command, text=True, capture_output=True, check=False)

    assert accepted.returncode == 0, accepted.stderr
    assert "to start at" in accepted.stderr


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (EMBEDDED, ["--time", "soon"], "--time soon: write minutes"),
        (EMBEDDED, ["--partition", "a b"], "--partition 'a b': write a word"),
        ("engine: ray\n", [], "engine.address='': the job starts the cluster"),
        (RAY, ["--nodes", "2", "--cpus-per-node", "3"], "--cpus-per-node 3: 7 actors need a processor each"),
        (RAY.replace("games", "127.0.0.1"), ["--nodes", "2"], "workers on 2 machines reach no server"),
        ("generator: {name: vllm, gpus: ['0']}\n", ["--gpus-per-node", "1"], "the trainer needs a GPU too"),
        ("generator: {name: vllm, gpus: ['0']}\n", ["--gpus-per-node", "2"], "Give vLLM the last ones"),
    ],
)
def test_what_could_not_run_is_refused(text: str, options: list[str], message: str, tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(text)
    refused = run("deploy", "slurm", "run.yaml", "--time", "30", *options, cwd=tmp_path)

    assert refused.returncode == 1
    assert message in refused.stderr
