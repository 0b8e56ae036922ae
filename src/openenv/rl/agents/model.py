"""The model that is trained, as an agent's program calls it: a generator behind the endpoint, with each token kept."""

import asyncio
import hashlib
import json
import random
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from openenv.agents.endpoint.requests import (
    CalledTool,
    EndReason,
    Message,
    ModelAnswer,
    ModelReply,
    ModelRequest,
    RequestRefused,
)
from openenv.core.env_server.mcp_types import Tool
from openenv.formats.json_text import json_text
from openenv.policies.conversations import ReplyRequest
from openenv.policies.prompts import ChatMessage
from openenv.rl.agents.capture import Call, CallEnd, Capture
from openenv.rl.agents.shown import ShownTools, chat_with
from openenv.rl.algorithm.segment import Segment
from openenv.rl.generators.reply_queue import Replies
from openenv.rl.models.chat import Chat
from openenv.rl.models.prompt_tokens import TokenIds
from openenv.rl.models.reply_masks import can_spell, schema_problem
from openenv.text.action_forms import ToolForm
from openenv.text.constraints import ReplyConstraint

PINNED = {
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": -1.0,
    "min_p": 0.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
}
"""How replies are drawn in training, whatever a program asks for: the log-probabilities that it trains on are those of
the whole distribution."""


class TokenLimits(NamedTuple):
    """How much one call, and the whole episode, may have."""

    prompt: int
    reply: int
    episode: int | None = None
    """Sampled tokens after which calls are refused; None: no limit."""


class AgentModels:
    """What the models of all episodes share: the generator's replies, and the functions that were shown before."""

    def __init__(self, chat: Chat, replies: Replies, limits: TokenLimits) -> None:
        self.replies = replies
        self.limits = limits
        self._chat = chat
        self._shown: dict[str, tuple[Chat, ShownTools]] = {}

    def shown(self, tools: Sequence[Message]) -> tuple[Chat, ShownTools]:
        """The chat with these functions, and how requests with them are shown."""
        key = json_text([dict(tool) for tool in tools])
        if key not in self._shown:
            self._shown[key] = chat_with(self._chat, tools)
        return self._shown[key]

    @cached_property
    def can_limit(self) -> bool:
        """Whether replies can be limited to calls and to JSON: those of the tiny model, which writes words, cannot."""
        return can_spell(self._chat.tokenizer)


class CapturedModel:
    """Answers the calls of one episode. As `agents.endpoint.requests.AnswersRequests`."""

    def __init__(
        self,
        models: AgentModels,
        episode: int,
        seed: int,
        has_ended: Callable[[], bool] = lambda: False,
        *,
        must_call: bool = False,
    ) -> None:
        """
        Args:
            models: what it shares with those of other episodes.
            episode: its number, by which a generator of several servers divides them.
            seed: of the draws. They depend on it and on what is asked, not on the order of calls that run at the same
                time.
            has_ended: whether the environment's episode has: what is sampled from then on is not trained.
            must_call: whether a reply to a request with functions has to be a call until then, where the program leaves
                that to the model.
        """
        self.capture = Capture()
        self.not_given = Counter[str]()
        """How often a program has asked for what it does not get, such as other draws than those of training."""
        self.broken: Exception | None = None
        """What the generator has failed with."""
        self._models = models
        self._episode = episode
        self._seed = seed
        self._has_ended = has_ended
        self._must_call = must_call
        self._asked = Counter[bytes]()
        self._num_sampled = 0
        self._is_over = False

    def stop(self) -> None:
        """The episode's time is over: calls that still run, or still arrive, are not lost, but stopped."""
        self._is_over = True
        for call in self.capture.calls:
            if call.end is None:
                self.capture.failed(call, "stopped", "the episode was stopped")

    async def answer(self, request: ModelRequest) -> ModelAnswer:
        """As `AnswersRequests.answer`."""
        asked = request.sampling.items()
        self.not_given.update(
            f"asked for other draws: {key}" for key, value in asked if PINNED.get(key, value) != value
        )
        call, place = self.capture.open(
            request.messages, request.tools, is_retry=request.is_retry, is_late=self._has_ended()
        )
        try:
            segments, replies = await self._replies(request, call, place)
        except RequestRefused as error:
            self.capture.failed(call, "refused", str(error))
            raise
        except asyncio.CancelledError:
            end: CallEnd = "stopped" if self._is_over else "lost"
            self.capture.failed(call, end, "the program has not waited for its reply")
            raise
        except Exception as error:
            self.capture.failed(call, "failed", f"{type(error).__name__}: {error}")
            self.broken = error
            raise RequestRefused(f"the model has failed: {error}", status=500) from error
        said = [_message(reply) for reply in replies]
        self.capture.answered(call, request.messages, request.tools, list(zip(said, segments, strict=True)))
        num_prompt = int((~segments[0].sampled).sum())
        return ModelAnswer(tuple(replies), num_prompt_tokens=num_prompt)

    async def _replies(self, request: ModelRequest, call: Call, place: int) -> tuple[list[Segment], list[ModelReply]]:
        """Draw the replies to a call."""
        limits = self._models.limits
        chat, tools = self._models.shown(request.tools if request.tool_choice != "none" else ())
        left = limits.reply if limits.episode is None else min(limits.reply, limits.episode - self._num_sampled)
        if left <= 0:
            raise RequestRefused(
                f"the episode has sampled its {limits.episode} tokens: end it", code="insufficient_quota"
            )
        try:
            shown = tools.messages(request.messages)
            prompt = self._prompt(request, chat, shown, place)
        except ValueError as error:  # the template cannot show it, or an image is none
            raise RequestRefused(f"messages: {error}", field_name="messages") from None
        if len(prompt) > limits.prompt:
            raise RequestRefused(
                f"messages: the prompt has {len(prompt)} tokens, and the model reads {limits.prompt}. Shorten it",
                field_name="messages",
                code="context_length_exceeded",
            )
        constraint = self._constraint(request)
        asked = ReplyRequest(self._episode, shown, constraint, token_ids=prompt)
        drawing = [self._models.replies.answer(asked, stream) for stream in self._streams(request, call)]
        drawn = await asyncio.gather(*drawing)
        found = [self._reply(request, call, (chat, tools), segment, left, place) for place, segment in enumerate(drawn)]
        self._num_sampled += sum(reply.num_tokens for _, reply in found)
        return [segment for segment, _ in found], [reply for _, reply in found]

    def _constraint(self, request: ModelRequest) -> ReplyConstraint | None:
        """What a reply may be: a call where one has to be made, and JSON where the request has a schema.

        Raises RequestRefused for a schema that no reply can be limited to: it would fail with all that the generator
        answers at the same time.
        """
        choice, schema = request.tool_choice, request.reply_schema
        tools = [tool for tool in request.tools if request.named_tool in (None, tool["name"])]
        must_call = choice == "required" or (
            choice == "auto" and bool(tools) and self._must_call and not self._has_ended()
        )
        if not (must_call or schema is not None):
            return None
        if not self._models.can_limit:
            self.not_given[f"asked for {'a call' if must_call else 'JSON'} of a model without letters"] += 1
            return None
        if must_call:
            constraint, field_name = _calls_of(tools), "tools"
        else:
            assert schema is not None
            is_either = bool(tools) and choice == "auto"
            constraint = _either(_calls_of(tools), schema) if is_either else ReplyConstraint.json_of(schema)
            field_name = "response_format"
        problem = schema_problem(constraint)
        if problem:
            raise RequestRefused(f"the JSON schema of the reply: {problem}. Change it", field_name=field_name)
        return constraint

    def _prompt(self, request: ModelRequest, chat: Chat, shown: Sequence[ChatMessage], place: int) -> TokenIds:
        """The tokens of a request: those of the conversation that it continues, and what comes after them.

        Args:
            request: what is asked.
            chat: with its functions.
            shown: its messages as they are shown.
            place: the number of its messages that the earlier conversation has.
        """
        before = self.capture.before(request.messages[:place], request.tools) if place else None
        if before is None:
            return chat.prompt(shown)
        replies = [number for number, message in enumerate(shown) if message["role"] == "assistant"]
        number = sum(message["role"] == "assistant" for message in request.messages[:place])
        return chat.continued(tuple(before.token_ids.tolist()), shown, replies[number - 1])

    def _streams(self, request: ModelRequest, call: Call) -> list[random.Random]:
        """The random numbers of each reply to a call."""
        self._asked[call.history] += 1
        start = f"{self._seed}/{call.history.hex()}/{self._asked[call.history]}"
        digests = [hashlib.blake2b(f"{start}/{number}".encode()).digest() for number in range(request.num_replies)]
        return [random.Random(int.from_bytes(digest)) for digest in digests]

    def _reply(
        self,
        request: ModelRequest,
        call: Call,
        shown: tuple[Chat, ShownTools],
        segment: Segment,
        most: int,
        number: int,
    ) -> tuple[Segment, ModelReply]:
        """A reply as the program receives it, and its tokens: those up to its end are kept."""
        (chat, tools), prompt = shown, int((~segment.sampled).sum())
        ids = segment.sampled_ids
        limit = min(most, request.max_tokens or most)
        length, stopped_by = _length_of(ids[:limit], request.stop, chat)
        is_ended = stopped_by is not None or (length == len(ids) and ids[-1] in chat.end_ids)
        kept = segment if length == len(ids) else _first_of(segment, prompt + length)
        text = chat.text(ids[:length])
        text = text if stopped_by is None else text.partition(stopped_by)[0]
        read = tools.read(text, is_thought=chat.template.opens_thinking)
        calls = tuple(
            CalledTool(f"call{call.number:05d}{number}{place}", name, arguments)
            for place, (name, arguments) in enumerate(read.calls)
        )
        end: EndReason = ("tool_calls" if calls else "stop") if is_ended else "length"
        logprobs = None
        if request.wants_logprobs:
            values = kept.logprobs[prompt:].tolist()
            logprobs = tuple((chat.text([token]), value) for token, value in zip(ids, values, strict=False))
        return kept, ModelReply(
            read.content,
            reasoning=read.reasoning,
            tool_calls=calls,
            end=end,
            stopped_by=stopped_by,
            num_tokens=length,
            logprobs=logprobs,
        )


def _calls_of(tools: Sequence[Message]) -> ReplyConstraint:
    """Calls of some functions."""
    listed = [Tool(name=one["name"], description=one["description"], input_schema=one["parameters"]) for one in tools]
    return ToolForm(listed).constraint()


def _either(one: ReplyConstraint, other: Mapping[str, Any]) -> ReplyConstraint:
    """What meets a constraint, or another schema."""
    schema = json.loads(one.schema)
    parts = {**schema.pop("$defs", {}), **other.get("$defs", {})}
    return ReplyConstraint.json_of({"$defs": parts, "anyOf": [*schema["anyOf"], other]})


def _message(reply: ModelReply) -> dict[str, Any]:
    calls = [{"id": one.id, "function": {"name": one.name, "arguments": one.arguments}} for one in reply.tool_calls]
    return {"role": "assistant", "content": reply.content, "tool_calls": calls}


def _length_of(ids: Sequence[int], stop: Sequence[str], chat: Chat) -> tuple[int, str | None]:
    """The number of tokens until the first text that ends a reply is complete, and this text; None without one."""

    def found(length: int) -> str | None:
        text = chat.text(ids[:length])
        return next((one for one in stop if one in text), None)

    if not stop or found(len(ids)) is None:
        return len(ids), None
    length = bisect_left(range(len(ids)), True, lo=1, key=lambda length: found(length) is not None)
    return length, found(length)


def _first_of(segment: Segment, length: int) -> Segment:
    """The first tokens of a segment."""
    return Segment(
        segment.token_ids[:length],
        segment.sampled[:length],
        segment.logprobs[:length],
        segment.versions[:length],
        segment.images,
        segment.masks[:length],
    )
