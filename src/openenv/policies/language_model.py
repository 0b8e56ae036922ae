"""A language model as a policy, and a client of an OpenAI-compatible chat endpoint."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import httpx

from openenv.core.errors import OpenEnvError
from openenv.core.text_interface import TextInterface
from openenv.policies.base import Choice, Policy
from openenv.policies.prompts import ChatMessage, PromptBuilder, answer_of

Complete = Callable[[list[list[ChatMessage]]], Sequence[str]]
"""Completes a batch of conversations: returns one reply for each. A `SampledReply` also carries its tokens."""


class CompletionFailed(OpenEnvError):
    """The language model's server returned no usable reply."""


class LanguageModelPolicy(Policy):
    """Shows each observation to a language model as text and parses its reply, without its thinking, as an action.

    If a reply names no legal action, the choice is None and the episode ends as unparseable.
    """

    is_slow: ClassVar[bool] = True

    def __init__(
        self, name: str, text: TextInterface[Any, Any], complete: Complete, *, instructions: bool = True
    ) -> None:
        """complete: completes a batch of conversations. instructions: whether a system message has the rules."""
        self.name = name
        self._text = text
        self._complete = complete
        self.prompts = PromptBuilder(text, instructions=instructions)
        self.follows_episodes = self.prompts.remembers_episodes

    def select_action(self, observation: Any) -> Choice:
        """The action that the model names, or None. The observation is taken as the first of its episode."""
        (reply,) = self._complete([self.prompts.opening(observation)])
        return self._text.parse(answer_of(reply), observation)

    def select_actions(self, observations: Sequence[Any], episodes: Sequence[int] | None = None) -> list[Choice]:
        """One choice for each observation, from one batch.

        episodes: the number of each observation's episode, required if the text's `history` is `full`. Raises
        ValueError if it is required and missing.
        """
        if episodes is None:
            if self.follows_episodes:
                raise ValueError(f"{self.name}: the prompts show whole episodes: give `episodes`.")
            episodes = range(len(observations))
        turns = list(zip(episodes, observations, strict=True))
        replies = self._complete([self.prompts.messages(episode, seen) for episode, seen in turns])
        for (episode, _), reply in zip(turns, replies, strict=True):
            self.prompts.add_reply(episode, reply)
        return [self._text.parse(answer_of(reply), seen) for (_, seen), reply in zip(turns, replies, strict=True)]

    def end_episode(self, episode: int) -> None:
        """Forget the conversation of an episode that has ended."""
        self.prompts.end_episode(episode)


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
            response = self._http.post("/chat/completions", json={**self._request, "messages": messages})
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
