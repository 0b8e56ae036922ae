"""A language model as a policy, and a client of an OpenAI-compatible chat endpoint."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from openenv.agents.llm.client import LLMError, OpenAIClient, UnreadableToolCall, needs_max_completion_tokens
from openenv.core.env_server.mcp_types import Tool
from openenv.core.utils import run_async_safely
from openenv.policies.base import Choice, Policy, PolicyReply
from openenv.policies.conversations import Conversations, ReplyRequest, ReplyRules
from openenv.policies.prompts import (
    ChatMessage,
    CompletionFailed,
    EndpointReply,
    PromptBuilder,
    assistant_message,
    is_cut_off,
    openai_message,
)
from openenv.text.action_forms import definition
from openenv.text.constraints import ReplyConstraint
from openenv.text.interface import History, TextInterface

Complete = Callable[[list[list[ChatMessage]]], Sequence[str]]
"""Completes a batch of conversations: returns one reply for each. A `SampledReply` also carries its tokens."""
CompleteConstrained = Callable[[list[list[ChatMessage]], Sequence[ReplyConstraint | None]], Sequence[str]]
"""The same for a generator that draws legal replies only, by the constraint of each conversation."""
CompleteWithFunctions = Callable[[list[list[ChatMessage]], Sequence[Sequence[Tool]]], Sequence[str]]
"""The same for a model that may call functions, those of each conversation. An `EndpointReply` carries a call."""


class LanguageModelPolicy(Policy):
    """Shows each observation to a language model as text and parses its reply, without its thinking, as an action.

    After the retries that `rules` allows, a reply that names no legal action, or a refused one, ends the episode as
    unparseable.
    """

    is_slow = True
    follows_episodes = True

    def __init__(
        self,
        name: str,
        text: TextInterface[Any, Any],
        complete: Complete | CompleteConstrained | CompleteWithFunctions,
        *,
        constrains: bool = False,
        instructions: bool = True,
        tools: Sequence[Mapping[str, Any]] = (),
        calls_functions: bool = False,
        history: History | None = None,
        rules: ReplyRules | None = None,
        fits: Callable[[list[ChatMessage]], bool] | None = None,
    ) -> None:
        """
        Args:
            complete: completes a batch of conversations.
            constrains: whether it receives the constraint of each beside them.
            instructions: whether a system message has the rules.
            tools, history: as in `PromptBuilder`.
            calls_functions: whether the model is offered the functions of `text`, which `complete` then receives beside
                the conversations.
            fits: whether a prompt is short enough; None: all are.
        """
        self.name = name
        self._text = text
        self._complete: Any = complete
        self._constrains = constrains
        self._calls_functions = calls_functions
        prompts = PromptBuilder(
            text, instructions=instructions, tools=tools, calls_functions=calls_functions, history=history
        )
        self.conversations = Conversations(
            prompts, text, constrains=constrains, rules=rules, fits=fits, on_reply=self._on_reply
        )
        self._needs_episodes = prompts.remembers_episodes or self.conversations.rules.max_episode_tokens is not None
        self._functions: dict[Hashable, list[Tool]] = {}
        self._prompts: dict[Hashable, list[ChatMessage]] = {}
        self._untaken: defaultdict[Hashable, list[PolicyReply]] = defaultdict(list)

    def select_action(self, observation: Any) -> Choice:
        """The action that the model names, or the end of the episode. The observation is taken as its first."""
        return self._of_new_episodes([observation])[0]

    def select_actions(self, observations: Sequence[Any], episodes: Sequence[int] | None = None) -> list[Choice]:
        """One choice for each observation, from one batch.

        episodes: the number of each observation's episode. Raises ValueError if it is missing where prompts show whole
        episodes, or where their tokens are limited.
        """
        if episodes is None:
            if self._needs_episodes:
                raise ValueError(f"{self.name}: the prompts or limits are of whole episodes: give `episodes`.")
            return self._of_new_episodes(observations)
        return self._choose(list(zip(episodes, observations, strict=True)))

    def on_refusal(self, episode: int, reason: str, refusals: int) -> bool:
        """Show the reason to the model, if a retry is left."""
        return self.conversations.refuse(episode, reason)

    def take_replies(self, episode: int) -> list[PolicyReply]:
        """The replies in an episode since the last call."""
        return self._untaken.pop(episode, [])

    def end_episode(self, episode: Hashable) -> None:
        """Forget the conversation of an episode that has ended."""
        self.conversations.end_episode(episode)
        self._untaken.pop(episode, None)
        self._functions.pop(episode, None)
        self._prompts.pop(episode, None)

    def _of_new_episodes(self, observations: Sequence[Any]) -> list[Choice]:
        turns = [(object(), observation) for observation in observations]
        choices = self._choose(turns)
        for episode, _ in turns:
            self.end_episode(episode)
        return choices

    def _choose(self, turns: Sequence[tuple[Hashable, Any]]) -> list[Choice]:
        if self._calls_functions:
            self._functions.update((episode, self._text.functions(seen)) for episode, seen in turns)
        return self.conversations.choose(turns, self._replies)

    def _replies(self, requests: Sequence[ReplyRequest]) -> Sequence[str]:
        conversations = [request.messages for request in requests]
        self._prompts.update((request.episode, request.messages) for request in requests)
        if self._constrains:
            constrained: Sequence[str] = self._complete(conversations, [request.constraint for request in requests])
            return constrained
        if not self._calls_functions:
            replies: Sequence[str] = self._complete(conversations)
            return replies
        functions = [self._functions[request.episode] for request in requests]
        with_calls: Sequence[str] = self._complete(conversations, functions)
        return with_calls

    def _on_reply(self, episode: Hashable, observation: Any, reply: str, action: Any) -> None:
        usage = reply.usage if isinstance(reply, EndpointReply) else None
        self._untaken[episode].append(
            PolicyReply(
                prompt=self._prompts[episode],
                message=assistant_message(reply),
                names_action=action is not None,
                is_cut_off=is_cut_off(reply),
                functions=[definition(tool) for tool in self._functions.get(episode, ())],
                prompt_tokens=usage.prompt_tokens if usage else 0,
                completion_tokens=usage.completion_tokens if usage else 0,
            )
        )


class ChatEndpoint:
    """Completes conversations with a model behind an OpenAI-compatible HTTP API. Use it as `complete`."""

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        api_key: str | None = None,
        temperature: float = 0.0,
        max_tokens: int = 64,
        timeout_s: float = 60.0,
        max_connections: int = 16,
    ) -> None:
        """
        Args:
            base_url: including /v1.
            max_connections: requests that are sent at the same time.
            timeout_s: of one try; a busy or failing server is tried again.
        """
        self._client = OpenAIClient(
            base_url, None, model, api_key, temperature=temperature, max_tokens=max_tokens,
            use_max_completion_tokens=needs_max_completion_tokens(model), timeout_s=timeout_s,
        )  # fmt: skip
        self._max_connections = max_connections

    def __call__(
        self, conversations: list[list[ChatMessage]], functions: Sequence[Sequence[Tool]] | None = None
    ) -> list[str]:
        """One reply for each conversation. functions: those that the model may call, for each conversation.

        Raises CompletionFailed, with the other replies, if the server refuses one or does not respond to it.
        """
        return run_async_safely(self._replies(conversations, functions))

    async def _replies(
        self, conversations: list[list[ChatMessage]], functions: Sequence[Sequence[Tool]] | None
    ) -> list[str]:
        free = asyncio.Semaphore(self._max_connections)

        async def reply(messages: list[ChatMessage], tools: Sequence[Tool]) -> str | CompletionFailed:
            async with free:
                return await self._reply(list(map(openai_message, messages)), [tool.model_dump() for tool in tools])

        outcomes = await asyncio.gather(*map(reply, conversations, functions or [()] * len(conversations)))
        replies = [outcome for outcome in outcomes if isinstance(outcome, str)]
        failure = next((outcome for outcome in outcomes if isinstance(outcome, CompletionFailed)), None)
        if failure is not None:
            raise CompletionFailed(str(failure), outcomes)
        return replies

    async def _reply(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> str | CompletionFailed:
        """One reply, whose calls are as `EndpointReply.of_calls` takes them, or why there is none."""
        try:
            response = await self._client.complete_with_tools(messages, tools)
        except UnreadableToolCall as error:  # a reply that names no action
            return EndpointReply(f"{error.name}({error.arguments})", usage=error.usage, is_cut_off=error.is_cut_off)
        except LLMError as error:
            return CompletionFailed(str(error))
        return EndpointReply.of_calls(
            response.content, response.tool_calls, response.usage, is_cut_off=response.is_cut_off
        )
