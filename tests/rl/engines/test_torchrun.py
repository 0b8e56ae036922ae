"""`torchrun` starts several processes for one run: the first makes it, and all hold parts of the trainer."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from openenv.rl.config_file import load_config
from openenv.rl.reports.results import read_rows
from openenv.rl.run import run_blocking

RUN = """name: {name}
env: guess
seed: 1
model: {{precision: float32, num_layers: 1, hidden_size: 64, num_heads: 2}}
pretrain: {{steps: 20, max_decisions: 1000, batch_size: 64}}
trainer: {{training: {{steps: {steps}}}}}
evaluation: {{num_games: 20, interval: 2, interval_games: 20}}
"""


def write_run(
    folder: Path, name: str, steps: int, checkpoint: str = "checkpoint: {{folder: {folder}, interval: 2}}"
) -> Path:
    file = folder / f"{name}.yaml"
    file.write_text(f"{RUN}{checkpoint}\n".format(name=name, folder=folder, steps=steps), encoding="utf-8")
    return file


@contextmanager
def torchrun(file: Path, *options: str) -> Iterator["subprocess.Popen[str]"]:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    process = subprocess.Popen(
        [*launcher, "-m", "openenv", "train", str(file), *options],
        env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_two_processes_make_the_run_of_one(tmp_path: Path) -> None:
    threads = torch.get_num_threads()
    one = run_blocking(load_config(write_run(tmp_path, "one", 4)))
    torch.set_num_threads(threads)

    with torchrun(write_run(tmp_path, "two", 4)) as process:
        output, _ = process.communicate(timeout=280)

    assert process.returncode == 0, output
    assert "trainer: 2 processes" in output
    folders = [tmp_path / name / "checkpoints" / "step_000004" for name in ("one", "two")]
    ours, theirs = (load_file(folder / "model.safetensors") for folder in folders)
    assert ours.keys() == theirs.keys()
    assert max(float((ours[name] - theirs[name]).abs().max()) for name in ours) < 1e-6
    rows = [read_rows(tmp_path / name / "metrics.jsonl") for name in ("one", "two")]
    for mine, other in zip(*rows, strict=True):
        assert mine.keys() == other.keys()
        assert mine["reward"] == other["reward"]
    assert one.steps == 4
    assert (tmp_path / "two" / "checkpoints" / "best" / "model.safetensors").exists()


def test_ctrl_c_saves_a_checkpoint_with_all_processes(tmp_path: Path) -> None:
    metrics = tmp_path / "two" / "metrics.jsonl"
    with torchrun(write_run(tmp_path, "two", 10_000, "checkpoint: {{folder: {folder}, interval: 0}}")) as process:
        deadline = time.monotonic() + 240
        while not (metrics.exists() and len(read_rows(metrics)) >= 2):
            assert process.poll() is None, process.communicate()[0]
            assert time.monotonic() < deadline
            time.sleep(0.2)

        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=120)

    steps = len(read_rows(metrics))
    assert (tmp_path / "two" / "checkpoints" / "latest").read_text(encoding="utf-8") == f"step_{steps:06d}"
    assert f"stopped after step {steps}" in output


def test_a_step_that_all_processes_refuse_ends_the_run_with_its_checkpoint_and_report(tmp_path: Path) -> None:
    file = write_run(tmp_path, "two", 50, "checkpoint: {{folder: {folder}, interval: 0}}")
    file.write_text(
        file.read_text(encoding="utf-8").replace("trainer: {", "trainer: {kl_target: null, optimizer: {lr: 1.0e+30}, "),
        encoding="utf-8",
    )

    with torchrun(file) as process:
        output, _ = process.communicate(timeout=280)

    assert process.returncode == 1
    assert "the gradient of step 2 is nan" in output
    assert (tmp_path / "two" / "report.html").exists()
    assert (tmp_path / "two" / "checkpoints" / "latest").read_text(encoding="utf-8") == "step_000001"


@pytest.mark.parametrize(
    ("written", "reason"), [("sede: 1", "sede"), ("model: {device: 'cuda:1'}", "model.device='cuda:1'")]
)
def test_a_refused_file_ends_all_processes_at_once(written: str, reason: str, tmp_path: Path) -> None:
    """The second is refused after the others have begun to wait for the first process."""
    file = write_run(tmp_path, "two", 4)
    kept = [line for line in file.read_text(encoding="utf-8").splitlines() if not line.startswith(written[:6])]
    file.write_text("\n".join([*kept, written, ""]), encoding="utf-8")

    with torchrun(file) as process:
        output, _ = process.communicate(timeout=120)

    assert process.returncode != 0
    assert reason in output
    assert "SIGKILL" not in output
