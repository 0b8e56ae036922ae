"""Real vLLM samples the replies, in its own virtual environment: `make vllm`."""

import copy
import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from openenv.agents.llm.http import LLMError
from openenv.policies.prompts import ChatMessage
from openenv.rl.algorithm.trajectory import Segment
from openenv.rl.config import Config
from openenv.rl.config_file import config_from_mapping
from openenv.rl.generators.of_run import RunGenerators
from openenv.rl.generators.probe import GeneratorDisagrees
from openenv.rl.generators.vllm_process import VllmProcess
from openenv.rl.generators.vllm_server import VllmGenerator
from openenv.rl.models.chat import Chat
from openenv.rl.models.language_model import WeightStore
from openenv.rl.reports.results import read_rows
from openenv.rl.setup import setup_training
from openenv.rl.training.checkpoint import save_model
from openenv.text.constraints import ReplyConstraint
from tests.core.env_server.probes import is_running
from tests.rl.models.small_models import small_model

pytestmark = [pytest.mark.vllm, pytest.mark.process]

GENERATOR = {"name": "vllm", "python": os.environ.get("OPENENV_VLLM_PYTHON", "")}
TALKS: list[list[ChatMessage]] = [[{"role": "user", "content": f"say {word}"}] for word in ("red", "green", "blue")]
BOUND = 1e-4


class Served:
    """A small model of tied embeddings, in float32, and vLLM with the same weights."""

    def __init__(self, folder: Path) -> None:
        self.model, tokenizer = small_model("Qwen3")
        self.chat = Chat(tokenizer)
        save_model(folder / "model", self.model, self.chat)
        config = config_of(folder, model={"path": str(folder / "model"), "precision": "float32"})
        self.store = WeightStore()
        self.generators = RunGenerators(config, self.chat, self.model, str(folder / "model"))
        self.generator = self.generators.for_rollouts(self.model, self.store)
        assert isinstance(self.generator, VllmGenerator)

    def publish(self, changed: float = 0.0) -> int:
        """Publish the weights as the next version, each moved by a random part of itself."""
        draws = torch.Generator().manual_seed(self.store.version)
        with torch.no_grad():
            for weights in self.model.parameters():
                weights.mul_(1 + changed * torch.randn(weights.shape, generator=draws))
        self.store.publish(self.model, self.store.version + 1)
        return self.store.version

    def segments(self, constraints: Any = ()) -> list[Segment]:
        streams = [random.Random(number) for number in range(len(TALKS) * 4)]
        return self.generator.answer(TALKS * 4, streams, self.chat, constraints)


def config_of(folder: Path, **changes: Any) -> Config:
    settings: dict[str, Any] = {"max_req_tokens": 120, "max_res_tokens": 8, "checkpoint": {"folder": str(folder)}}
    return config_from_mapping({**settings, "generator": GENERATOR, **changes})


def guess_run(folder: Path, name: str, lora: dict[str, int] | None = None) -> Config:
    """A run of the model in this folder."""
    return config_of(
        folder,
        name=name,
        env={"name": "guess"},
        model={"path": str(folder / "model"), "precision": "float32", "lora": lora},
        max_req_tokens=400,
        group_size=4,
        replay_buffer={"batch_size": 4},
        loss={"kl_weight": 0.05},
        evaluation={"num_games": 8, "sessions": 8},
    )


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    one = Served(tmp_path_factory.mktemp("served"))
    try:
        one.generators.start()
        yield one
    finally:
        one.generators.close()


def distance(model: Any, segments: list[Segment]) -> float:
    """The largest difference between recorded log-probabilities and those of the model's own forward."""
    found = 0.0
    for segment in segments:
        with torch.no_grad():
            table = torch.log_softmax(model(torch.tensor([segment.token_ids])).logits[0], dim=-1)
        own = table[:-1].gather(1, torch.tensor(segment.token_ids[1:])[:, None])[:, 0]
        mask = torch.tensor(segment.sampled[1:])
        found = max(found, float((own[mask] - torch.tensor(segment.logprobs[1:])[mask]).abs().max()))
    return found


def test_each_version_of_the_whole_weights_samples_its_replies(served: Served) -> None:
    for changed in (0.0, 0.3, 0.3):
        version = served.publish(changed)

        segments = served.segments()

        assert {segment.policy_version for segment in segments} == {version}
        assert distance(served.model, segments) < BOUND


def test_equal_random_numbers_give_equal_replies(served: Served) -> None:
    assert [one.token_ids for one in served.segments()] == [one.token_ids for one in served.segments()]


def test_limited_replies_are_legal_and_have_their_masks(served: Served) -> None:
    legal = ReplyConstraint(choices=("red", "green"))

    for segment in served.segments([legal] * len(TALKS) * 4):
        written = [token for token, is_sampled in zip(segment.token_ids, segment.sampled, strict=True) if is_sampled]
        assert served.chat.text(written) in legal.choices
        assert any(segment.masks)


def test_weights_that_vllm_keeps_in_part_end_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # reloading alone: on a processor an output layer that is tied to the embedding keeps its former matrix
    (tmp_path / "reloading.py").write_text(
        "class Alone:\n"
        "    def load_openenv_weights(self, file):\n"
        "        from safetensors.torch import load_file\n"
        "        self.reload_weights(weights_iterator=iter(load_file(file).items()))\n"
    )
    stale = Served(tmp_path)
    process = stale.generators._process
    assert isinstance(process, VllmProcess)
    process._command += ["--worker-extension-cls", "reloading.Alone"]
    process._env_vars["PYTHONPATH"] += f":{tmp_path}"
    try:
        stale.generators.start()
        stale.publish()
        stale.segments()
        stale.publish(0.3)
        with pytest.raises(
            GeneratorDisagrees, match="nats a token away from the trainer after the update to version 1"
        ):
            stale.segments()
    finally:
        stale.generators.close()


@pytest.mark.parametrize("lora", [None, {"rank": 8}], ids=["whole weights", "adapter"])
async def test_a_run_learns_with_vllm_and_leaves_no_process(tmp_path: Path, lora: dict[str, int] | None) -> None:
    model, tokenizer = small_model("Qwen3")
    save_model(tmp_path / "model", model, Chat(tokenizer))
    run = await setup_training(guess_run(tmp_path, "served", lora))
    process = run.engine._generators._process
    assert process is not None
    assert process._process is not None
    pid = process._process.pid
    try:
        result = await run.run(steps=3)
    finally:
        await run.shutdown()

    rows = read_rows(result.run_dir / "metrics.jsonl")
    assert [row["off_policy/max_age"] for row in rows] == [0, 1, 1]
    assert rows[0]["mismatch_kl"] < 1e-6
    assert process._process is None
    assert not is_running(pid)


async def test_a_server_that_is_killed_is_started_again_and_its_groups_are_played_again(tmp_path: Path) -> None:
    model, tokenizer = small_model("Qwen3")
    save_model(tmp_path / "model", model, Chat(tokenizer))
    rows = []
    for name, num_kills in (("undisturbed", 0), ("disturbed", 1), ("hopeless", 3)):
        run = await setup_training(guess_run(tmp_path, name))
        process = run.engine._generators._process
        assert process is not None
        kill(run.engine._generator, process, num_kills)
        try:
            if num_kills == 3:
                with pytest.raises(LLMError, match="cannot be reached"):
                    await run.run(steps=2)
            else:
                await run.run(steps=2)
                rows.append(read_rows(run.config.run_dir / "metrics.jsonl"))
        finally:
            await run.shutdown()

    undisturbed, disturbed = ([row["return"] for row in run] for run in rows)
    assert disturbed == undisturbed


def kill(generator: Any, process: VllmProcess, times: int) -> None:
    """Let a server be killed as soon as it has received weights, so many times."""
    load, left = generator.load_newest, [None] * times

    async def load_and_kill() -> None:
        await load()
        if left:
            left.pop()
            assert process._process is not None
            os.killpg(process._process.pid, signal.SIGKILL)

    generator.load_newest = load_and_kill


def test_a_program_without_vllm_is_named(tmp_path: Path) -> None:
    model, tokenizer = small_model("Qwen3")
    chat = Chat(tokenizer)
    config = config_of(tmp_path, generator={"name": "vllm", "python": "/no/python"})
    generators = RunGenerators(config, chat, copy.deepcopy(model), str(tmp_path))

    with pytest.raises(RuntimeError, match=r"generator\.python: /no/python cannot be run"):
        generators.start()
