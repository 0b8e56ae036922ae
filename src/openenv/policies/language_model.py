"""A language model as a policy, and a client of an OpenAI-compatible chat endpoint."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import httpx

from openenv.core.errors import OpenEnvError
from openenv.core.text.content import Content, Part
from openenv.core.text_interface import History, TextInterface
from openenv.policies.base import Choice, Policy
from openenv.policies.conversations import Conversations, ReplyRules
from openenv.policies.prompts import ChatMessage, PromptBuilder

Complete = Callable[[list[list[ChatMessage]]], Sequence[str]]
"""Completes a batch of conversations: returns one reply for each. A `SampledReply` also carries its tokens."""


class CompletionFailed(OpenEnvError):
    """The language model's server returned no usable reply."""


class LanguageModelPolicy(Policy):
    """Shows each observation to a language model as text and parses its reply, without its thinking, as an action.

    After the retries that `rules` allows, a reply that names no legal action ends the episode as unparseable.
    """

    is_slow: ClassVar[bool] = True

    def __init__(
        self,
        name: str,
        text: TextInterface[Any, Any],
        complete: Complete,
        *,
        instructions: bool = True,
        tools: Sequence[Mapping[str, Any]] = (),
        history: History | None = None,
        rules: ReplyRules | None = None,
        fits: Callable[[list[ChatMessage]], bool] | None = None,
    ) -> None:
        """complete: completes a batch of conversations. instructions: whether a system message has the rules. tools,
        history: as in `PromptBuilder`. fits: whether a prompt is short enough; None: all are."""
        self.name = name
        prompts = PromptBuilder(text, instructions=instructions, tools=tools, history=history)
        self.conversations = Conversations(
            prompts, text, lambda _, conversations: complete(conversations), rules=rules, fits=fits
        )
        self.follows_episodes = prompts.remembers_episodes or self.conversations.rules.max_episode_tokens is not None

    def select_action(self, observation: Any) -> Choice:
        """The action that the model names, or the end of the episode. The observation is taken as its first."""
        return self._of_new_episodes([observation])[0]

    def select_actions(self, observations: Sequence[Any], episodes: Sequence[int] | None = None) -> list[Choice]:
        """One choice for each observation, from one batch.

        episodes: the number of each observation's episode, required if the policy follows episodes: if prompts show
        whole episodes, or their tokens are limited. Raises ValueError if it is required and missing.
        """
        if episodes is None:
            if self.follows_episodes:
                raise ValueError(f"{self.name}: the prompts or limits are of whole episodes: give `episodes`.")
            return self._of_new_episodes(observations)
        return self.conversations.choose(list(zip(episodes, observations, strict=True)))

    def end_episode(self, episode: int) -> None:
        """Forget the conversation of an episode that has ended."""
        self.conversations.end_episode(episode)

    def _of_new_episodes(self, observations: Sequence[Any]) -> list[Choice]:
        turns = [(object(), observation) for observation in observations]
        choices = self.conversations.choose(turns)
        for episode, _ in turns:
            self.conversations.end_episode(episode)
        return choices


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
        """base_url: including /v1. max_connections: conversations that are sent at the same time."""
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        transport = httpx.HTTPTransport(retries=2)
        self._http = httpx.Client(
            base_url=base_url.rstrip("/"), headers=headers, timeout=timeout_s, transport=transport
        )
        self._request = {"model": model, "temperature": temperature, "max_tokens": max_tokens}
        self._max_connections = max_connections

    def __call__(self, conversations: list[list[ChatMessage]]) -> list[str]:
        """One reply for each conversation. Raises CompletionFailed if the server refuses or does not respond."""
        with ThreadPoolExecutor(max_workers=self._max_connections) as threads:
            return list(threads.map(self._post, conversations))

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _post(self, messages: list[ChatMessage]) -> str:
        try:
            response = self._http.post(
                "/chat/completions", json=self._request | {"messages": list(map(_as_openai, messages))}
            )
            response.raise_for_status()
            content: str | None = response.json()["choices"][0]["message"]["content"]
        except httpx.HTTPStatusError as error:
            detail = error.response.text[:300]
            raise CompletionFailed(f"{error.request.url} returned {error.response.status_code}: {detail}") from error
        except httpx.HTTPError as error:
            raise CompletionFailed(f"{self._http.base_url} did not respond: {error}") from error
        except (ValueError, KeyError, IndexError, TypeError) as error:
            raise CompletionFailed(f"{self._http.base_url} returned no chat completion: {error}") from error
        return content or ""


def _as_openai(message: ChatMessage) -> dict[str, Any]:
    """The message with its images in OpenAI's form."""
    content: Content = message["content"]
    return {**message, "content": content if isinstance(content, str) else list(map(_as_openai_part, content))}


def _as_openai_part(part: Part) -> Part:
    return {"type": "image_url", "image_url": {"url": part["image"]}} if part["type"] == "image" else part
