"""TRL's side: its GRPOTrainer with a `rollout_func`, as a user of TRL writes it for an OpenEnv environment.

Of TRL's two ways to play an environment this is the one that can play the same prompts: `environment_factory` shows the
model schemas of tools and reads tool calls. All running episodes of a step are generated as one batch each turn, with
transformers, and stepped as one batch over the wire, with our `SessionPool`. An episode is one sequence: `env_mask`
leaves the environment's tokens out of the loss. What costs time and brings nothing to a tiny model is turned off:
gradient checkpointing, progress bars, reports, log-probabilities of the sampler (TRL uses them with vLLM only).
"""

import asyncio
import functools
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from tempfile import TemporaryDirectory
from typing import Any

import torch
import uvloop
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from benchmarks.trl import task as settings
from benchmarks.trl.task import Stopwatch, Task, TrainingLog, main
from openenv.core.session_pool import SessionPool
from openenv.envs.openspiel_env.client import OpenSpielEnv
from openenv.envs.openspiel_env.text import OpenSpielText
from openenv.rl.rollouts.rollout import group_seed


@dataclass
class Episode:
    """An episode and its tokens."""

    prompt_ids: list[int]
    observation: Any
    completion_ids: list[int] = field(default_factory=list)
    env_mask: list[int] = field(default_factory=list)
    """1 for a token that the model wrote."""
    reward: float = 0.0

    def add(self, ids: Sequence[int], written: bool) -> None:
        """Append tokens to the completion."""
        self.completion_ids += ids
        self.env_mask += [int(written)] * len(ids)


class Blackjack:
    """Plays the episodes of a batch together."""

    def __init__(
        self, pool: SessionPool[Any, Any], runner: asyncio.Runner, tokenizer: Any, *, instructions: bool
    ) -> None:
        """instructions: whether a system message with the rules comes first."""
        self._instructions = instructions
        self._pool = pool
        self._runner = runner
        self._text = OpenSpielText()
        self._tokenizer = tokenizer
        self._generation = GenerationConfig(
            max_new_tokens=settings.MAX_REPLY_TOKENS,
            do_sample=True,
            temperature=1.0,
            top_k=0,
            top_p=1.0,
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=tokenizer.eos_token_id,
        )

    def rollout(self, prompts: list[Any], trainer: GRPOTrainer) -> dict[str, Any]:
        """TRL's rollout function: an episode for each prompt, whose content is the seed of the deal."""
        resets = {
            number: {"game_name": settings.GAME, "seed": int(prompt[0]["content"])}
            for number, prompt in enumerate(prompts)
        }
        results = self._runner.run(self._pool.reset(resets))
        episodes = [
            Episode(list(self._shown(result.observation, begins=True)), result.observation)
            for result in results.values()
        ]
        playing = [number for number, result in results.items() if not result.done]
        while playing:
            playing = self._turn(playing, episodes, trainer.model)
        return {
            "prompt_ids": [episode.prompt_ids for episode in episodes],
            "completion_ids": [episode.completion_ids for episode in episodes],
            "env_mask": [episode.env_mask for episode in episodes],
            "logprobs": None,
            "episode_reward": [episode.reward for episode in episodes],
        }

    def _turn(self, playing: list[int], episodes: list[Episode], model: Any) -> list[int]:
        """Generate and make the next action of each episode; return the episodes that go on."""
        contexts = [episodes[number].prompt_ids + episodes[number].completion_ids for number in playing]
        actions = {}
        for number, reply in zip(playing, self._generate(model, contexts), strict=True):
            episode = episodes[number]
            episode.add(reply, written=True)
            text = self._tokenizer.decode(reply, skip_special_tokens=True).strip()
            action = self._text.parse(text, episode.observation)
            if action is None:
                episode.reward = settings.UNPARSEABLE
            else:
                actions[number] = action
        results = self._runner.run(self._pool.step(actions)) if actions else {}
        for number, result in results.items():
            episode = episodes[number]
            episode.reward += result.reward or 0.0
            episode.observation = result.observation
            if not result.done:
                if episode.completion_ids[-1] != self._tokenizer.eos_token_id:
                    episode.add([self._tokenizer.eos_token_id], written=False)
                episode.add(self._shown(result.observation), written=False)
        return [number for number, result in results.items() if not result.done]

    @torch.no_grad()
    def _generate(self, model: Any, contexts: list[list[int]]) -> list[list[int]]:
        """A reply to each context, with its end token."""
        batch = self._tokenizer.pad({"input_ids": contexts}, padding_side="left", return_tensors="pt").to(model.device)
        written = model.generate(**batch, generation_config=self._generation)[:, batch["input_ids"].shape[1] :]
        end = self._tokenizer.eos_token_id
        return [reply[: reply.index(end) + 1] if end in reply else reply for reply in written.tolist()]

    def _shown(self, observation: Any, *, begins: bool = False) -> list[int]:
        rules = self._text.instructions(observation) if self._instructions else ""
        return self._tokens(self._text.describe(observation), rules, begins)

    @functools.lru_cache(maxsize=100_000)  # noqa: B019 lives as long as the process
    def _tokens(self, content: str, rules: str, begins: bool) -> list[int]:
        """The user's message as tokens, after the system message where an episode begins."""
        head = [{"role": "system", "content": rules}] if rules else []
        messages = [*head, {"role": "user", "content": content}]
        text = self._tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        if head and not begins:  # the template writes one anew where there is none
            text = text[len(self._tokenizer.apply_chat_template(head, tokenize=False)) :]
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False)
        return ids


class _Steps(TrainerCallback):
    """Calls a function at the end of each optimizer step."""

    def __init__(self, on_step: Callable[[], None]) -> None:
        self._on_step = on_step

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self._on_step()


def grpo_config(task: Task, folder: str) -> GRPOConfig:
    """TRL's configuration of the task."""
    most = math.gcd(task.episodes, 128) if task.instructions else task.episodes  # what fits on a GPU in a pass
    return GRPOConfig(
        output_dir=folder,
        max_steps=task.steps,
        per_device_train_batch_size=most,
        gradient_accumulation_steps=task.episodes // most,
        num_generations=task.group_size,
        max_completion_length=settings.LOSS_LENGTH,
        learning_rate=task.lr,
        lr_scheduler_type="constant",
        adam_beta1=settings.BETA1,
        adam_beta2=settings.BETA2,
        weight_decay=0.0,
        max_grad_norm=settings.MAX_GRAD_NORM,
        loss_type="dr_grpo",
        scale_rewards="none",
        epsilon=settings.CLIP_LOW,
        epsilon_high=settings.CLIP_HIGH,
        beta=0.0,
        temperature=1.0,
        seed=task.seed,
        shuffle_dataset=False,
        use_cpu=task.device == "cpu",
        bf16=task.device != "cpu",
        gradient_checkpointing=False,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )


def train(task: Task) -> TrainingLog:
    """Train, and measure each step."""
    if task.threads is not None:
        torch.set_num_threads(task.threads)
    tokenizer = AutoTokenizer.from_pretrained(task.model, padding_side="left")
    seeds = [group_seed(task.seed, index) for index in range(task.steps * task.groups)]
    watch = Stopwatch()
    rewards: list[float] = []

    def reward(completions: list[Any], episode_reward: list[float], **_: Any) -> list[float]:
        rewards.append(statistics.fmean(episode_reward))
        return episode_reward

    with TemporaryDirectory() as folder, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        pool: SessionPool[Any, Any] = SessionPool(OpenSpielEnv, task.server_url, task.episodes)
        runner.run(pool.__aenter__())
        trainer = GRPOTrainer(
            model=AutoModelForCausalLM.from_pretrained(task.model, dtype=torch.float32),
            reward_funcs=reward,
            args=grpo_config(task, folder),
            train_dataset=Dataset.from_dict({"prompt": [[{"role": "user", "content": str(seed)}] for seed in seeds]}),
            processing_class=tokenizer,
            callbacks=[_Steps(lambda: watch.step(rewards[-1]))],
            rollout_func=Blackjack(pool, runner, tokenizer, instructions=task.instructions).rollout,
        )
        watch.start()
        trainer.train()
        runner.run(pool.__aexit__())
    return watch.log


if __name__ == "__main__":
    main(train)
