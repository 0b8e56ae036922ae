"""Plays groups of episodes with the generator and records a trajectory of each."""

import asyncio
import random
from collections.abc import Sequence
from concurrent.futures import Executor
from typing import Any, cast

from openenv.core.client_types import StepResult
from openenv.core.errors import OpenEnvError
from openenv.core.text_interface import TextInterface
from openenv.evaluation.episodes import EpisodeRunner, EpisodeSessions, PendingAction
from openenv.evaluation.intervals import EpisodeOutcome
from openenv.policies.prompts import PromptBuilder, SampledReply, answer_of
from openenv.rl.config import Config
from openenv.rl.models.base_generator import BaseGenerator
from openenv.rl.models.prompt_tokens import TokenIds
from openenv.rl.rollouts.rewards import Reward, rate
from openenv.rl.rollouts.trajectory import Group, Segment, Trajectory, Turn


class Rollout:
    """Plays groups. All episodes of a group start from one seed; all groups of a call are played at the same time."""

    def __init__(
        self,
        pool: EpisodeSessions,
        text: TextInterface[Any, Any],
        generator: BaseGenerator,
        reward: Reward,
        config: Config,
        executor: Executor,
    ) -> None:
        """executor: runs the generator, one call at a time, so that the event loop stays free."""
        self._pool = pool
        self._text = text
        self._generator = generator
        self._reward = reward
        self._config = config
        self._executor = executor

    async def play(self, indices: Sequence[int]) -> list[Group]:
        """Play the groups with these numbers. A group's number and the run's seed determine its deal and its draws."""
        size = self._config.group_size
        seeds = [group_seed(self._config.seed, index) for index in indices for _ in range(size)]
        streams = [random_stream(self._config.seed, index, member) for index in indices for member in range(size)]
        player = _RecordingPlayer(self._text, self._generator, self._config, self._executor, seeds, streams)
        await EpisodeRunner(self._pool, player).run({**self._config.env.reset, "seed": seed} for seed in seeds)
        for trajectory in player.trajectories:
            rate(trajectory, self._reward)
        return [
            Group(index, player.trajectories[number * size : (number + 1) * size])
            for number, index in enumerate(indices)
        ]


def group_seed(seed: int, index: int) -> int:
    """The environment's seed of a group, below the seeds of pretraining and evaluation.

    Runs with different seeds share no deal before their hundred-millionth group.
    """
    return (seed * 104_729_000 + index) % 900_000_000


def random_stream(seed: int, index: int, member: int) -> random.Random:
    """The random numbers of one episode, independent of what else is played. member: its place in the group."""
    return random.Random((seed << 96) + (index << 32) + member)


class _RecordingPlayer:
    """Lets the generator choose the actions and records prompts, replies, tokens and rewards."""

    def __init__(
        self,
        text: TextInterface[Any, Any],
        generator: BaseGenerator,
        config: Config,
        executor: Executor,
        seeds: Sequence[int],
        streams: Sequence[random.Random],
    ) -> None:
        self.trajectories = [Trajectory(seed=seed) for seed in seeds]
        self._streams = streams
        self._text = text
        self._generator = generator
        self._config = config
        self._executor = executor
        self._prompts = PromptBuilder(text, instructions=config.model.instructions, tools=generator.chat.tools)

    async def act(self, pending: list[PendingAction]) -> list[Any]:
        """The generator's actions. None for a reply that names no legal action, and for a prompt that is too long."""
        chat, limit = self._generator.chat, self._config.max_req_tokens
        prompts = [chat.prompt(self._prompts.messages(turn.episode, turn.observation)) for turn in pending]
        fitting = [i for i, prompt in enumerate(prompts) if len(prompt) <= limit]
        streams = [self._streams[pending[i].episode] for i in fitting]
        loop = asyncio.get_running_loop()
        written = await loop.run_in_executor(
            self._executor, self._generator.generate, [prompts[i] for i in fitting], streams
        )
        segments = dict(zip(fitting, written, strict=True))
        return [self._action(turn, prompts[i], segments.get(i)) for i, turn in enumerate(pending)]

    def on_result(self, episode: int, result: StepResult[Any]) -> None:
        """Add the reward; at the end of the episode set its outcome."""
        trajectory = self.trajectories[episode]
        trajectory.add_result(result.reward, getattr(result.observation, "metadata", None))
        if result.done:
            trajectory.outcome = cast(EpisodeOutcome, self._text.outcome(trajectory.game_return))

    def on_failure(self, episode: int, error: OpenEnvError) -> None:
        """Mark the episode invalid, with the error as the reason."""
        self.trajectories[episode].outcome = "invalid"
        self.trajectories[episode].reason = f"{type(error).__name__}: {error}"

    def on_step_limit(self, episode: int) -> None:
        """Rollouts have no step limit."""
        raise AssertionError("the runner was given no max_steps")

    def _action(self, turn: PendingAction, prompt: TokenIds, segment: Segment | None) -> Any:
        trajectory = self.trajectories[turn.episode]
        if segment is None:
            limit = self._config.max_req_tokens
            trajectory.reason = f"a prompt of {len(prompt)} tokens is longer than max_req_tokens={limit}"
            return None
        reply = self._generator.reply(segment)
        self._prompts.add_reply(turn.episode, reply)
        self._record_tokens(trajectory, prompt, segment)
        action = self._text.parse(answer_of(reply), turn.observation)
        self._record_turn(trajectory, turn.observation, reply, action)
        if action is None:
            trajectory.outcome = "unparseable"
            trajectory.reason = self._text.problem(answer_of(reply), turn.observation)
        return action

    def _record_turn(self, trajectory: Trajectory, observation: Any, reply: SampledReply, action: Any) -> None:
        """Add the turn, with the text interface's own wording of the action that was parsed."""
        wording = None if action is None else self._text.wording(action, observation) or answer_of(reply)
        situation = self._text.situation(observation)
        trajectory.turns.append(Turn(self._text.describe(observation), str(reply), situation, wording))

    def _record_tokens(self, trajectory: Trajectory, prompt: TokenIds, segment: Segment) -> None:
        """Extend the episode's last segment if the prompt continues it; otherwise add a segment for the turn.

        Prompts that show the whole episode continue it, unless the chat template drops the thinking of earlier turns.
        """
        before = trajectory.segments[-1] if trajectory.segments and self._prompts.remembers_episodes else None
        if before is None or prompt[: len(before.token_ids)] != before.token_ids:
            trajectory.segments.append(segment)
            return
        known, shown = len(before.token_ids), len(prompt)
        written = Segment(
            segment.token_ids[shown:], segment.sampled[shown:], segment.logprobs[shown:], segment.policy_version
        )
        trajectory.segments[-1] = before.extended(prompt[known:], written)
