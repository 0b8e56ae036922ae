"""Train an agent's program with TRL: `python examples/trl/agent.py --max_steps 100`, beside a vLLM server.

The program calls its model by itself, with OpenAI's client. Its calls are captured as the engine's own tokens. Every
option of TRL's AsyncGRPOConfig is one of this program.
"""

import functools
from dataclasses import dataclass
from typing import Any

import openai
from datasets import Dataset
from openenv.core.harness import ResourceSession, ResourceSessionFactory, TrainingTrace, VerifyResult
from openenv.core.harness.capture import CaptureServer, to_training_trace
from openenv.core.harness.capture.export import export_session
from transformers import AutoTokenizer
from trl import TrlParser
from trl.experimental.async_grpo import AsyncGRPOConfig, AsyncGRPOTrainer
from trl.experimental.async_grpo.openenv_harness import HarnessRolloutWorker

from openenv.envs.echo_env import EchoAction, EchoEnv

PROMPT = [{"role": "user", "content": "Send the environment a message that is as long as you can make it."}]
NUM_STEPS = 2


def play(env: Any, prompt: list[dict[str, Any]], base_url: str, api_key: str) -> float:
    """The program: any that takes a base URL and a key. Returns the rewards of the environment."""
    messages, reward = list(prompt), 0.0
    with openai.OpenAI(base_url=base_url, api_key=api_key) as model:
        for _ in range(NUM_STEPS):
            answer = model.chat.completions.create(model="policy", messages=messages)
            reply = answer.choices[0].message.content or ""
            result = env.step(EchoAction(message=reply))
            reward += result.reward or 0.0
            shown = {"role": "user", "content": result.observation.echoed_message}
            messages += [{"role": "assistant", "content": reply}, shown]
    return reward


class EchoSession(ResourceSession):
    """An episode of the program."""

    def __init__(self, server: CaptureServer, env_url: str, prompt: Any, sampling: dict[str, Any]) -> None:
        self._server, self._prompt, self._reward = server, prompt, 0.0
        self._capture = server.registry.create(sampling=sampling, purpose="train")
        self._env = EchoEnv(env_url)
        self._env.reset()

    def wait_for_completion(self, timeout_s: float | None = 600.0) -> int:
        """Run the program. Its key is the id of its session."""
        base_url = f"http://127.0.0.1:{self._server.port}/v1"
        self._reward = play(self._env, self._prompt, base_url, self._capture.session_id)
        return 0

    def fetch_training_trace(self) -> TrainingTrace:
        """The tokens of its calls."""
        return to_training_trace(self._capture.graph, export_session(self._capture))

    def verify(self, transcript: list[dict[str, Any]], final_state: Any | None = None) -> VerifyResult:
        """The environment's rewards."""
        return VerifyResult(env_reward=self._reward, done=True)

    def close(self) -> None:
        """End the environment's session, and the key."""
        self._env.close()
        self._server.registry.delete(self._capture.session_id)

    def initial_messages(self) -> list[dict[str, Any]]:
        """The prompt."""
        return list(self._prompt)

    def list_tools(self) -> list[Any]:
        """The program calls the environment itself."""
        return []

    def call_tool(self, name: str, arguments: dict[str, Any]) -> Any:
        """There is none."""
        raise KeyError(name)


class EchoSessions(ResourceSessionFactory[EchoSession]):
    """Makes a session for each episode. TRL makes one of these in the process of its worker."""

    def __init__(self, vllm_url: str, env_url: str, model: str, max_tokens: int, *, sampling: dict[str, Any]) -> None:
        self._env_url, self._sampling = env_url, sampling
        self._server = CaptureServer(llm_url=vllm_url, model=model, max_output_tokens=max_tokens, port=0)
        self._server.start()

    def create(self, task: Any, seed: int | None = None, episode_id: str | None = None) -> EchoSession:
        """The session of a prompt."""
        return EchoSession(self._server, self._env_url, task, self._sampling)


@dataclass
class ScriptArguments:
    """What the script takes beside the options of AsyncGRPOConfig."""

    model: str = "Qwen/Qwen3-0.6B"
    env_url: str = "http://localhost:8001"


def trainer(script: ScriptArguments, args: AsyncGRPOConfig, **settings: Any) -> AsyncGRPOTrainer:
    """The trainer. settings: further arguments of AsyncGRPOTrainer."""
    tokenizer = AutoTokenizer.from_pretrained(script.model)
    dataset = Dataset.from_dict({"prompt": [PROMPT] * 1024})
    worker = HarnessRolloutWorker(
        harness_session_factory=functools.partial(
            EchoSessions, args.vllm_server_base_url, script.env_url, script.model, args.max_completion_length
        ),
        model_name=script.model,
        dataset=dataset,
        reward_funcs=[],
        processing_class=tokenizer,
        eos_token_ids=[tokenizer.eos_token_id],
        vllm_server_url=args.vllm_server_base_url,
        num_generations=args.num_generations,
        max_inflight_tasks=args.per_device_train_batch_size * args.gradient_accumulation_steps,
        max_tokens=args.max_completion_length,
        temperature=args.temperature,
    )
    return AsyncGRPOTrainer(
        model=script.model, args=args, train_dataset=dataset, processing_class=tokenizer, rollout_worker=worker,
        **settings,
    )  # fmt: skip


def main() -> None:
    """Train as the command line says."""
    script, args = TrlParser((ScriptArguments, AsyncGRPOConfig)).parse_args_and_config()
    made = trainer(script, args)
    made.train()
    made.save_model(args.output_dir)


if __name__ == "__main__":
    main()
