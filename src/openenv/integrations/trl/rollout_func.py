"""A rollout function for `GRPOTrainer(rollout_func=...)` that plays an environment.

Example:
    from openenv.integrations.trl import make_rollout_func, reward_from_env

    trainer = GRPOTrainer(model, rollout_func=make_rollout_func("guess"), reward_funcs=reward_from_env, args=..., ...)
"""

import atexit
import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from openenv.auto.environment import named_environment, token_headers
from openenv.core.errors import OpenEnvError
from openenv.core.session_pool import SessionPool
from openenv.core.utils import LoopThread
from openenv.policies.prompts import ChatMessage
from openenv.rl.algorithm.rewards import EpisodeReward
from openenv.rl.algorithm.segment import Segment
from openenv.rl.algorithm.trajectory import Trajectory
from openenv.rl.config import Config
from openenv.rl.config_file import config_from_mapping

if TYPE_CHECKING:
    from openenv.rl.generators.base import BaseGenerator
    from openenv.rl.rollouts.rollout import Member


log = logging.getLogger(__name__)

_CALLS_TO_WARN = 3


class EpisodesFailed(OpenEnvError):
    """The environment failed in episodes, which have no tokens to train on."""


class RolloutFunc:
    """Plays an episode for each prompt, all at the same time, and returns their tokens and rewards.

    An episode is one sequence that grows: the environment's tokens are masked (`env_mask`). Equal prompts that follow
    one another are a group, whose episodes begin from one seed.
    """

    def __init__(self, environment: str, settings: Mapping[str, Any], text: str | None) -> None:
        """settings: of `openenv.rl.config.Config`. As `make_rollout_func` otherwise."""
        self._name = environment
        self._settings = settings
        self._pool: SessionPool[Any, Any] | None = None
        self._generator: BaseGenerator | None = None
        self._num_groups = 0
        self._calls_without_action = 0
        self._open = ExitStack()
        named = named_environment(environment, text=text)
        base_url = self._open.enter_context(named.running())
        self._served = named.served_at(base_url, headers=token_headers())
        self._loop = self._open.enter_context(LoopThread())
        self._executor = self._open.enter_context(ThreadPoolExecutor(1, "generator"))
        atexit.register(self.close)

    def __call__(self, prompts: Sequence[Any], *context: Any) -> dict[str, Any]:
        """TRL's contract: (prompts, trainer) now, (prompts, args, processing_class) in older versions.

        The messages of a prompt, or its text as the user's, come before what the environment shows first. Returns
        prompt_ids, completion_ids, logprobs and env_mask, and for reward functions env_reward, env_outcome and
        env_turns. Raises EpisodesFailed where the environment failed, and ValueError for a chat template that shows
        earlier turns in another way than before.
        """
        is_trainer = len(context) == 1
        args = context[0].args if is_trainer else context[0]
        if self._generator is None:
            from openenv.integrations.trl.generators import servers_generator, trainers_generator  # imports torch

            self._generator = trainers_generator(*context) if is_trainer else servers_generator(*context)
        shown = list(prompts) if is_trainer else [prompt for prompt in prompts for _ in range(args.num_generations)]
        config = self._config(args)
        first = context[0].accelerator.process_index * len(shown) if is_trainer else 0
        played = self._loop.run(self._play(self._members(len(shown), config, first), shown, config))
        self._warn_without_actions(played, args)
        return _fields(played)

    def _warn_without_actions(self, played: Sequence[Trajectory], args: Any) -> None:
        """Log it once when no reply of some calls in a row has named a legal action: nothing is learned then."""
        has_action = any(trajectory.outcome != "unparseable" for trajectory in played)
        self._calls_without_action = 0 if has_action else self._calls_without_action + 1
        if self._calls_without_action == _CALLS_TO_WARN:
            log.warning(
                "no reply of %d calls names a legal action, so that all rewards are equal and nothing is learned: %s. "
                "Raise max_completion_length=%s if replies are cut off, set instructions=True, or begin with a model "
                "that has learned legal replies (openenv sft).",
                _CALLS_TO_WARN, played[0].reason, args.max_completion_length,
            )  # fmt: skip

    def close(self) -> None:
        """End the sessions, and the server if it was started. A second call does nothing."""
        if self._pool is not None:
            self._loop.run(self._pool.__aexit__())
            self._pool = None
        self._open.close()

    async def _play(self, members: "Sequence[Member]", prompts: Sequence[Any], config: Config) -> list[Trajectory]:
        from openenv.rl.rollouts.rollout import Rollout  # imports torch

        assert self._generator is not None
        if self._pool is None or len(self._pool) < len(members):
            if self._pool is not None:
                await self._pool.__aexit__()
            self._pool = await SessionPool(self._served.client, self._served.base_url, len(members)).__aenter__()
        rollout = Rollout(
            self._pool, self._served.text, self._generator, EpisodeReward(config.reward), config, self._executor
        )
        return await rollout.play_members(members, config.env[0].reset, [_messages(prompt) for prompt in prompts])

    def _config(self, args: Any) -> Config:
        """The configuration of rollouts, with TRL's group size and seed."""
        known = {"env": {"name": self._name}, "group_size": max(2, args.num_generations), "seed": args.seed}
        return config_from_mapping({**known, **self._settings})

    def _members(self, number: int, config: Config, first: int) -> "list[Member]":
        """The groups and places of this process's episodes. first: the place of its first one among all."""
        size = config.group_size
        before = self._num_groups
        self._num_groups += -(-(first + number) // size)
        return [(before + place // size, place % size) for place in range(first, first + number)]


def make_rollout_func(
    environment: str,
    *,
    reset: Mapping[str, Any] | None = None,
    max_turns: int = 1000,
    max_prompt_tokens: int = 4096,
    retries: int = 0,
    instructions: bool = True,
    unparseable: float = -1.0,
    text: str | None = None,
) -> RolloutFunc:
    """A `rollout_func` that plays an environment through its text interface, with TRL's own model.

    Args:
        environment: any name of an environment (`openenv.auto.resolver.FORMS`), such as `guess` or a URL.
        reset: the keywords of every reset.
        max_turns: actions after which an episode is stopped.
        max_prompt_tokens: of the context.
        retries: further replies after one that names no legal action.
        instructions: whether a system message has the rules.
        unparseable: the reward of an episode that such a reply ends.
        text: a text interface instead of the environment's own.

    Raises:
        LookupError: for an unknown name.
        ServerUnreachable: if the server does not answer.
    """
    settings = {
        "env": {"name": environment, "reset": dict(reset or {})},
        "conversation": {"history": "full", "max_turns": max_turns, "retries": retries},
        "max_req_tokens": max_prompt_tokens,
        "model": {"instructions": instructions},
        "reward": {"unparseable": unparseable},
    }
    return RolloutFunc(environment, settings, text)


def reward_from_env(completions: Sequence[Any], env_reward: Sequence[float] | None = None, **_: Any) -> list[float]:
    """The reward function of a rollout function's rewards. Raises ValueError without `env_reward`."""
    if env_reward is None:
        raise ValueError("there is no env_reward: give GRPOTrainer a rollout_func that returns it")
    return [float(reward) for reward in env_reward]


def _messages(prompt: Any) -> list[ChatMessage]:
    """The messages of TRL's prompt: conversational, or a text of the user. An empty one is none."""
    if isinstance(prompt, str):
        return [{"role": "user", "content": prompt}] if prompt else []
    return [{"role": message["role"], "content": message["content"]} for message in prompt if message["content"]]


def _fields(played: Sequence[Trajectory]) -> dict[str, Any]:
    """The episodes as TRL takes them. Raises EpisodesFailed, ValueError."""
    failed = [trajectory for trajectory in played if not trajectory.valid or not trajectory.segments]
    if failed:
        reason = failed[0].reason or "they ended before a first reply"
        raise EpisodesFailed(f"{len(failed)} of {len(played)} episodes failed: {reason}")
    segments = [_whole(trajectory) for trajectory in played]
    if not all(segment.sampled.any() for segment in segments):
        raise EpisodesFailed("a reply of an episode has no token")
    starts = [int(segment.sampled.argmax()) for segment in segments]
    pairs = list(zip(segments, starts, strict=True))
    return {
        "prompt_ids": [segment.token_ids[:start].tolist() for segment, start in pairs],
        "completion_ids": [segment.token_ids[start:].tolist() for segment, start in pairs],
        "logprobs": [segment.logprobs[start:].tolist() for segment, start in pairs],
        "env_mask": [segment.sampled[start:].astype(int).tolist() for segment, start in pairs],
        "env_reward": [trajectory.reward for trajectory in played],
        "env_outcome": [trajectory.outcome for trajectory in played],
        "env_turns": [len(trajectory.turns) for trajectory in played],
    }


def _whole(trajectory: Trajectory) -> Segment:
    if len(trajectory.segments) > 1:
        raise ValueError(
            "the chat template shows earlier turns in another way than they were sampled (does it drop thinking?), so "
            "an episode is not one sequence. Use a template that keeps them, or max_turns=1"
        )
    return trajectory.segments[0]
