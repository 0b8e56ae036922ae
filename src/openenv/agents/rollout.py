"""Whole episodes, played by a language model that calls the tools of a session."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from openenv.agents.llm.messages import LLMResponse, ToolCall
from openenv.agents.sessions import LoopOwningSession as LoopOwningSession
from openenv.agents.sessions import Message, ResourceSession, SessionMCPBridge, ToolResult, VerifyResult
from openenv.agents.sessions import ResourceSessionFactory as ResourceSessionFactory
from openenv.agents.sessions import StepEnvSessionAdapter as StepEnvSessionAdapter
from openenv.agents.sessions import TraceEntry as TraceEntry
from openenv.agents.sessions import TrainableSession as TrainableSession
from openenv.core.env_server.mcp_types import RESERVED_TOOL_NAMES as RESERVED_TOOL_NAMES
from openenv.core.env_server.mcp_types import Tool
from openenv.formats.json_text import json_text


@dataclass
class HarnessRunLimits:
    """Limits of one episode; None: no limit."""

    max_turns: int = 10
    """Responses of the model."""
    max_tool_calls_per_turn: int | None = None
    """Further calls of a response are dropped."""
    max_total_tool_calls: int | None = None
    """A further call ends the episode."""
    sampling: dict[str, Any] = field(default_factory=dict)
    """Parameters of the model's sampling."""


@dataclass
class ModelStepResult:
    """One response of the model, with its tokens where they are known."""

    response: LLMResponse
    prompt_ids: list[int] = field(default_factory=list)
    completion_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)


@runtime_checkable
class ModelStep(Protocol):
    """Samples the model."""

    def __call__(self, messages: list[Message], tools: list[Tool], sampling: dict[str, Any]) -> ModelStepResult:
        """The model's response to a conversation."""


@dataclass
class ToolTraceEntry:
    """One call of a tool and its result."""

    tool_name: str
    arguments: dict[str, Any]
    result: ToolResult


@dataclass
class RolloutEvent:
    """Something that happened in an episode: `model_response` or `tool_call`."""

    type: str
    payload: dict[str, Any] = field(default_factory=dict)


@dataclass
class HarnessRolloutResult:
    """One episode: its conversation, its calls of tools, and the model's tokens of all turns in a row."""

    messages: list[Message] = field(default_factory=list)
    tool_trace: list[ToolTraceEntry] = field(default_factory=list)
    events: list[RolloutEvent] = field(default_factory=list)
    done: bool = False
    """Whether the environment ended the episode, or the model called no tool any more."""
    metrics: dict[str, Any] = field(default_factory=dict)
    """`turns`, `tool_calls`, and `truncated` where the limit of all calls ended the episode."""
    prompt_ids: list[int] = field(default_factory=list)
    completion_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)


class HarnessAdapter(ABC):
    """Plays an episode."""

    @abstractmethod
    def run_white_box(
        self, model_step: ModelStep, session: ResourceSession, limits: HarnessRunLimits | None = None
    ) -> HarnessRolloutResult:
        """Play with a model that the caller samples, as a trainer does."""

    @abstractmethod
    def run_black_box(self, session: ResourceSession, limits: HarnessRunLimits | None = None) -> HarnessRolloutResult:
        """Play with a program that calls its own model, for evaluation."""


class MCPHarnessAdapter(HarnessAdapter):
    """Calls the tools that the model asks for, until it asks for none, the episode is over, or a limit is reached."""

    def run_white_box(
        self, model_step: ModelStep, session: ResourceSession, limits: HarnessRunLimits | None = None
    ) -> HarnessRolloutResult:
        """Play the episode. Raises what the model and the session raise."""
        limits = limits or HarnessRunLimits()
        rollout = HarnessRolloutResult(messages=list(session.initial_messages()))
        tools = session.list_tools()
        turns, is_truncated = 0, False
        while turns < limits.max_turns and not (rollout.done or is_truncated):
            step = model_step(list(rollout.messages), tools, dict(limits.sampling))
            _add_response(rollout, step, turns)
            turns += 1
            calls = step.response.tool_calls
            rollout.done = not calls
            for call in calls[: limits.max_tool_calls_per_turn]:
                total = limits.max_total_tool_calls
                if rollout.done:
                    break
                is_truncated = total is not None and len(rollout.tool_trace) >= total
                if is_truncated:
                    break
                _call_tool(rollout, session, call)
        rollout.metrics = {"turns": turns, "tool_calls": len(rollout.tool_trace)}
        if is_truncated:
            rollout.metrics["truncated"] = True
        return rollout

    def run_black_box(self, session: ResourceSession, limits: HarnessRunLimits | None = None) -> HarnessRolloutResult:
        """Raises NotImplementedError."""
        raise NotImplementedError("MCPHarnessAdapter samples the caller's model: use CLIHarnessAdapter for a program")


class CLIHarnessAdapter(HarnessAdapter):
    """Runs a program of an agent, which a function of the caller's starts."""

    def __init__(
        self, runner: Callable[[SessionMCPBridge, ResourceSession, HarnessRunLimits], HarnessRolloutResult]
    ) -> None:
        """runner: plays the episode through the bridge."""
        self._runner = runner

    def run_white_box(
        self, model_step: ModelStep, session: ResourceSession, limits: HarnessRunLimits | None = None
    ) -> HarnessRolloutResult:
        """Raises NotImplementedError."""
        raise NotImplementedError("CLIHarnessAdapter runs a program with a model of its own: use MCPHarnessAdapter")

    def run_black_box(self, session: ResourceSession, limits: HarnessRunLimits | None = None) -> HarnessRolloutResult:
        """Play the episode. Raises what the runner raises."""
        return self._runner(SessionMCPBridge(session), session, limits or HarnessRunLimits())


def _add_response(rollout: HarnessRolloutResult, step: ModelStepResult, turn: int) -> None:
    response = step.response
    rollout.messages.append(response.to_message_dict())
    rollout.prompt_ids += step.prompt_ids
    rollout.completion_ids += step.completion_ids
    rollout.logprobs += step.logprobs
    calls = [{"id": call.id, "name": call.name, "arguments": dict(call.args)} for call in response.tool_calls]
    payload = {"turn": turn, "content": response.content, "tool_calls": calls}
    rollout.events.append(RolloutEvent("model_response", payload))


def _call_tool(rollout: HarnessRolloutResult, session: ResourceSession, call: ToolCall) -> None:
    arguments = dict(call.args)
    result = session.call_tool(call.name, arguments)
    rollout.tool_trace.append(ToolTraceEntry(call.name, arguments, result))
    rollout.done = result.done
    message = {"role": "tool", "tool_call_id": call.id, "name": call.name, "content": _text_of(result)}
    rollout.messages.append(message)
    payload = {"tool_name": call.name, "arguments": arguments, "done": result.done}
    rollout.events.append(RolloutEvent("tool_call", payload))


def _text_of(result: ToolResult) -> str:
    """What the model reads of a tool's result: its data, else its error. Objects that JSON lacks become their text."""
    data = result.error if result.data is None else result.data
    if data is None or isinstance(data, str):
        return data or ""
    return json_text(data, sort_keys=True, default=str)


def build_harness_rollout_func(
    *,
    session_factory: Any,
    harness_adapter: HarnessAdapter,
    model_step_builder: Callable[[Any, ResourceSession], ModelStep],
    limits: HarnessRunLimits | None = None,
    reward_key: str = "env_reward",
) -> Callable[[list[Any], Any], dict[str, list[Any]]]:
    """A function that plays one episode for each prompt, as TRL's trainers call it.

    session_factory: a ResourceSessionFactory. model_step_builder: of trainer and session, the model. The function takes
    prompts and the trainer. It returns `prompt_ids`, `completion_ids`, `logprobs`, the rewards under `reward_key`, and
    `verify_metrics`, each a list with an entry for each prompt.
    """

    def rollout_func(prompts: list[Any], trainer: Any) -> dict[str, list[Any]]:
        columns: dict[str, list[Any]] = {
            key: [] for key in ("prompt_ids", "completion_ids", "logprobs", reward_key, "verify_metrics")
        }
        for prompt in prompts:
            session = session_factory.create(task=prompt)
            try:
                model_step = model_step_builder(trainer, session)
                rollout = harness_adapter.run_white_box(model_step=model_step, session=session, limits=limits)
                verdict = verdict_on(rollout, session)
            finally:
                session.close()
            reward = env_reward_of(rollout, verdict)
            values = (rollout.prompt_ids, rollout.completion_ids, rollout.logprobs, reward, verdict.metrics)
            for column, value in zip(columns.values(), values, strict=True):
                column.append(value)
        return columns

    return rollout_func


def verdict_on(rollout: HarnessRolloutResult, session: ResourceSession) -> VerifyResult:
    """The session's verdict on its episode."""
    final_state = {
        "done": rollout.done,
        "metrics": dict(rollout.metrics),
        "events": [{"type": event.type, "payload": dict(event.payload)} for event in rollout.events],
        "tool_trace": trace_of(rollout),
    }
    return session.verify(transcript=rollout.messages, final_state=final_state)


def trace_of(rollout: HarnessRolloutResult) -> list[dict[str, Any]]:
    """The calls of tools as dictionaries, with the data as the tools returned it."""
    return [
        {"tool_name": call.tool_name, "arguments": dict(call.arguments), "result": dict(vars(call.result))}
        for call in rollout.tool_trace
    ]


def env_reward_of(rollout: HarnessRolloutResult, verdict: VerifyResult) -> float:
    """The reward that the environment gave: that of the last tool's result that has one, else the verdict's.

    Raises ValueError if neither has a reward, or if they differ.
    """
    given = [reward for reward in map(_reward_in, rollout.tool_trace) if reward is not None]
    if not given:
        if verdict.env_reward is None:
            raise ValueError("the episode has no reward: neither verify() nor the result of a tool gave one")
        return float(verdict.env_reward)
    if verdict.env_reward is not None and not math.isclose(verdict.env_reward, given[-1], abs_tol=1e-6):
        raise ValueError(
            f"verify() returned env_reward={verdict.env_reward:g}, and the environment gave {given[-1]:g}: pass on the "
            "environment's reward"
        )
    return given[-1]


def _reward_in(entry: ToolTraceEntry) -> float | None:
    """The reward in a tool's result: in its metadata, else in its data."""
    reward = entry.result.metadata.get("reward")
    if reward is None and isinstance(entry.result.data, dict):
        reward = entry.result.data.get("reward")
    return None if reward is None else float(reward)
