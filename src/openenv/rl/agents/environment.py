"""One episode of an environment, as the functions that an agent's program calls, and what it has come to."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from openenv.agents.endpoint.tools import ToolAnswer
from openenv.core.client_types import StepResult
from openenv.core.env_server.mcp_types import Tool
from openenv.core.errors import OpenEnvError, ServerUnreachable, SessionLost, is_refused_action
from openenv.core.outcomes import REFUSED, outcome_of
from openenv.evaluation.episodes import EpisodeSessions
from openenv.evaluation.intervals import EpisodeResult
from openenv.rl.algorithm.trajectory import Trajectory, Turn
from openenv.rl.config import ConversationConfig
from openenv.text.action_forms import call_text
from openenv.text.content import text_of
from openenv.text.interface import TextInterface

_REPLY = "reply"
_ENDED = "The episode has ended: call no more functions."


class EnvironmentEpisode:
    """A session's episode, stepped by calls. As `agents.endpoint.tools.ServesTools`.

    An environment whose replies are texts has one function, `reply`. Calls that come at the same time wait for each
    other.
    """

    def __init__(
        self,
        pool: EpisodeSessions,
        session: int,
        text: TextInterface[Any, Any],
        seed: int,
        config: ConversationConfig,
    ) -> None:
        """config: how many actions it may have, and how many calls in a row that name none."""
        self.trajectory = Trajectory(seed=seed, is_of_program=True)
        self.is_done = False
        """Whether it has ended, or has failed."""
        self._pool = pool
        self._session = session
        self._text = text
        self._left, self._rules = config.max_turns, config.rules
        self._refusals = 0
        self._observation: Any = None
        self._known: list[Tool] = []
        self._turn = asyncio.Lock()

    async def begin(self, keywords: Mapping[str, Any]) -> OpenEnvError | None:
        """Reset the environment. Returns why it could not be; None if the episode has begun."""
        found = (await self._pool.reset({self._session: {**keywords, "seed": self.trajectory.seed}}))[self._session]
        if isinstance(found, OpenEnvError):
            self._lose(found)
            return found
        self.trajectory.success_return = self._text.success_of(found.observation)
        self._receive(found)
        return None

    @property
    def rules(self) -> str:
        """What does not change in an episode."""
        rules = self._text.rules if self._functions() else self._text.instructions
        return rules(self._observation)

    @property
    def seen(self) -> str:
        """What the environment shows now."""
        return text_of(self._text.describe(self._observation))

    def random_reply(self, rng: Random) -> str:
        """A legal reply to what the environment shows now, as text."""
        reply, _ = self._text.random_reply(self._observation, rng)
        return reply

    def tools(self) -> Sequence[Tool]:
        """The functions that may be called now, or that might be before the episode ended."""
        if not self.is_done:
            self._known = self._functions() or [self._reply_tool()]
        return self._known

    async def call(self, name: str, arguments: dict[str, Any]) -> ToolAnswer:
        """Take the action that a call names. Returns what the environment shows then."""
        async with self._turn:
            if self.is_done:
                return ToolAnswer(_ENDED, is_error=True)
            known = [tool.name for tool in self.tools()]
            if name not in known:
                return ToolAnswer(f"There is no function {name}. Call one of: {', '.join(known)}", is_error=True)
            reply = call_text(name, arguments) if self._functions() else str(arguments.get(_REPLY, ""))
            return await self._act(reply)

    def stop(self, reason: str) -> None:
        """End the episode, if it has not ended: its rewards so far count."""
        if self.is_done:
            return
        self.is_done = True
        self.trajectory.reason, self.trajectory.is_stopped = reason, True
        self.trajectory.outcome = outcome_of(self.trajectory.game_return, self.trajectory.success_return)

    def fail(self, reason: str) -> None:
        """Nothing that the episode has come to counts."""
        self.is_done = True
        self.trajectory.outcome, self.trajectory.reason = "invalid", reason

    def on_action(self, action: Any) -> None:
        """A call names this action, or None. Does nothing unless overridden, as the two below."""

    def on_refusal(self) -> None:
        """The environment has refused the newest action."""

    def on_result(self, result: StepResult[Any]) -> None:
        """A reset or a step has returned."""

    async def _act(self, reply: str) -> ToolAnswer:
        observation, text = self._observation, self._text
        action = text.parse(reply, observation)
        turn = Turn(self.seen, reply, text.situation(observation), None)
        self.trajectory.turns.append(turn)
        self.on_action(action)
        if action is None:
            return self._refused(text.problem(reply, observation))
        result = (await self._pool.step({self._session: action}))[self._session]
        if isinstance(result, OpenEnvError):
            if is_refused_action(result):
                self.on_refusal()
                return self._refused(f"{REFUSED}: {result}")
            self._lose(result)
            return ToolAnswer(f"The environment has failed: {result}", is_error=True)
        turn.action = text.wording(action, observation) or reply
        self._left, self._refusals = self._left - 1, 0
        self._receive(result)
        return ToolAnswer(f"{self.seen}\n{_ENDED}" if self.is_done else self.seen)

    def _refused(self, reason: str) -> ToolAnswer:
        """Answer a call that names no legal action. After too many in a row the episode has ended."""
        self._refusals += 1
        if self._refusals <= self._rules.retries:
            return ToolAnswer(reason, is_error=True)
        self.is_done = True
        self.trajectory.outcome, self.trajectory.reason = "unparseable", reason
        return ToolAnswer(f"{reason}\n{_ENDED}", is_error=True)

    def _receive(self, result: StepResult[Any]) -> None:
        self.on_result(result)
        self._observation = result.observation
        self.trajectory.add_result(result.reward, getattr(result.observation, "metadata", None))
        if result.done:
            self.is_done = True
            self.trajectory.outcome = outcome_of(self.trajectory.game_return, self.trajectory.success_return)
        elif self._left <= 0:
            self.stop("stopped after conversation.max_turns")

    def _lose(self, error: OpenEnvError) -> None:
        self.fail(f"{type(error).__name__}: {error}")
        self.trajectory.has_lost_server = isinstance(error, SessionLost | ServerUnreachable)

    def _functions(self) -> list[Tool]:
        return self._text.functions(self._observation)

    def _reply_tool(self) -> Tool:
        legal = list(self._text.replies(self._observation))
        field: dict[str, Any] = {"type": "string", "enum": legal} if legal else {"type": "string"}
        schema = {"type": "object", "properties": {_REPLY: field}, "required": [_REPLY]}
        return Tool(name=_REPLY, description="Reply to what the environment shows.", input_schema=schema)


def result_of(trajectory: Trajectory, **counts: int) -> EpisodeResult:
    """What an evaluation keeps of an episode. counts: replies and tokens, by their names in `EpisodeResult`."""
    taken = [turn for turn in trajectory.turns if turn.action is not None]
    named = Counter((turn.situation, turn.action) for turn in taken if turn.situation is not None and turn.action)
    return EpisodeResult(
        seed=trajectory.seed,
        total_reward=trajectory.game_return,
        num_steps=len(taken),
        outcome=trajectory.outcome,
        success_return=trajectory.success_return,
        reason=trajectory.reason or None,
        decisions=named,
        num_unparseable_replies=len(trajectory.turns) - len(taken),
        **counts,
    )
