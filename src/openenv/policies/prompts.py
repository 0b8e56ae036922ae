"""The prompt builder of training and evaluation: the messages that a language model is shown in an episode.

A message may carry token ids. `openenv.rl.models.chat` renders messages as tokens and repeats such ids unchanged, so
that the tokens of a reply stay those that the model sampled.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NotRequired, TypedDict

from openenv.agents.llm.messages import TokenUsage, ToolCall, openai_call
from openenv.core.errors import OpenEnvError
from openenv.text.action_forms import call_text
from openenv.text.content import Content, Part, images_of, joined, text_of
from openenv.text.interface import History, TextInterface
from openenv.text.reading import after_thinking

THINK, END_OF_THINKING = "<think>", "</think>"
"""The markers around the thinking of a reply. Some chat templates begin a reply with the first."""


class ChatMessage(TypedDict):
    """One message of a conversation."""

    role: str
    """system, user, assistant, or tool for the result of a tool call."""
    content: Content
    name: NotRequired[str]
    """The tool whose result this is; only with the role tool."""
    token_ids: NotRequired[tuple[int, ...]]
    """The tokens that the model sampled; only in messages of the assistant whose tokens are known."""
    tool_calls: NotRequired[list[dict[str, Any]]]
    """The call that a model behind an API made, in that API's form; only in messages of the assistant."""
    tool_call_id: NotRequired[str]
    """The call whose result this is; only with the role tool, after a message with `tool_calls`."""


class CompletionFailed(OpenEnvError):
    """The language model's server returned no usable reply."""

    def __init__(self, message: str, outcomes: "Sequence[str | CompletionFailed]" = ()) -> None:
        """outcomes: of each conversation of the batch, where the others have replies."""
        super().__init__(message)
        self.outcomes = outcomes


class SampledReply(str):
    """A reply that carries the token ids that it was sampled as. Return it from `complete` if they are known."""

    token_ids: tuple[int, ...]
    is_cut_off: bool
    is_thought: bool

    def __new__(
        cls, text: str, token_ids: Sequence[int], *, is_cut_off: bool = False, is_thought: bool = False
    ) -> "SampledReply":
        """text: what the tokens decode to. is_cut_off: whether the limit of tokens ended it. is_thought: whether its
        prompt has opened its thinking."""
        reply = super().__new__(cls, text)
        reply.token_ids, reply.is_cut_off, reply.is_thought = tuple(token_ids), is_cut_off, is_thought
        return reply


class EndpointReply(str):
    """A reply of a model behind an API. As a text it is what the model wrote, or the text of the call that it made."""

    content: str
    call: ToolCall | None
    usage: TokenUsage | None
    is_cut_off: bool

    def __new__(
        cls,
        content: str,
        call: ToolCall | None = None,
        usage: TokenUsage | None = None,
        *,
        as_text: str | None = None,
        is_cut_off: bool = False,
    ) -> "EndpointReply":
        """content: what the model wrote, beside its call if it made one. usage: None where it is not counted.
        as_text: the reply as a text, for a call whose arguments cannot be read. is_cut_off: whether the limit of tokens
        ended it."""
        text = content if call is None else call_text(call.name, call.args)
        reply = super().__new__(cls, text if as_text is None else as_text)
        reply.content, reply.call, reply.usage, reply.is_cut_off = content, call, usage, is_cut_off
        return reply

    @classmethod
    def of_calls(
        cls, content: str, calls: Sequence[ToolCall], usage: TokenUsage | None = None, *, is_cut_off: bool = False
    ) -> "EndpointReply":
        """The reply with its call. Different calls are a text, which names no action: an environment takes one."""
        texts = list(dict.fromkeys(call_text(call.name, call.args) for call in calls))
        call = calls[0] if len(texts) == 1 else None
        as_text = "\n".join(texts) if len(texts) > 1 else None
        return cls(content, call, usage, as_text=as_text, is_cut_off=is_cut_off)


class PromptBuilder:
    """Builds the prompt of each turn of any number of episodes.

    With `history` `latest` each prompt shows the newest observation alone. With `full` it shows the whole episode:
    every observation, each followed by the model's reply.

    Example:
        messages = prompts.messages(episode, observation)
        prompts.add_reply(episode, model(messages))
    """

    def __init__(
        self,
        text: TextInterface[Any, Any],
        *,
        instructions: bool,
        tools: Sequence[Mapping[str, Any]] = (),
        calls_functions: bool = False,
        history: History | None = None,
        openings: Mapping[Hashable, Sequence[ChatMessage]] | None = None,
    ) -> None:
        """
        Args:
            instructions: whether a system message with the rules comes first.
            tools: the function definitions that the model is shown. A reply is then a call, and the observation after
                it is the call's result (role tool).
            calls_functions: whether requests carry the functions of `text`, so that its rules are enough.
            history: None for the text interface's own.
            openings: messages of an episode before what it shows first, which a last one of the user begins.
        """
        self._text = text
        self._tools = tools
        self._instructions = instructions
        self._calls_functions = calls_functions
        self._history = history or text.history or "full"
        self._openings = openings or {}
        self._conversations: dict[Hashable, list[ChatMessage]] = {}

    @property
    def remembers_episodes(self) -> bool:
        """Whether prompts show earlier turns of the episode."""
        return self._history == "full"

    @property
    def num_episodes(self) -> int:
        """Number of episodes whose newest prompt is held."""
        return len(self._conversations)

    def messages(self, episode: Hashable, observation: Any) -> list[ChatMessage]:
        """The prompt of the episode's next turn. Follow it with `add_reply`."""
        before = self._conversations.get(episode) if self.remembers_episodes else None
        following = [*before, *self._after(before[-1], self._seen(observation))] if before else []
        shown = following if before else self._first(episode, observation)
        self._conversations[episode] = shown
        return list(shown)

    def opening(self, observation: Any) -> list[ChatMessage]:
        """The prompt of an episode's first turn."""
        rules: list[ChatMessage] = []
        if self._instructions:
            calls = self._calls_functions and self._text.functions(observation)
            shown = self._text.rules(observation) if calls else self._text.instructions(observation)
            rules += [{"role": "system", "content": shown}] if shown else []
        return [*rules, self._seen(observation)]

    def _first(self, episode: Hashable, observation: Any) -> list[ChatMessage]:
        """The opening of an episode that may have one of its own."""
        *rules, seen = self.opening(observation)
        opening = [*rules, *self._openings.get(episode, ())]
        if opening and opening[-1]["role"] == seen["role"]:
            return [*opening[:-1], {**seen, "content": joined(opening[-1]["content"], seen["content"])}]
        return [*opening, seen]

    def add_reply(self, episode: Hashable, reply: str) -> None:
        """Append the model's reply to the episode. Its token ids are kept if it is a `SampledReply`."""
        self._conversations[episode].append(assistant_message(reply))

    def with_problem(self, episode: Hashable, problem: str) -> list[ChatMessage]:
        """The prompt that shows, after a reply, why it names no action. Follow it with `add_reply`."""
        shown = self._conversations[episode]
        shown += self._after(shown[-1], {"role": "user", "content": problem})
        return list(shown)

    def forget_turn(self, episode: Hashable) -> list[ChatMessage] | None:
        """The newest prompt without its oldest message and the reply to it; None if there is no earlier one."""
        shown = self._conversations[episode]
        first = 1 if shown[0]["role"] == "system" else 0
        if len(shown) < first + 3:
            return None
        oldest: ChatMessage = {**shown[first + 2], "role": "user"}  # a tool's result needs a call before it
        self._conversations[episode] = [*shown[:first], oldest, *shown[first + 3 :]]
        return list(self._conversations[episode])

    def end_episode(self, episode: Hashable) -> None:
        """Forget an episode that has ended."""
        self._conversations.pop(episode, None)

    def _seen(self, observation: Any) -> ChatMessage:
        return {"role": "user", "content": self._text.describe(observation)}

    def _after(self, reply: ChatMessage, message: ChatMessage) -> list[ChatMessage]:
        """A message as it follows a reply. The result of an API's call is a text, which images follow."""
        if "tool_calls" not in reply:
            return [{**message, "role": "tool"} if self._tools else message]
        content = message["content"]
        result: ChatMessage = {
            "role": "tool",
            "tool_call_id": reply["tool_calls"][0]["id"],
            "content": text_of(content),
        }
        return [result, message] if images_of(content) else [result]


def assistant_message(reply: str) -> ChatMessage:
    """The message of a reply, with its token ids if it is a `SampledReply`."""
    if isinstance(reply, SampledReply):
        return {"role": "assistant", "content": str(reply), "token_ids": reply.token_ids}
    if isinstance(reply, EndpointReply) and reply.call is not None:
        return {"role": "assistant", "content": reply.content, "tool_calls": [openai_call(reply.call)]}
    return {"role": "assistant", "content": reply}


def answer_of(reply: str) -> str | None:
    """The part of a reply that names an action: what follows its thinking. None where the thinking has no end."""
    return after_thinking(reply, is_thought=isinstance(reply, SampledReply) and reply.is_thought)


def is_cut_off(reply: str) -> bool:
    """Whether a limit of tokens ended a reply; only where its tokens or its service are known."""
    return isinstance(reply, (SampledReply, EndpointReply)) and reply.is_cut_off


def split_thinking(reply: str) -> tuple[str, str]:
    """A reply in two: the thinking, with its end marker and the white space after it, and the answer.

    It divides tokens, of which all have a place: a reply without end marker is all answer here. `answer_of` reads it.
    """
    thinking, marker, answer = reply.rpartition(END_OF_THINKING)
    bare = answer.lstrip() if marker else answer
    return thinking + marker + answer[: len(answer) - len(bare)], bare


def openai_message(message: ChatMessage) -> dict[str, Any]:
    """A message as the OpenAI API takes it, with its images in that form."""
    content: Content = message["content"]
    return {**message, "content": content if isinstance(content, str) else list(map(_openai_part, content))}


def _openai_part(part: Part) -> Part:
    return {"type": "image_url", "image_url": {"url": part["image"]}} if part["type"] == "image" else part
