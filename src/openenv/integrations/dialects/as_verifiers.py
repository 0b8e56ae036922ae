"""Any environment of ours as an environment of `verifiers`.

Example:
    from openenv.integrations.dialects.as_verifiers import load_environment

    environment = load_environment("calendar", num_examples=50)
    results = environment.evaluate_sync(client=client_config, model="qwen3")
"""

import json
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from openenv.core.errors import OpenEnvError, is_refused_action
from openenv.core.outcomes import REFUSED
from openenv.formats.json_text import json_text
from openenv.installation import install_line

try:
    import verifiers
    from datasets import Dataset
except ImportError as missing:
    raise ImportError(
        f"openenv.integrations.dialects.as_verifiers needs the extra verifiers: {install_line('verifiers')}"
    ) from missing

from openenv.agents.llm.messages import ToolCall, content_text
from openenv.auto.environment import ServedEnvironment, named_environment
from openenv.policies.conversations import action_of, problem_of
from openenv.policies.prompts import ChatMessage, EndpointReply, PromptBuilder, openai_message

SESSION = "openenv"
"""The key under which a rollout's state has its session."""


def load_environment(
    environment: str,
    *,
    reset: Mapping[str, Any] | None = None,
    num_examples: int = 100,
    first_seed: int = 0,
    text: str | None = None,
    retries: int = 1,
    max_turns: int = -1,
    tool_calls: bool = True,
) -> "OpenEnvEnvironment":
    """An environment of verifiers, whose examples are the seeds `first_seed` and following.

    Args:
        environment: any name of an environment (`openenv.auto.resolver.FORMS`); its server runs until `close`, or the
            end of the program.
        reset: keywords of every reset.
        text: a text interface instead of the environment's own.
        retries: replies that may name no action, or a refused one, one after the other, before the rollout ends.
        tool_calls: whether the environment's tools, or its action of several fields, are tools of the model.
    """
    servers = ExitStack()
    served = servers.enter_context(named_environment(environment, text=text).served())
    rows = [
        {"prompt": [{"role": "user", "content": f"seed {seed}"}], "answer": "", "info": json_text({"seed": seed})}
        for seed in range(first_seed, first_seed + num_examples)
    ]
    return OpenEnvEnvironment(
        served, servers, reset=dict(reset or {}), retries=retries, tool_calls=tool_calls, max_turns=max_turns,
        dataset=Dataset.from_list(rows), eval_dataset=Dataset.from_list(rows),
        rubric=verifiers.Rubric(funcs=[episode_return]), env_id=environment,
    )  # fmt: skip


async def episode_return(state: verifiers.State) -> float:
    """The rewards of the episode, added up."""
    return float(state[SESSION].total_reward)


async def num_unparseable(state: verifiers.State) -> float:
    """Replies that named no action."""
    return float(state[SESSION].num_unparseable)


class OpenEnvEnvironment(verifiers.MultiTurnEnv):  # type: ignore[misc]
    """A rollout is an episode: the prompt shows its first observation, and each reply is an action.

    Prompts are those of `openenv eval` and of training. A conversation always has the whole episode.
    """

    def __init__(
        self,
        served: ServedEnvironment,
        servers: ExitStack,
        *,
        reset: dict[str, Any],
        retries: int,
        tool_calls: bool,
        **kwargs: Any,
    ) -> None:
        """servers: closed by `close`. For the other arguments see `load_environment`; kwargs: of MultiTurnEnv."""
        super().__init__(**kwargs)
        self._served, self._servers, self._reset = served, servers, reset
        self._retries, self._tool_calls = retries, tool_calls
        self.rubric.add_metric(num_unparseable)

    async def setup_state(self, state: verifiers.State) -> verifiers.State:
        """Open a session and show its first observation."""
        session = _Session(self._served, self._tool_calls)
        state[SESSION] = session
        shown = await session.begin({**self._reset, "seed": state["info"]["seed"]})
        state["prompt"] = _messages(shown)
        state["tool_defs"] = [
            verifiers.Tool(name=tool.name, description=tool.description, parameters=tool.input_schema)
            for tool in session.functions()
        ]
        return state

    async def env_response(self, messages: Any, state: verifiers.State, **kwargs: Any) -> Any:
        """What follows the newest reply."""
        session = state[SESSION]
        response = _messages(await session.act(messages[-1]))
        if session.done or session.num_problems > self._retries:
            state["final_env_response"] = response
        return response

    @verifiers.cleanup  # type: ignore[untyped-decorator]
    async def end_session(self, state: verifiers.State) -> None:
        """End the session of a rollout that has ended."""
        if SESSION in state:
            await state[SESSION].close()

    def close(self) -> None:
        """Stop the server, if one was started."""
        self._servers.close()


class _Session:
    """One episode."""

    def __init__(self, served: ServedEnvironment, tool_calls: bool) -> None:
        self._text, self._client = served.text, served.client()
        self._tool_calls = tool_calls
        self._prompts = PromptBuilder(self._text, instructions=True, calls_functions=tool_calls, history="full")
        self._observation: Any = None
        self._connected: Any = None
        self.total_reward = 0.0
        self.num_problems = 0
        """Replies without an action, since the last one with an action."""
        self.num_unparseable = 0
        self.done = False

    async def begin(self, keywords: Mapping[str, Any]) -> list[ChatMessage]:
        """Reset; return the first prompt."""
        self._connected = await self._client
        self._take(await self._connected.reset(**keywords))
        return self._prompts.messages(0, self._observation)

    def functions(self) -> list[Any]:
        """The functions that the model may call."""
        return self._text.functions(self._observation) if self._tool_calls else []

    async def act(self, message: Any) -> list[ChatMessage]:
        """Take the action that an assistant's message names; return the messages that follow."""
        reply = _reply(message)
        self._prompts.add_reply(0, reply)
        action = action_of(reply, self._text, self._observation)
        if action is None:
            self.num_problems += 1
            self.num_unparseable += 1
            problem = problem_of(reply, self._text, self._observation)
            return _after_reply(self._prompts.with_problem(0, problem))
        try:
            result = await self._connected.step(action)
        except OpenEnvError as error:
            if not is_refused_action(error):
                raise
            self.num_problems += 1
            self.num_unparseable += 1
            return _after_reply(self._prompts.with_problem(0, f"{REFUSED}: {error}"))
        self.num_problems = 0
        self._take(result)
        return _after_reply(self._prompts.messages(0, self._observation))

    async def close(self) -> None:
        """End the session on the server."""
        if self._connected is not None:
            await self._connected.close()

    def _take(self, result: Any) -> None:
        self._observation, self.done = result.observation, result.done
        self.total_reward += float(result.reward or 0.0)


def _reply(message: Any) -> EndpointReply:
    """A message of verifiers as a reply. One whose arguments are no JSON object names no action."""
    content, calls = content_text(_plain(message.content)), []
    for call in message.tool_calls or ():
        try:
            arguments = json.loads(call.arguments)
        except ValueError:
            arguments = None
        if not isinstance(arguments, dict):
            return EndpointReply(content, ToolCall(call.id, call.name, {}), as_text=f"{call.name} {call.arguments}")
        calls.append(ToolCall(call.id, call.name, arguments))
    return EndpointReply.of_calls(content, calls)


def _plain(content: Any) -> Any:
    """A content whose parts may be models of verifiers."""
    parts = content if isinstance(content, list) else []
    return [part if isinstance(part, dict) else part.model_dump() for part in parts] or content


def _after_reply(shown: list[ChatMessage]) -> list[ChatMessage]:
    """The messages after the newest reply."""
    newest = max(place for place, message in enumerate(shown) if message["role"] == "assistant")
    return shown[newest + 1 :]


def _messages(shown: list[ChatMessage]) -> list[Any]:
    """Messages of ours as those of verifiers."""
    classes = {"system": verifiers.SystemMessage, "user": verifiers.UserMessage, "tool": verifiers.ToolMessage}
    return [classes[message["role"]].model_validate(openai_message(message)) for message in shown]
