"""A policy that asks a language model, and a language model asked over HTTP."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import httpx

from openenv.core.errors import OpenEnvError
from openenv.core.text import TextInterface
from openenv.policies.base import Choice, Policy

Message = dict[str, str]
"""One turn of a conversation: `role` (system, user or assistant) and `content`."""

Complete = Callable[[list[list[Message]]], list[str]]
"""Answers a batch of conversations: one reply for each."""


class CompletionFailed(OpenEnvError):
    """The language model's server gave no usable reply."""


class LanguageModelPolicy(Policy):
    """Shows each observation to a language model as text and reads its reply as an action.

    A reply that names no legal action is None: the episode is given up, never played on at random.
    """

    is_slow: ClassVar[bool] = True

    def __init__(
        self, name: str, text: TextInterface[Any, Any], complete: Complete, *, instructions: bool = True
    ) -> None:
        """complete: answers a batch of conversations. instructions: whether a system message tells the rules."""
        self.name = name
        self._text = text
        self._complete = complete
        self._instructions = instructions
        self._conversations: dict[int, list[Message]] = {}
        self.follows_episodes = text.history == "full"

    def select_action(self, observation: Any) -> Choice:
        """The action that the model names, or None. The observation is taken for the first of its episode."""
        return self._answers([self._opening(observation)], [observation])[0]

    def select_actions(self, observations: Sequence[Any], episodes: Sequence[int] | None = None) -> list[Choice]:
        """One choice for each observation, from one batch.

        episodes: a number for the episode of each observation; needed where the text's `history` is `full`, to show
        the earlier turns again. Raises ValueError where it is needed and missing.
        """
        if not self.follows_episodes:
            return self._answers([self._opening(observation) for observation in observations], observations)
        if episodes is None:
            raise ValueError(f"{self.name}: the text shows whole episodes, so `episodes` must say which is which.")
        asked = [self._continued(episode, seen) for episode, seen in zip(episodes, observations, strict=True)]
        return self._answers(asked, observations)

    def end_episode(self, episode: int) -> None:
        """Forget the conversation of an episode that is over."""
        self._conversations.pop(episode, None)

    def _opening(self, observation: Any) -> list[Message]:
        rules = [{"role": "system", "content": self._text.instructions(observation)}] if self._instructions else []
        return [*rules, {"role": "user", "content": self._text.describe(observation)}]

    def _continued(self, episode: int, observation: Any) -> list[Message]:
        if episode in self._conversations:
            self._conversations[episode].append({"role": "user", "content": self._text.describe(observation)})
        else:
            self._conversations[episode] = self._opening(observation)
        return self._conversations[episode]

    def _answers(self, conversations: list[list[Message]], observations: Sequence[Any]) -> list[Choice]:
        replies = self._complete([list(conversation) for conversation in conversations])
        for conversation, reply in zip(conversations, replies, strict=True):
            conversation.append({"role": "assistant", "content": reply})
        return [self._text.parse(reply, seen) for reply, seen in zip(replies, observations, strict=True)]


class ChatEndpoint:
    """Answers conversations with a model behind an OpenAI-compatible HTTP API. Call it, or give it as `complete`."""

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
        """base_url: up to and with /v1. max_connections: conversations asked at one time."""
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        transport = httpx.HTTPTransport(retries=2)
        self._http = httpx.Client(
            base_url=base_url.rstrip("/"), headers=headers, timeout=timeout_s, transport=transport
        )
        self._request = {"model": model, "temperature": temperature, "max_tokens": max_tokens}
        self._max_connections = max_connections

    def __call__(self, conversations: list[list[Message]]) -> list[str]:
        """One reply for each conversation. Raises CompletionFailed when the server refuses or does not answer."""
        with ThreadPoolExecutor(max_workers=self._max_connections) as threads:
            return list(threads.map(self._ask, conversations))

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _ask(self, messages: list[Message]) -> str:
        try:
            answer = self._http.post("/chat/completions", json={**self._request, "messages": messages})
            answer.raise_for_status()
            content: str | None = answer.json()["choices"][0]["message"]["content"]
        except httpx.HTTPStatusError as error:
            detail = error.response.text[:300]
            raise CompletionFailed(f"{error.request.url} answered {error.response.status_code}: {detail}") from error
        except httpx.HTTPError as error:
            raise CompletionFailed(f"{self._http.base_url} did not answer: {error}") from error
        except (ValueError, KeyError, IndexError, TypeError) as error:
            raise CompletionFailed(
                f"{self._http.base_url} answered in another form than chat completions: {error}"
            ) from error
        return content or ""
