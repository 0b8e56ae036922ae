"""The script of TRL's guide to OpenEnv trains with our echo environment, on the installed TRL and without a GPU."""

from pathlib import Path

import pytest

from openenv.hosting.local_process import LocalServer
from tests.integrations_table import Record
from tests.tutorials.named import LeftOut, Plan, Replaced, Supplied
from tests.tutorials.reading import Reading, read, reading, tutorial

pytestmark = pytest.mark.process

NO_GPU = (
    Replaced(
        phrase='model="Qwen/Qwen2.5-0.5B-Instruct"',
        by='model="model"',
        reason="a download: a tiny model is made in this folder",
    ),
    Replaced(
        phrase='vllm_mode="server",\n        use_vllm=True,',
        by='use_cpu=True, bf16=False, report_to="none", save_strategy="no", logging_steps=1, disable_tqdm=True,'
        " learning_rate=3e-3,",
        reason="vLLM needs a GPU; a tiny model learns with a higher rate",
    ),
    Replaced(
        phrase="http://0.0.0.0:8000/generate/",
        by="http://127.0.0.1:{port:8000}/generate/",
        reason="the address of the server that stands in for `trl vllm-serve`",
    ),
    Replaced(
        phrase="rollout_func=rollout_func,",
        by="rollout_func=adapt_rollout_func(rollout_func),",
        reason="TRL passes its trainer since 0.26; the guide's function is of 0.25",
    ),
)
NO_DOCKER = Replaced(
    phrase='EchoEnv.from_docker_image("echo-env:latest")',
    by='EchoEnv(base_url="http://127.0.0.1:{port:echo}")',
    reason="no Docker engine: the same server runs as a process",
)


def the_signature_is_a_function(reader: Reading) -> None:
    assert reader.value("list(__import__('inspect').signature(rollout_func).parameters)") == [
        "prompts", "args", "processing_class",
    ]  # fmt: skip


def the_reward_rises(reader: Reading) -> None:
    rewards = rewards_of(reader)
    assert len(rewards) == 16, "64 prompts in groups of 8, 32 completions a step"
    first, last = (sum(part) / 4 for part in (rewards[:4], rewards[-4:]))
    assert last > 1.5 * first > 0


def rewards_of(reader: Reading) -> list[float]:
    rewards: list[float] = reader.value("[row['reward'] for row in trainer.state.log_history if 'reward' in row]")
    return rewards


def plan(*further: Replaced) -> Plan:
    return Plan(
        left_out=(
            LeftOut(digest="fa6667987204", shows="pip install", reason="installs a package"),
            LeftOut(digest="0920cfc35ae5", shows="trl vllm-serve and the script on two GPUs", reason="needs two GPUs"),
        ),
        replaced=(*NO_GPU, *further),
        supplied=(
            Supplied(phrase="args: GRPOConfig,", code="from trl import GRPOConfig", reason="an import is not shown"),
            Supplied(
                phrase="trainer = GRPOTrainer(",
                code="import requests\n"
                "from datasets import Dataset\n"
                "from openenv.integrations.trl import adapt_rollout_func\n"
                "from tests.tutorials.generating import save_model, serve_generate\n"
                "save_model('model')\n"
                "serve_generate(globals(), {port:8000})",
                reason="imports are not shown, and the server that stands in for `trl vllm-serve` is started",
            ),
        ),
        checks={"args: GRPOConfig,": the_signature_is_a_function, "trainer = GRPOTrainer(": the_reward_rises},
    )


def trained(folder: Path, plan: Plan, record_property: Record, **ports: int) -> None:
    path = tutorial("003")
    with reading(folder) as reader:
        reader.ports.update(ports)
        read(path, plan, reader)
        rewards = rewards_of(reader)
        seconds = reader.value("trainer.state.log_history[-1]['train_runtime']")
        reader.run("client.close()")
    rise = f"reward {sum(rewards[:4]) / 4:.1f} to {sum(rewards[-4:]) / 4:.1f}"
    record_property("figure", f"{rise}, {512 / seconds:.0f} episodes/s")


@pytest.mark.integration("TRL", "the script of TRL's guide, an echo server", package="trl")
def test_the_script_trains_on_a_server(tmp_path: Path, record_property: Record) -> None:
    with LocalServer("openenv.envs.echo_env.server.app") as server:
        port = int(server.base_url.rpartition(":")[2])
        trained(tmp_path, plan(NO_DOCKER), record_property, echo=port)


@pytest.mark.integration("TRL", "the script of TRL's guide, an echo container", package="trl")
def test_the_script_trains_on_its_container(
    request: pytest.FixtureRequest, tmp_path: Path, record_property: Record
) -> None:
    tutorial("003")  # skips before an engine is started
    request.getfixturevalue("engine")
    trained(tmp_path, plan(), record_property)
