"""Plays groups of episodes with the generator and records a trajectory of each."""

import asyncio
import random
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Any, cast

from openenv.core.client_types import StepResult
from openenv.core.errors import OpenEnvError
from openenv.core.text import TextInterface
from openenv.rl.chat import TokenIds
from openenv.rl.config import Config
from openenv.rl.episodes import Decision, Sessions, play
from openenv.rl.generator import Generator
from openenv.rl.reward import Reward
from openenv.rl.trajectory import Group, Outcome, Segment, Trajectory, Turn

Generate = Callable[[Sequence[TokenIds], Sequence[random.Random]], list[Segment]]


class Rollout:
    """Plays groups: all episodes of a group start from one seed, all groups of a call are played at the same time."""

    def __init__(
        self,
        pool: Sessions,
        text: TextInterface[Any, Any],
        generator: Generator,
        reward: Reward,
        config: Config,
        executor: Executor,
    ) -> None:
        """executor: where the generator runs, one call at a time, so that the event loop stays free."""
        self._pool = pool
        self._text = text
        self._generator = generator
        self._reward = reward
        self._config = config
        self._executor = executor

    async def play(self, indices: Sequence[int]) -> list[Group]:
        """The groups with these numbers. A group's number and the run's seed fix its start and its random numbers."""
        size = self._config.group_size
        seeds = [group_seed(self._config.seed, index) for index in indices for _ in range(size)]
        streams = [stream(self._config.seed, index, member) for index in indices for member in range(size)]
        recorder = _Recorder(self._text, self._generator, self._config, self._executor, seeds, streams)
        await play(self._pool, [{**self._config.env.reset, "seed": seed} for seed in seeds], recorder)
        for trajectory in recorder.trajectories:
            trajectory.reward = self._reward(trajectory) if trajectory.valid else 0.0
        return [
            Group(index, recorder.trajectories[number * size : (number + 1) * size])
            for number, index in enumerate(indices)
        ]


def group_seed(seed: int, index: int) -> int:
    """The environment's seed of a group: below the seeds of reading and evaluation. Runs with different seeds share
    no deal before their hundred-millionth group."""
    return (seed * 104_729_000 + index) % 900_000_000


def stream(seed: int, index: int, member: int) -> random.Random:
    """The random numbers of one episode: its own, whatever else is played. member: its place in the group."""
    return random.Random((seed << 96) + (index << 32) + member)


class _Recorder:
    """Answers with the generator and writes down what was seen, said and won."""

    def __init__(
        self,
        text: TextInterface[Any, Any],
        generator: Generator,
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

    async def act(self, decisions: list[Decision]) -> list[Any]:
        """The generator's actions; None for a reply that names no legal one, and for a prompt that is too long."""
        prompts = [self._prompt(decision) for decision in decisions]
        fitting = [i for i, prompt in enumerate(prompts) if len(prompt) <= self._config.max_req_tokens]
        streams = [self._streams[decisions[i].episode] for i in fitting]
        loop = asyncio.get_running_loop()
        written = await loop.run_in_executor(
            self._executor, self._generator.generate, [prompts[i] for i in fitting], streams
        )
        segments = dict(zip(fitting, written, strict=True))
        return [self._acted(decision, prompts[i], segments.get(i)) for i, decision in enumerate(decisions)]

    def stepped(self, episode: int, result: StepResult[Any]) -> None:
        """Add the step's reward; at the end say how the game went."""
        trajectory = self.trajectories[episode]
        trajectory.game_return += float(result.reward or 0.0)
        if result.done:
            trajectory.outcome = cast(Outcome, self._text.outcome(trajectory.game_return))

    def failed(self, episode: int, error: OpenEnvError) -> None:
        """The episode stays invalid, with the error as its reason."""
        self.trajectories[episode].outcome = "invalid"
        self.trajectories[episode].reason = f"{type(error).__name__}: {error}"

    def _prompt(self, decision: Decision) -> TokenIds:
        chat, trajectory = self._generator.chat, self.trajectories[decision.episode]
        user = {"role": "user", "content": self._text.describe(decision.observation)}
        if self._text.history == "full" and trajectory.segments:
            before = trajectory.segments[-1].token_ids
            return before + chat.continuation([user], reply_ended=before[-1] == chat.end_id)
        if not self._config.model.instructions:
            return chat.prompt([user])
        return chat.prompt([{"role": "system", "content": self._text.instructions(decision.observation)}, user])

    def _acted(self, decision: Decision, prompt: TokenIds, segment: Segment | None) -> Any:
        trajectory = self.trajectories[decision.episode]
        if segment is None:
            limit = self._config.max_req_tokens
            trajectory.reason = f"a prompt of {len(prompt)} tokens is longer than max_req_tokens={limit}"
            return None
        self._keep(trajectory, prompt, segment)
        reply = self._generator.reply(segment)
        seen = self._text.describe(decision.observation)
        action = self._text.parse(reply, decision.observation)
        wording = self._wording(reply, action, decision.observation)
        trajectory.turns.append(Turn(seen, reply, self._text.situation(decision.observation), wording))
        if action is None:
            trajectory.outcome = "unparseable"
            trajectory.reason = f"{reply!r} names none of: {', '.join(self._text.replies(decision.observation))}"
        return action

    def _wording(self, reply: str, action: Any, observation: Any) -> str | None:
        """How the text interface words the action that was understood, whatever the reply looked like."""
        if action is None:
            return None
        replies = self._text.replies(observation)
        return reply if reply in replies else next((said for said, legal in replies.items() if legal == action), reply)

    def _keep(self, trajectory: Trajectory, prompt: TokenIds, segment: Segment) -> None:
        """A new segment for each decision, or one that grows."""
        if self._text.history == "latest" or not trajectory.segments:
            trajectory.segments.append(segment)
            return
        before = trajectory.segments[-1]
        known, shown = len(before.token_ids), len(prompt)
        written = Segment(
            segment.token_ids[shown:], segment.sampled[shown:], segment.logprobs[shown:], segment.policy_version
        )
        trajectory.segments[-1] = before.extended(prompt[known:], written)
