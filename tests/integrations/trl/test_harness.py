"""TRL's AsyncGRPOTrainer trains agents' programs through its HarnessRolloutWorker and our package, on a processor."""

import functools
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from datasets import Dataset
from examples.trl.agent import NUM_STEPS, PROMPT, ScriptArguments, trainer
from openenv.core.harness import MCPHarnessAdapter, ResourceSessionFactory, StepEnvSessionAdapter, ToolResult
from torch.nn.functional import scaled_dot_product_attention
from trl.experimental.async_grpo import (
    AsyncGRPOConfig,
    AsyncGRPOTrainer,
    async_grpo_trainer,
    async_rollout_worker,
    packing,
)
from trl.experimental.async_grpo.openenv_harness import HarnessRolloutWorker

from openenv.core.env_server.mcp_types import Tool
from openenv.envs.echo_env import EchoAction, EchoEnv
from openenv.hosting.local_process import LocalServer
from tests.conftest import Serving
from tests.integrations.trl.token_engine import TokenEngine
from tests.integrations.trl.trainers import teach, tiny_model, tools_tokenizer
from tests.integrations_table import Record

pytestmark = [pytest.mark.process, pytest.mark.filterwarnings("ignore")]


def attend(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, ends_q: torch.Tensor, ends_k: torch.Tensor,
    *_: Any, softmax_scale: float, **__: Any,
) -> torch.Tensor:  # fmt: skip
    """FlashAttention's function for rows of several lengths, which needs a GPU: each query sees the keys up to it."""
    outputs = []
    pieces = zip(ends_q[:-1], ends_q[1:], ends_k[:-1], ends_k[1:], strict=True)
    for start_q, end_q, start_k, end_k in pieces:
        rows = [rows.transpose(0, 1) for rows in (query[start_q:end_q], key[start_k:end_k], value[start_k:end_k])]
        size_q, size_k = end_q - start_q, end_k - start_k
        mask = torch.ones(size_q, size_k, dtype=torch.bool).tril(size_k - size_q)
        seen = scaled_dot_product_attention(*rows, attn_mask=mask, scale=softmax_scale, enable_gqa=True)
        outputs.append(seen.transpose(0, 1))
    return torch.cat(outputs)


@pytest.fixture(scope="module")
def env_url():
    with LocalServer("openenv.envs.echo_env.server.app") as server:
        yield server.base_url


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the model is."""
    return tmp_path / "model"


def saved_engine(model: Any, tokenizer: Any, folder: Path) -> TokenEngine:
    """An engine of a model, which the trainer loads from a folder."""
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return TokenEngine(model, tokenizer, str(folder))


@pytest.fixture
def on_a_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """TRL looks for vLLM, which the engine stands for, fetches a kernel for GPUs, and asks for a GPU's name."""
    monkeypatch.setattr(async_rollout_worker, "is_vllm_available", lambda: True)
    monkeypatch.setattr(async_grpo_trainer, "get_peak_flops_per_device", lambda *_: None)
    monkeypatch.setattr(packing, "_flash_attn", lambda: SimpleNamespace(flash_attn_varlen_func=attend))


@pytest.fixture
def config(tmp_path: Path) -> Callable[..., AsyncGRPOConfig]:
    """Makes a configuration for this machine, with the options of a test."""

    def config(url: str, **options: Any) -> AsyncGRPOConfig:
        return AsyncGRPOConfig(
            output_dir=str(tmp_path / "run"), vllm_server_base_url=url, num_generations=8, token_budget=-1,
            per_device_train_batch_size=16, max_staleness=2, use_cpu=True, bf16=False, dtype="float32",
            gradient_checkpointing=False, save_strategy="no", report_to="none", logging_steps=1, disable_tqdm=True,
            **options,
        )  # fmt: skip

    return config


def logged(trainer: AsyncGRPOTrainer, name: str) -> list[float]:
    """A figure of each step."""
    return [entry[name] for entry in trainer.state.log_history if name in entry]


@pytest.mark.integration("TRL", "AsyncGRPOTrainer with a HarnessRolloutWorker and an agent's program", package="trl")
def test_an_agents_program_is_trained(
    config: Callable[..., AsyncGRPOConfig], env_url: str, serving: Serving, on_a_processor: None, folder: Path,
    record_property: Record,
) -> None:  # fmt: skip
    tokenizer = tools_tokenizer([PROMPT[0]["content"]])
    engine = saved_engine(tiny_model(tokenizer), tokenizer, folder)
    args = config(serving(engine.app), max_completion_length=4, max_steps=60, learning_rate=1e-2)
    made = trainer(ScriptArguments(engine.name, env_url), args, weight_transfer=engine)

    made.train()

    rewards, ratios = logged(made, "reward"), logged(made, "ratio")
    first, last = sum(rewards[:10]) / 10, sum(rewards[-10:]) / 10
    record_property("reward", f"{first:.2f} -> {last:.2f}")
    assert last > 2 * first
    assert ratios[0] == pytest.approx(1.0, abs=1e-4)  # the trainer's log-probabilities are those of the engine
    assert logged(made, "rollout/turns_mean")[0] == NUM_STEPS
    assert 1 <= logged(made, "rollout/samples_per_rollout")[0] <= NUM_STEPS  # two, where a reply is encoded otherwise
    assert {body["temperature"] for body in engine.bodies} == {1.0}
    assert engine.num_updates == 61  # before the first step, and after each


TOOL = Tool(
    name="echo",
    description="Send a message.",
    input_schema={"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]},
)


class ToolSessions(ResourceSessionFactory[StepEnvSessionAdapter]):
    """Episodes of the echo environment by calls of a tool."""

    def __init__(self, env_url: str) -> None:
        self._env_url = env_url

    def create(self, task: Any, seed: int | None = None, episode_id: str | None = None) -> StepEnvSessionAdapter:
        """An episode."""
        return StepEnvSessionAdapter(
            EchoEnv(self._env_url), task=task, seed=seed, tool_specs=[TOOL],
            action_builder=lambda _, arguments: EchoAction(**arguments),
            initial_messages_builder=lambda _, task: list(task),
            tool_result_builder=lambda _, __, result, ___: ToolResult(
                data=result.observation.echoed_message, done=True, metadata={"reward": result.reward}
            ),
        )  # fmt: skip


@pytest.mark.integration("TRL", "AsyncGRPOTrainer with a HarnessRolloutWorker and MCPHarnessAdapter", package="trl")
def test_a_model_that_trl_samples_itself_is_trained_by_calls_of_tools(
    config: Callable[..., AsyncGRPOConfig], env_url: str, serving: Serving, on_a_processor: None, folder: Path,
    record_property: Record,
) -> None:  # fmt: skip
    calls = [
        f"<tool_call>\n{json.dumps({'name': 'echo', 'arguments': {'message': 'ab' * length}})}\n</tool_call><|im_end|>"
        for length in range(1, 9)
    ]
    tokenizer = tools_tokenizer(calls)
    model = tiny_model(tokenizer)
    tool = {"name": TOOL.name, "description": TOOL.description, "parameters": TOOL.input_schema}
    prompt = tokenizer.apply_chat_template(
        PROMPT, tools=[{"type": "function", "function": tool}], add_generation_prompt=True, enable_thinking=False,
        return_dict=False,
    )  # fmt: skip
    teach(model, prompt, [tokenizer.encode(call, add_special_tokens=False) for call in calls], steps=300)
    engine = saved_engine(model, tokenizer, folder)
    args = config(serving(engine.app), max_completion_length=64, max_steps=2, learning_rate=1e-4)
    dataset = Dataset.from_dict({"prompt": [PROMPT] * 64})
    worker = HarnessRolloutWorker(
        harness_session_factory=functools.partial(ToolSessions, env_url), harness_adapter=MCPHarnessAdapter(),
        model_name=engine.name, dataset=dataset, reward_funcs=[], processing_class=tokenizer,
        eos_token_ids=[tokenizer.eos_token_id], vllm_server_url=args.vllm_server_base_url, num_generations=8,
        max_tokens=64, max_inflight_tasks=16, chat_template_kwargs={"enable_thinking": False},
    )  # fmt: skip
    made = AsyncGRPOTrainer(
        model=engine.name, args=args, train_dataset=dataset, processing_class=tokenizer, rollout_worker=worker,
        weight_transfer=engine,
    )  # fmt: skip

    made.train()

    record_property("reward", f"{logged(made, 'reward')[0]:.2f}")
    assert logged(made, "reward")[0] > 0.3  # the tool was called
    assert logged(made, "ratio")[0] == pytest.approx(1.0, abs=1e-4)
